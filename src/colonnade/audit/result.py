"""What an audit found: a tidy table, a few pictures, and a verdict that says no more than the numbers do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.audit.rows import BASELINE, Row, summarised, summarised_columns, told_apart
from colonnade.audit.verdict import verdict
from colonnade.checkpoint import read_arrays, write_arrays
from colonnade.errors import RunError
from colonnade.line_file import plain
from colonnade.run import write_atomically

FORMAT = 1
FEWEST_SEEDS = 3
_SHOWN = ("defense", "strength", "attack", "knowledge", "party", "mse", "ssim", "skill", "skill_ci", "identification")

Pixels = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pictures:
    """A few targets as they were and as an attack guessed them, (records, channels, height, width) from 0 to 1.

    Attributes:
        keys: the row of the result that they belong to.
        originals: the true records.
        guesses: the attack's.
    """

    keys: Mapping[str, Any]
    originals: Pixels
    guesses: Pixels


@dataclass(frozen=True, repr=False)
class AuditResult:
    """What attacks found in the uploads of a trained model.

    Attributes:
        per_seed: one row for each attack, or trivial guess, on each party with each seed.
        columns_per_seed: the same for every column of a table.
        pictures: originals and guesses of a few records; real records, so keep them where the records may be.
        settings: how the audit was done: share of auxiliary records, targets, candidates, threshold, notes.
    """

    per_seed: pd.DataFrame
    columns_per_seed: pd.DataFrame = field(default_factory=pd.DataFrame)
    pictures: Sequence[Pictures] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_rows(
        cls, rows: Sequence[Row], columns: Sequence[Row], pictures: Sequence[Pictures], settings: Mapping[str, Any]
    ) -> AuditResult:
        """Return the result of these rows of single seeds."""
        return cls(pd.DataFrame(rows), pd.DataFrame(columns), tuple(pictures), settings)

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each attack and trivial guess on each party: means over the seeds, each with its `_ci`.

        `_ci` is half the width of the interval of 95 %. `skill` is the share of the blind guess's error that is gone.
        """
        return summarised(self.per_seed)

    @property
    def columns(self) -> pd.DataFrame:
        """The same for every column of a table: `skill` of numbers; `hits` of categories beside `majority`."""
        return summarised_columns(self.columns_per_seed)

    @property
    def verdict(self) -> list[str]:
        """One sentence for each defense and party about the strongest attack that was tried."""
        return verdict(self.frame, self.settings)

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers should know: what was not measured, what was left out."""
        told = [*self.settings.get("notes", []), *(f"left out: {one}" for one in self.settings.get("left_out", []))]
        if len(self.per_seed) and self.per_seed["seed"].nunique() < FEWEST_SEEDS:
            told.append(f"fewer than {FEWEST_SEEDS} seeds: chance may have made these numbers")
        return told

    def to_html(self, path: Path | str) -> Path:
        """Write one page that needs nothing else, with every number and every picture."""
        from colonnade.report.page import audit_page

        target = Path(path)
        write_atomically(target, audit_page(self).encode())
        return target

    def save(self, folder: Path | str) -> Path:
        """Write `audit.parquet` (means), `seeds.parquet`, `columns.parquet`, pictures and `audit.json`."""
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
            # Written last and taken away first: a kill in between leaves no result, and never a mixture of two.
            (target / "audit.json").unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot be written: {error.strerror}", where=str(target)) from error
        tables = {"audit": self.frame, "seeds": self.per_seed, "columns": self.columns_per_seed}
        for name, table in tables.items():
            if len(table):
                write_atomically(target / f"{name}.parquet", table.to_parquet(index=False))
            else:
                (target / f"{name}.parquet").unlink(missing_ok=True)
        shown = {f"{number}/originals": one.originals for number, one in enumerate(self.pictures)}
        shown |= {f"{number}/guesses": one.guesses for number, one in enumerate(self.pictures)}
        if shown:
            write_arrays(target / "pictures.safetensors", shown, {})
        else:
            (target / "pictures.safetensors").unlink(missing_ok=True)
        described = {
            "format": FORMAT,
            "settings": self.settings,
            "pictures": [one.keys for one in self.pictures],
            "verdict": self.verdict,
        }
        write_atomically(target / "audit.json", (json.dumps(plain(described), indent=1) + "\n").encode())
        return target

    @classmethod
    def load(cls, folder: Path | str) -> AuditResult:
        """Read what `save` wrote."""
        source = Path(folder)
        try:
            described = json.loads((source / "audit.json").read_bytes())
            keys, settings = described["pictures"], described["settings"]
            tables = [_table(source / f"{name}.parquet") for name in ("seeds", "columns")]
        except FileNotFoundError as error:
            remedy = "give a folder that an audit wrote"
            raise RunError("is no result of an audit", where=str(source), remedy=remedy) from error
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise RunError(f"is damaged: {error}", where=str(source), remedy="run the audit again") from error
        arrays = read_arrays(source / "pictures.safetensors")[0] if keys else {}
        shown = [
            Pictures(key, arrays[f"{number}/originals"], arrays[f"{number}/guesses"]) for number, key in enumerate(keys)
        ]
        return cls(tables[0], tables[1], tuple(shown), settings)

    def __repr__(self) -> str:
        frame = self.frame
        named = ["attack", "attack_settings"]
        attacks = len(frame.loc[frame["knowledge"] != BASELINE, named].drop_duplicates())
        lines = [f"AuditResult: {attacks} {'attack' if attacks == 1 else 'attacks'} beside trivial guesses"]
        lines += [f"  {sentence}" for sentence in (*self.verdict, *self.notes)]
        shown = [name for name in _SHOWN if not frame[name].isna().all()]
        table = frame[shown].assign(defense=told_apart(frame))
        lines.append(table.to_string(index=False, float_format="{:.3f}".format, na_rep="–", max_rows=24))
        return "\n".join(lines)


def _table(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path) if path.is_file() else pd.DataFrame()
