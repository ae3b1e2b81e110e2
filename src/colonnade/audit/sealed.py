"""A folder whose `*.json` names every other file, and itself, with a digest: what is missing or altered is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from colonnade.errors import ConfigError, RunError
from colonnade.learn.checkpoint import read_tensors, write_tensors
from colonnade.line_file import plain
from colonnade.run import write_atomically

FORMAT = 2
"""Folders of format 1 had no digest of the list itself; they are refused, because nobody can tell what they held."""

_OWN = "sha256"
"""The key under which the list holds the digest of all its other keys."""

Things = Mapping[str, Mapping[str, Tensor]]
"""Named tensors, by the name of the file that holds them (without its ending)."""


def seal(folder: Path, name: str, described: Mapping[str, Any], things: Things) -> str:
    """Fill a new folder with one safetensors file for each of `things`, then `name`.json; return that one's digest.

    The list comes last, so that a folder with a list is complete.
    """
    check_free(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, Any] = {}
        for thing, tensors in things.items():
            path = folder / f"{thing}.safetensors"
            write_tensors(path, tensors, {})
            shapes = {key: list(tensor.shape) for key, tensor in tensors.items()}
            files[path.name] = {"sha256": _digest(path.read_bytes()), "tensors": shapes}
    except OSError as error:
        raise RunError(f"cannot be written: {error.strerror}", where=str(folder)) from error
    # There and back, so that the digest is of what a reader gets: JSON has no tuples, and its keys are text.
    listed = json.loads(json.dumps(plain({"format": FORMAT, **described, "files": files})))
    text = json.dumps({**listed, _OWN: _digest_of_rest(listed)}, indent=1) + "\n"
    write_atomically(folder / f"{name}.json", text.encode())
    return _digest(text.encode())


def check_free(folder: Path) -> None:
    """Raise an error unless `seal` may fill this folder: nothing is overwritten, nothing strange is sealed in."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("is there already", where=str(folder), remedy="name a new folder: it must hold nothing else")


def unseal(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Read what `seal` wrote; a missing or altered file is an error that names it."""
    listed = folder / f"{name}.json"
    try:
        described = json.loads(listed.read_bytes())
        files = {str(file): str(entry["sha256"]) for file, entry in described["files"].items()}
        found = described["format"]
    except FileNotFoundError as error:
        raise RunError("is missing", where=str(listed), remedy=f"give a folder that holds a {name}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise RunError("is damaged", where=str(listed), remedy="get the folder anew") from error
    if found != FORMAT:
        remedy = "use the version of Colonnade that wrote it"
        raise RunError(f"is of format {found}, this program reads {FORMAT}", where=str(listed), remedy=remedy)
    if described.get(_OWN) != _digest_of_rest(described):
        raise RunError("has been altered", where=str(listed), remedy="get the folder anew")
    return described, {Path(file).stem: _verified(folder, file, digest) for file, digest in files.items()}


def _verified(folder: Path, file: str, digest: str) -> dict[str, Tensor]:
    path = folder / file
    if Path(file).name != file or not path.is_file():
        raise RunError("is missing", where=str(path), remedy="get the folder anew")
    if _digest(path.read_bytes()) != digest:
        raise RunError("has been altered", where=str(path), remedy="get the folder anew")
    return read_tensors(path)[0]


def _digest_of_rest(listed: Mapping[str, Any]) -> str:
    """Return the digest of a list without its own digest; how the file is indented and ordered does not matter."""
    rest = {key: value for key, value in listed.items() if key != _OWN}
    return _digest(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
