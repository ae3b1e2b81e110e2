"""What an audit of secrets found: a tidy table with floor and ceiling beside every number, and the worst case."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from colonnade.audit.rows import EVERYBODY, Row
from colonnade.errors import RunError
from colonnade.line_file import plain
from colonnade.measure.attribute import Leak
from colonnade.measure.interval import interval
from colonnade.run import write_atomically

FORMAT = 1
FEWEST_SEEDS = 3
WORST = "max"
"""Stands in place of an attacker where the best of all counts."""

KEYS = ("dataset", "method", "client", "secret", "attacker")
NUMBERS = ("leak", "leak_f1", "majority", "majority_f1", "ceiling", "ceiling_f1", "target")
_SEEDS = ("seed", "model_seed")
_SHOWN = ("method", "client", "secret", "attacker", "leak", "leak_ci", "majority", "ceiling", "leak_f1", "majority_f1")


def leak_row(leak: Leak) -> Row:
    """Return a leak under the names that it has in a table."""
    found = {"leak": leak.accuracy, "leak_f1": leak.f1, "majority": leak.majority, "majority_f1": leak.majority_f1}
    return {"attacker": leak.attacker, **found, "ceiling": leak.ceiling, "ceiling_f1": leak.ceiling_f1}


@dataclass(frozen=True, repr=False)
class AttributeResult:
    """What fresh attackers found out about secrets.

    Attributes:
        per_seed: one row for each attacker on each client's secret with each seed. Tables of several models can be put
            together: `AttributeResult(pd.concat([...]))`; columns that are added tell rows apart like the other keys.
        settings: how the audit was done.
    """

    per_seed: pd.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each attacker on each client's secret: means over the seeds, each with its `_ci`.

        `leak` is the attacker's accuracy, R² for a secret that is a number, and `leak_f1` the mean of the classes' F1;
        `majority` is what a blind guess has, `ceiling` the same attacker on the raw columns, `target` the model's own
        score. `_ci` is half the width of the interval of 95 %: over models where there are several, audits of one model
        being averaged first; else over the divisions of one model's records, which says nothing about other trainings.
        """
        return _summary(self.per_seed)

    def worst(self) -> pd.DataFrame:
        """Return one row for each client's secret: the best of all attackers, chosen anew with each seed.

        The choice is made on the targets, which favours the attackers a little: by as much as chance parts the best.
        """
        keys = [name for name in self.per_seed.columns if name not in (*NUMBERS, "attacker")]
        best = self.per_seed.groupby(keys, sort=False, dropna=False)[list(NUMBERS)].max().reset_index()
        return _summary(best.assign(attacker=WORST))

    @property
    def verdict(self) -> list[str]:
        """One sentence for each client's secret about the best of the attackers."""
        return [_sentence(row) for row in self.worst().to_dict("records")]

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers should know: which secrets were left out, whether seeds are few."""
        told = [f"left out: {one}" for one in self.settings.get("left_out", [])]
        if len(self.per_seed) and self.per_seed["seed"].nunique() < FEWEST_SEEDS:
            told.append(f"fewer than {FEWEST_SEEDS} seeds: chance may have made these numbers")
        return told

    def save(self, folder: Path | str) -> Path:
        """Write `attributes.parquet` (means), `attribute_seeds.parquet` and `attributes.json`."""
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot be written: {error.strerror}", where=str(target)) from error
        write_atomically(target / "attributes.parquet", self.to_frame().to_parquet(index=False))
        write_atomically(target / "attribute_seeds.parquet", self.per_seed.to_parquet(index=False))
        described = {"format": FORMAT, "settings": self.settings, "verdict": self.verdict}
        write_atomically(target / "attributes.json", (json.dumps(plain(described), indent=1) + "\n").encode())
        return target

    @classmethod
    def load(cls, folder: Path | str) -> AttributeResult:
        """Read what `save` wrote."""
        source = Path(folder)
        try:
            settings = json.loads((source / "attributes.json").read_bytes())["settings"]
            return cls(pd.read_parquet(source / "attribute_seeds.parquet"), settings)
        except FileNotFoundError as error:
            remedy = "give a folder that an audit of secrets wrote"
            raise RunError("is no result of an audit of secrets", where=str(source), remedy=remedy) from error
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise RunError(f"is damaged: {error}", where=str(source), remedy="run the audit again") from error

    def __repr__(self) -> str:
        frame = self.to_frame()
        attackers = frame["attacker"].nunique()
        lines = [f"AttributeResult: {attackers} fresh {'attacker' if attackers == 1 else 'attackers'}"]
        lines += [f"  {sentence}" for sentence in (*self.verdict, *self.notes)]
        shown = [name for name in _SHOWN if not frame[name].isna().all()]
        lines.append(frame[shown].to_string(index=False, float_format="{:.3f}".format, na_rep="–", max_rows=24))
        return "\n".join(lines)


def _summary(rows: pd.DataFrame) -> pd.DataFrame:
    keys = [name for name in rows.columns if name not in (*NUMBERS, *_SEEDS)]
    keys = [*KEYS, *(name for name in keys if name not in KEYS)]
    found = [
        {**dict(zip(keys, values, strict=True)), **_means(group)}
        for values, group in rows.groupby(keys, sort=False, dropna=False)
    ]
    return pd.DataFrame(found)


def _means(group: pd.DataFrame) -> Row:
    models = group.groupby("model_seed", sort=False)[list(NUMBERS)].mean()
    runs = models if len(models) > 1 else group
    told: Row = {"seeds": len(runs)}
    for name in NUMBERS:
        told[name] = float(runs[name].mean())
        # One model has one score, however often its uploads are attacked.
        values = (models if name == "target" else runs)[name].tolist()
        half = interval(values) if all(map(math.isfinite, values)) else None
        told[f"{name}_ci"] = math.nan if half is None else half
    return told


def _sentence(row: Mapping[Any, Any]) -> str:
    client = "all uploads together" if row["client"] == EVERYBODY else f"{row['client']}'s uploads"
    under = "" if row["method"] == "none" else f" under {row['method']}"
    floor, ceiling = row["majority"], row["ceiling"]
    if math.isnan(row["leak_f1"]):
        found, floor, ceiling = (f"{value:.3f}" for value in (row["leak"], floor, ceiling))
        return f"{client}{under} tell {row['secret']} with an R² of {found} (blindly {floor}, raw columns {ceiling})"
    half = row["leak_ci"]
    found = f"{100 * row['leak']:.1f}" + ("" if math.isnan(half) else f" ± {100 * half:.1f}")
    bounds = f"blindly {100 * floor:.1f} %, raw columns {100 * ceiling:.1f} %"
    return f"{client}{under} tell {row['secret']} of {found} % of the records ({bounds})"
