"""Rows of a result: one for each attack, party and seed, and their means with what chance may do to them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from colonnade.attack.base import Attack
from colonnade.audit.score import MEASURES
from colonnade.defend.base import Defense
from colonnade.learn.part import BottomPart
from colonnade.measure.interval import interval
from colonnade.nets import default_cut

KEYS = (
    "dataset", "cut", "defense", "strength", "attack", "knowledge", "party", "defense_settings", "attack_settings",
)  # fmt: skip
"""What tells two rows of a result apart; beside these, rows of single seeds have `seed` and `model_seed`."""
NUMBERS = (*MEASURES, "accuracy", "accuracy_cost")
COLUMN_KEYS = (*KEYS, "column", "kind")
COLUMN_NUMBERS = ("skill", "hits", "majority")

BASELINE = "baseline"
"""Stands in place of an attack's strength where nothing was attacked."""

EVERYBODY = "all"
"""Stands in place of a party where the parties' strips were laid side by side again."""

Row = dict[str, Any]


def victim_keys(dataset: str, party: str, bottom: BottomPart) -> Row:
    """Return the keys that say whose uploads were attacked."""
    recipe = bottom.recipe
    cut = recipe["cut"]
    return {
        "dataset": dataset,
        "cut": default_cut(recipe["family"], recipe["hidden"]) if cut is None else cut,
        "defense": bottom.defense.name,
        "strength": strength_of(bottom.defense),
        "party": party,
        "defense_settings": settings_of(bottom.defense.describe()),
    }


def attack_keys(attack: Attack) -> Row:
    """Return the keys that say what was tried."""
    return {"attack": attack.name, "knowledge": attack.strength, "attack_settings": settings_of(attack.describe())}


def baseline_keys(name: str) -> Row:
    """Return the keys of a trivial guess."""
    return {"attack": name, "knowledge": BASELINE, "attack_settings": "{}"}


def strength_of(defense: Defense) -> float:
    """Return the value of the defense's knob, or of its only parameter; NaN where no one number says it.

    >>> from colonnade.defend import make_defense
    >>> strength_of(make_defense("gaussian", sigma=0.5)), strength_of(make_defense("none"))
    (0.5, nan)
    """
    described = {name: value for name, value in defense.describe().items() if name != "name"}
    knob = defense.knob or (next(iter(described)) if len(described) == 1 else None)
    value = described.get(knob) if knob else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def settings_of(described: Mapping[str, Any]) -> str:
    """Return all parameters as one JSON text, so that no two settings share a row."""
    own = {name: value for name, value in described.items() if name not in ("name", "strength", "knowledge")}
    return json.dumps(own, sort_keys=True, default=str)


def told_apart(frame: pd.DataFrame) -> pd.Series[str]:
    """Return each row's defense by its name, with the settings that differ where some of them share a strength."""
    names = frame["defense"].copy()
    for name, group in frame.groupby("defense"):
        kinds = group[["strength", "defense_settings"]].drop_duplicates()
        if kinds["strength"].duplicated().any():
            names[group.index] = [f"{name} ({told})" for told in _differences(group["defense_settings"])]
    return names


def defense_names(frame: pd.DataFrame) -> pd.Series[str]:
    """Return each row's defense with its strength, and with whatever else differs among those of its name.

    >>> told = {"defense": ["none", "prune", "prune"], "strength": [math.nan, 0.9, 0.99], "defense_settings": "{}"}
    >>> defense_names(pd.DataFrame(told)).tolist()
    ['none', 'prune 0.9', 'prune 0.99']
    """
    names = frame["defense"].astype(object)
    for name, group in frame.groupby("defense"):
        strengths = group["strength"].tolist()
        told = [str(name) if math.isnan(strength) else f"{name!s} {strength:g}" for strength in strengths]
        also = _differences(_beside(group["defense_settings"], strengths))
        names[group.index] = [f"{one} ({more})" if more else one for one, more in zip(told, also, strict=True)]
    return names


def attack_names(frame: pd.DataFrame) -> pd.Series[str]:
    """Return each row's attack by its name, with the settings that differ where there are several of that name."""
    names = frame["attack"].copy()
    for name, group in frame.groupby("attack"):
        if group["attack_settings"].nunique() > 1:
            names[group.index] = [f"{name} ({told})" for told in _differences(group["attack_settings"])]
    return names


def summarised(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each group that differs in the seed only: means, and `_ci`, half the interval of 95 %."""
    return _summary(rows, KEYS, NUMBERS)


def summarised_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the same for the single columns of tables."""
    return _summary(rows, COLUMN_KEYS, COLUMN_NUMBERS)


def of_whole_pictures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of whole pictures where these tell of several defenses: strips tell the same once more.

    Where parties chose unlike defenses, whole pictures have one mixed name, and strips alone tell whose upload is open.
    """
    whole = rows[rows["party"] == EVERYBODY]
    return whole if whole["defense_settings"].nunique() > 1 or whole["defense"].nunique() > 1 else rows


def _beside(settings: Iterable[str], strengths: Sequence[float]) -> list[str]:
    """Return the settings without what is the strength in all of them."""
    each = [json.loads(text) for text in settings]
    known = [(one, strength) for one, strength in zip(each, strengths, strict=True) if not math.isnan(strength)]
    knobs = {name for one in each for name in one if known and all(_is(one.get(name), told) for one, told in known)}
    return [json.dumps({name: value for name, value in one.items() if name not in knobs}) for one in each]


def _is(value: Any, strength: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and float(value) == strength


def _differences(settings: Iterable[str]) -> list[str]:
    """Return of each settings, written by `settings_of`, in words what is not the same in all."""
    each = [json.loads(text) for text in settings]
    names = sorted({name for one in each for name in one})
    differing = [name for name in names if len({json.dumps(one.get(name)) for one in each}) > 1]
    return [", ".join(f"{name} {one.get(name)}" for name in differing) for one in each]


def _summary(rows: pd.DataFrame, keys: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    found: list[Row] = []
    if len(rows):
        for values, group in rows.groupby(list(keys), sort=False, dropna=False):
            key = dict(zip(keys, values, strict=True))
            found.append({**key, **_means(pd.DataFrame(group), numbers)})
    measured = [column for name in numbers for column in (name, f"{name}_ci")]
    settings = [key for key in keys if key.endswith("_settings")]
    return pd.DataFrame(found, columns=[*(key for key in keys if key not in settings), "seeds", *measured, *settings])


def _means(group: pd.DataFrame, numbers: Sequence[str]) -> Row:
    mean: Row = {"seeds": int(group["seed"].nunique())}
    for name in numbers:
        # Several attacks on one model do not make its accuracy any surer.
        values = group.drop_duplicates("model_seed")[name] if name.startswith("accuracy") else group[name]
        known = values.dropna().tolist()
        mean[name] = sum(known) / len(known) if known else math.nan
        half = interval(known) if all(map(math.isfinite, known)) else None
        mean[f"{name}_ci"] = math.nan if half is None else half
    return mean
