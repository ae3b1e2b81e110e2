"""Numbers and booleans that are text: a CSV file of a few records forgets that a column of codes is one."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}

Spelt = bool | float


def text_again(values: pd.Series, known: Iterable[str]) -> npt.NDArray[np.object_] | None:
    """Return numbers or booleans as the text that training knew them as, or None where that can't be told.

    It is one value that is looked for, however it was written: a reader makes 7 of the code `007`, and 250.0 of `250`
    as soon as a value is missing. What training never saw is written plainly.

    Args:
        values: numbers or booleans, some of which may be missing.
        known: the text of training. Where none of it could have been read as such a value, or where one of the
            values was written in two ways, the answer is None.

    >>> text_again(pd.Series([250.0, None, 13.0]), ["250", "A1"]).tolist()
    ['250', None, '13']
    >>> text_again(pd.Series([250, 13]), ["Bern", "Chur"]) is None
    True
    """
    boolean = pd.api.types.infer_dtype(values, skipna=True) == "boolean"
    spellings: dict[Spelt, set[str]] = {}
    for text in known:
        value = _BOOLEANS.get(text.lower()) if boolean else float(text) if _NUMBER.fullmatch(text) else None
        if value is not None:
            spellings.setdefault(value, set()).add(text)
    found = [None if pd.isna(value) else _spelt(bool(value) if boolean else value, spellings) for value in values]
    if not spellings or "" in found:
        return None
    again = np.full(len(found), None, dtype=object)
    again[:] = found
    return again


def _spelt(value: Spelt, spellings: dict[Spelt, set[str]]) -> str:
    """Return how training wrote a value; nothing where it wrote it in several ways."""
    ways = spellings.get(value)
    if ways is None:
        return str(value if isinstance(value, bool) or value != int(value) else int(value))
    return next(iter(ways)) if len(ways) == 1 else ""
