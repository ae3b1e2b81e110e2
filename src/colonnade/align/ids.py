"""A party's ids: what may be an id, how it is spelt as bytes, in which order ids stand, and their digest."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.errors import DataError

Rows = npt.NDArray[np.int64]

_SHOWN = 5  # row numbers that an error lists


@dataclass(frozen=True, eq=False)
class Ids:
    """The checked ids of one party.

    Attributes:
        kind: `integer` or `string`, the same for all of them.
        spelt: each id as bytes. The kind is part of the spelling: 7 and "7" are different ids.
        ascending: the rows in ascending order of their ids. Numbers go by value, strings by code point.
    """

    kind: str
    spelt: list[bytes]
    ascending: Rows

    def __len__(self) -> int:
        return len(self.spelt)

    def among(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """Return the rows that `mask` marks, in ascending order of their ids."""
        return self.ascending[mask[self.ascending]]

    def digest(self, rows: Rows) -> str:
        """Return the SHA-256 over the ids at `rows`, in that order."""
        return hashlib.sha256(self.joined(rows)).hexdigest()

    def joined(self, rows: Rows) -> bytes:
        """Return the ids at `rows` one after the other, each after its length, so that no two lists read alike."""
        return b"".join(len(self.spelt[row]).to_bytes(4, "big") + self.spelt[row] for row in rows)


def check_ids(ids: pd.Index | pd.Series | npt.NDArray[Any] | Sequence[Any], party: str) -> Ids:
    """Return the ids of `party` ready for alignment, or raise a `DataError` that says which row is at fault.

    Nothing is normalised: " 7", "7" and "007" are three ids.

    >>> check_ids([30, 4], "clinic").spelt
    [b'integer:30', b'integer:4']
    """
    values = ids.tolist() if isinstance(ids, pd.Index | pd.Series | np.ndarray) else list(ids)
    if not values:
        raise DataError("there is no record to align", where=party, remedy="check the file and the id column")
    _refuse_missing(values, party)
    kind = _common_kind(values, party)
    values = [int(value) for value in values] if kind == "integer" else values
    _refuse_duplicates(values, party)
    ascending = np.array(sorted(range(len(values)), key=values.__getitem__), dtype=np.int64)
    return Ids(kind, [_spell(kind, value, row, party) for row, value in enumerate(values)], ascending)


def _refuse_missing(values: Sequence[Any], party: str) -> None:
    rows = [row for row, value in enumerate(values) if _is_missing(value)]
    if rows:
        raise DataError(
            f"{len(rows)} of {len(values)} records have no id: {_some(rows)}",
            where=party,
            remedy="drop these rows, or give each an id of its own",
        )


def _is_missing(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, str) and not value)


def _common_kind(values: Sequence[Any], party: str) -> str:
    kinds = [_kind(value) for value in values]
    for row, kind in enumerate(kinds):
        if kind is None:
            raise _unusable(values[row], row, party)
        if kind != kinds[0]:
            raise DataError(
                f"ids are of mixed types: row 0 holds {_article(kinds[0])}, row {row} {_article(kind)}",
                where=party,
                remedy="make the id column all integers or all strings",
            )
    return kinds[0] or ""


def _kind(value: Any) -> str | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return "integer"
    return "string" if isinstance(value, str) else None


def _unusable(value: Any, row: int, party: str) -> DataError:
    remedy = "make the id column all integers or all strings"
    if isinstance(value, float | np.floating):
        remedy = "a CSV column with gaps becomes floats: read it as strings or as 'Int64' and drop rows without an id"
    return DataError(f"row {row} has an id of type {type(value).__name__}", where=party, remedy=remedy)


def _refuse_duplicates(values: Sequence[Any], party: str) -> None:
    repeated = pd.Series(values, dtype=object).duplicated(keep=False).to_numpy()
    if repeated.any():
        rows = np.flatnonzero(repeated).tolist()
        distinct = len({values[row] for row in rows})
        raise DataError(
            f"{distinct} ids occur more than once, in {len(rows)} of {len(values)} records: {_some(rows)}",
            where=party,
            remedy="keep one record per id",
        )


def _spell(kind: str, value: Any, row: int, party: str) -> bytes:
    try:
        return f"{kind}:{value}".encode()
    except UnicodeEncodeError:
        raise DataError(
            f"the id in row {row} is no valid Unicode text", where=party, remedy="read the file with its true encoding"
        ) from None


def _some(rows: Iterable[int]) -> str:
    rows = list(rows)
    shown = ", ".join(str(row) for row in rows[:_SHOWN])
    return f"row{'s' if len(rows) > 1 else ''} {shown}{', …' if len(rows) > _SHOWN else ''} (counted from 0)"


def _article(kind: str | None) -> str:
    return "an integer" if kind == "integer" else "a string"
