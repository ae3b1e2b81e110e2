"""What a party decides by itself and can't change on the way: a resumed run goes on with the choices it began with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.checkpoint import Checkpoints
from colonnade.data.records import Records
from colonnade.data.secrets import prepare_secrets
from colonnade.defend import DEFENSES
from colonnade.defend.base import Defense
from colonnade.errors import ConfigError
from colonnade.line_file import plain
from colonnade.run import Run


def require_choices(folder: Path, defense: Defense, records: Records, where: str) -> None:
    """Refuse to go on in a run folder with another defense, strength or secret than its checkpoints were made with.

    Here, before anything is opened or sent: the folder stays as it is, and nobody else hears of a secret's name.

    Args:
        folder: of the run; there may be none yet.
        defense: chosen now.
        records: with the secrets named now.
        where: the file that chooses, or the party.
    """
    found = _difference(_noted_choices(folder), choices_of(defense, records, where))
    if found:
        field, began, now = found
        what = f"the run began with {field.split('.')[-1]} {_shown(began)}, not {_shown(now)}"
        raise ConfigError(what, where=f"{where}: {field}", remedy="put it back, or choose another run name")


def choices_of(defense: Defense, records: Records, party: str) -> dict[str, Any]:
    """Return what a party decides by itself and can't change on the way: its defense and its secrets, no values."""
    sensitive: list[str] = []
    if records.secrets is not None and defense.needs_secrets:
        prepared = prepare_secrets(records.secrets, np.arange(len(records)), party)
        kinds = {one.name: f"{one.classes} classes" if one.classes else "a quantity" for one in prepared}
        sensitive = [f"{name} ({kind})" for name, kind in kinds.items()]
    elif records.secrets is not None:
        sensitive = [str(name) for name in records.secrets.columns]
    chosen: dict[str, Any] = plain({"defense": _with_file_contents(defense.describe()), "sensitive": sensitive})
    return chosen


def _with_file_contents(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a described defense with each file's content in place of its path, which depends on where one stands."""
    found = dict(described)
    name = found.get("name")
    for field in getattr(DEFENSES[name], "files", ()) if isinstance(name, str) and name in DEFENSES else ():
        if isinstance(found.get(field), str) and (path := Path(found[field])).is_file():
            found[field] = f"{path.name} ({blake2b(path.read_bytes(), digest_size=8).hexdigest()})"
    if _are_layers(found.get("layers")):
        found["layers"] = [_with_file_contents(layer) for layer in found["layers"]]
    return found


def _noted_choices(folder: Path) -> dict[str, Any]:
    """Return the choices that the newest checkpoint was made with; none where there is none, or an older version's."""
    checkpoints = Checkpoints(Run.open(folder).checkpoints if folder.exists() else None)
    steps = checkpoints.steps()
    noted: dict[str, Any] = checkpoints.load(steps[-1])[1].get("choices", {}) if steps else {}
    return noted


def _difference(began: Any, now: Any, field: str = "") -> tuple[str, Any, Any] | None:
    """Return the first field in which two choices differ, and both values; what only one version knows is passed by."""
    if isinstance(began, dict) and isinstance(now, dict):
        pairs = [(name, began[name], now[name]) for name in began if name in now]
    elif _are_layers(began) and _are_layers(now) and len(began) == len(now):
        pairs = [(str(place), *pair) for place, pair in enumerate(zip(began, now, strict=True))]
    else:
        return None if began == now else (field, began, now)
    found = (_difference(before, after, f"{field}.{name}" if field else name) for name, before, after in pairs)
    return next((one for one in found if one), None)


def _are_layers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    if isinstance(value, dict):
        return str(value.get("name"))
    return value if isinstance(value, str) else json.dumps(value)
