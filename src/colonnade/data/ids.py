"""Ids that can align records: unique, none missing, all integers or all text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.errors import DataError


def check_ids(ids: pd.Index, where: str) -> pd.Index:
    """Return ids as an index of int64 or of strings; raise DataError unless they are unique and of one type."""
    if isinstance(ids, pd.MultiIndex):
        raise DataError("ids span several columns", where=where, remedy="join them into one column")
    index: pd.Index = pd.Index(ids)
    missing = np.flatnonzero(index.isna())
    if missing.size:
        what = "1 id is" if missing.size == 1 else f"{missing.size} ids are"
        remedy = "give each record an id, or drop the row"
        raise DataError(f"{what} missing, at {row_numbers(missing)}", where=where, remedy=remedy)
    index = _of_one_type(index, where)
    if not index.is_unique:
        twice = index.duplicated(keep=False)
        count, rows = index[twice].nunique(), np.flatnonzero(twice)
        what = "1 id occurs" if count == 1 else f"{count} ids occur"
        remedy = "keep one row for each id"
        raise DataError(f"{what} more than once, at {row_numbers(rows)}", where=where, remedy=remedy)
    unnamed: pd.Index = index.rename(None)
    return unnamed


def row_numbers(rows: npt.NDArray[np.intp]) -> str:
    """Say which rows are meant, counted from 0 without the header: `rows 3, 7, 9, 12, 20 and 12 more`."""
    return f"row{'' if rows.size == 1 else 's'} {_some(rows.tolist())}"


def record_names(ids: pd.Index) -> str:
    """Say which records are meant, by their ids: `record p0007`; never to be told to another party."""
    return f"record{'' if ids.size == 1 else 's'} {_some(ids.tolist())}"


def _some(values: list[Any], shown: int = 5) -> str:
    more = f" and {len(values) - shown} more" if len(values) > shown else ""
    return ", ".join(map(str, values[:shown])) + more


def _of_one_type(index: pd.Index, where: str) -> pd.Index:
    if index.empty:
        return index
    if not pd.api.types.is_integer_dtype(index.dtype):
        index = pd.Index(np.asarray(index, dtype=object))
    kind = pd.api.types.infer_dtype(index, skipna=False)
    if kind == "string":
        return index
    if kind == "integer":
        try:
            # By way of Python integers where a plain cast would wrap around.
            whole_ids = index.to_numpy(dtype=object) if index.dtype == "uint64" else index
            integers: pd.Index = pd.Index(whole_ids, dtype="int64")
        except OverflowError:
            raise DataError("ids do not fit in 64 bits", where=where, remedy="write them as text") from None
        return integers
    text = np.fromiter((isinstance(value, str) for value in index), dtype=bool, count=len(index))
    whole = np.fromiter(
        (isinstance(value, int | np.integer) and not isinstance(value, bool) for value in index), bool, len(index)
    )
    expected, what = (text, "text") if text.sum() >= whole.sum() else (whole, "integers")
    if not text.any() and not whole.any():
        raise DataError(f"ids are of type {kind}", where=where, remedy="ids must be all integers or all text")
    raise DataError(
        f"ids are of mixed types: most are {what}, but not {row_numbers(np.flatnonzero(~expected))}",
        where=where,
        remedy="ids must be all integers or all text",
    )
