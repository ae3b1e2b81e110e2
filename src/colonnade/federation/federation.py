"""A federation in one process: who takes part, with which records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.partition import by_column, by_strip
from colonnade.data.records import Records
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.files import RESERVED

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Federation:
    """The parties, their roles and their records, for simulations and for trying things out.

    Build one with `from_frame`, `from_frames` or `from_images`.

    Attributes:
        records: each party's own records, in the order of the parties.
        active: the party that holds the label; None where there is none (discovery needs none).
        rows: once aligned, each party's row for every common position, -1 where it lacks the record.
        split: the active party's word on train, validation and test, one for each of its records.
    """

    records: Mapping[str, Records]
    active: str | None = None
    rows: Mapping[str, Rows] | None = None
    split: pd.Series[Any] | None = None

    def __post_init__(self) -> None:
        if len(self.records) < 2:
            raise ConfigError("a federation needs at least two parties", where="parties", remedy="name another party")
        if RESERVED in self.records:
            raise ConfigError(f"no party can be called '{RESERVED}'", where="parties", remedy="call it something else")
        if self.active is not None and self.records[self.active].label is None:
            raise DataError("the active party holds no label", where=self.active, remedy="name its label column")
        for party, records in self.records.items():
            if party != self.active and not records.has_features:
                raise DataError("a passive party needs columns", where=party, remedy="give it columns or leave it out")

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        parties: Mapping[str, Sequence[str]],
        label: tuple[str, str] | None = None,
        split: str | None = None,
        secrets: Mapping[str, Sequence[str]] | None = None,
    ) -> Federation:
        """Split one frame's columns over `parties`.

        Args:
            frame: all columns; its index holds the ids.
            parties: each party's columns.
            label: (party, column); the party may be one that holds nothing else.
            split: a column that says train, validation or test for each record.
            secrets: each party's sensitive columns; no features, unless `parties` lists them too.

        >>> frame = pd.DataFrame({"age": [30, 40], "glucose": [5.1, 6.2], "outcome": ["no", "yes"]})
        >>> Federation.from_frame(frame, {"clinic": ["age"], "lab": ["glucose"]}, label=("clinic", "outcome")).active
        'clinic'
        """
        kept = {party: list(columns) for party, columns in parties.items()}
        for column in [*([label[1]] if label else []), *([split] if split else [])]:
            if column not in frame.columns:
                raise DataError(f"no column '{column}'", where="frame", remedy=nearest(column, map(str, frame.columns)))
        if label is not None:
            kept = {label[0]: kept.pop(label[0], []), **kept} if label[0] not in kept else kept
        records = by_column(frame, kept, label=label, secrets=secrets)
        rows = {party: np.arange(len(frame)) for party in records}
        return cls(records, label[0] if label else None, rows, frame[split] if split else None)

    @classmethod
    def from_frames(
        cls,
        frames: Mapping[str, pd.DataFrame],
        label: tuple[str, str] | None = None,
        id_column: str | None = None,
        secrets: Mapping[str, Sequence[str]] | None = None,
        split: str | None = None,
    ) -> Federation:
        """Take one frame per party; ids may overlap in part. Align with `co.align` before training.

        Args:
            frames: each party's columns; the index holds the ids, where `id_column` names none.
            label: (party, column).
            id_column: the column with the ids, at every party.
            secrets: each party's sensitive columns, which are no features.
            split: a column at the label's party that says train, validation or test for each record; no feature.
        """
        kept = dict(secrets or {})
        for party in kept:
            if party not in frames:
                raise ConfigError(f"no party '{party}'", where="secrets", remedy=nearest(party, frames))
        if label is not None and label[0] not in frames:
            raise ConfigError(f"label owner '{label[0]}' is no party", where="label", remedy=nearest(label[0], frames))
        active = label[0] if label else None
        parts = None if split is None else _parts(frames, active, split)
        records = {
            party: Records.from_frame(
                frame if parts is None or party != active else frame.drop(columns=[split]),
                id_column=id_column,
                label=label[1] if label and label[0] == party else None,
                secrets=kept.get(party, ()),
                where=party,
            )
            for party, frame in frames.items()
        }
        if parts is not None and active is not None:
            parts = parts.set_axis(records[active].ids)
        return cls(records, active, split=parts)

    @classmethod
    def from_images(
        cls,
        images: npt.NDArray[Any],
        label: npt.NDArray[Any] | pd.Series[Any],
        parties: Sequence[str],
        active: str = "active",
        split: npt.NDArray[Any] | None = None,
        *,
        secrets: Mapping[str, pd.DataFrame] | None = None,
    ) -> Federation:
        """Cut images (N, C, H, W) into vertical strips, one per party; a label-only party holds the labels.

        `secrets` are what strips must not show of their records, one frame of columns for each such party.
        """
        ids = pd.RangeIndex(len(images))
        labels = pd.Series(np.asarray(label), index=ids, name="label")
        records = by_strip(images, parties, label=(active, labels), ids=ids)
        for party, hidden in (secrets or {}).items():
            if party not in records:
                raise ConfigError(f"no party '{party}'", where="secrets", remedy=nearest(party, records))
            records[party] = replace(records[party], secrets=hidden)
        rows = {party: np.arange(len(ids)) for party in records}
        return cls(records, active, rows, None if split is None else pd.Series(split, index=ids))

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of all parties, in order."""
        return tuple(self.records)

    def aligned(self, rows: Mapping[str, Rows]) -> Federation:
        """Return the same federation with its records aligned."""
        return replace(self, rows=dict(rows))

    def __repr__(self) -> str:
        lines = [f"Federation of {len(self.records)} parties"]
        for party, records in self.records.items():
            held = _counted(len(records.columns)) if records.table is not None else "no columns"
            if records.images is not None:
                held = "images " + "×".join(map(str, records.images.shape[1:]))
            role = "active, label " + str(records.label.name) if records.label is not None else "passive"
            lines.append(f"  {party:<16} {role:<28} {len(records):>8} records, {held}")
        common = "not aligned yet" if self.rows is None else f"{len(next(iter(self.rows.values())))} aligned records"
        return "\n".join([*lines, f"  {common}"])


def _parts(frames: Mapping[str, pd.DataFrame], active: str | None, split: str) -> pd.Series[Any]:
    """Return the column of the active party that says what each of its records is for."""
    if active is None:
        raise ConfigError("only the label's party says what records are for", where="split", remedy="give label= too")
    frame = frames[active]
    if split not in frame.columns:
        raise DataError(f"no column '{split}'", where=active, remedy=nearest(split, map(str, frame.columns)))
    return frame[split]


def _counted(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"
