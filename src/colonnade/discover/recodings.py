"""Columns of one party that are the same in other words: a text and its code tell the same records apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.discover.variables import MAX_LEVELS
from colonnade.errors import DataError

_SIGHTINGS = 2
"""How often each level is seen on average, at least: numbers that never repeat fit one another whatever they mean."""


@dataclass(frozen=True)
class _Coded:
    """A column with few levels: `codes` (n,) counts them in the order in which they appear; -1 is missing."""

    name: str
    codes: npt.NDArray[np.int64]
    levels: int

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Where it has a value."""
        return self.codes >= 0


def refuse_recodings(table: pd.DataFrame, where: str) -> None:
    """Raise if two columns have levels that go together one to one, whatever the levels are called.

    `prepare_columns` finds copies among columns of one kind; these are texts and their codes, and codes of codes.

    Args:
        table: the party's columns, one row a record.
        where: the party's name, for errors.

    Raises:
        DataError: names both columns.

    Example:
        >>> refuse_recodings(pd.DataFrame({"town": ["Bern", "Chur", "Bern", "Chur"], "code": [4, 9, 4, 9]}), "clinic")
        Traceback (most recent call last):
        colonnade.errors.DataError: clinic: columns 'town' and 'code' say the same thing ...
    """
    coded = [column for name in table.columns if (column := _code(table[name])) is not None]
    for first, second in combinations(coded, 2):
        if first.levels == second.levels and _one_to_one(first, second):
            raise DataError(
                f"columns '{first.name}' and '{second.name}' say the same thing",
                where=where,
                remedy="leave one of them out: cause and effect cannot be told apart",
            )


def _code(column: pd.Series) -> _Coded | None:
    """Return the column's codes; None where it has too many levels to be a category."""
    codes, levels = pd.factorize(column)
    known = int((codes >= 0).sum())
    if len(levels) > MAX_LEVELS or _SIGHTINGS * len(levels) > known:
        return None
    return _Coded(str(column.name), codes.astype(np.int64), len(levels))


def _one_to_one(first: _Coded, second: _Coded) -> bool:
    both = first.known & second.known
    common = int(both.sum())
    # Too few common records prove nothing, as for copies of one kind.
    if 2 * common < min(first.known.sum(), second.known.sum()) or common < _SIGHTINGS * first.levels:
        return False
    pairs = np.bincount(first.codes[both] * first.levels + second.codes[both], minlength=first.levels**2)
    met = pairs.reshape(first.levels, first.levels) > 0
    return bool(met.sum() > 1 and met.sum(axis=0).max() == 1 and met.sum(axis=1).max() == 1)
