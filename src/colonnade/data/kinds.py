"""What kind of values a column holds, and the values as plain numpy."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.errors import DataError

Kind = Literal["numeric", "text", "code"]
"""`numeric`: numbers and booleans; `text`: strings; `code`: a categorical of integers."""

_NUMERIC = {"integer", "floating", "mixed-integer-float", "boolean", "decimal"}
_MOMENTS = {"datetime64", "datetime", "date", "time", "timedelta64", "timedelta", "period", "interval"}


def column_kind(column: pd.Series, where: str | None = None) -> Kind | None:
    """Say which kind a column is; None when every value is missing; DataError for dates and mixtures."""
    inferred = _inferred(column)
    if inferred in _MOMENTS:
        raise holds_dates(str(column.name), where)
    if column.isna().all():
        return None
    if is_numeric(column):
        return "numeric"
    if inferred == "string":
        return "text"
    if inferred == "integer":  # only a categorical gets here: plain integers are numeric
        return "code"
    raise DataError(
        f"column '{column.name}' holds values of type {inferred}",
        where=where,
        remedy="make all its values numbers, or all text",
    )


def holds_dates(name: str, where: str | None = None) -> DataError:
    """Return the error for a column of dates or times."""
    remedy = "turn it into a number, such as days since an event, or leave it out"
    return DataError(f"column '{name}' holds dates or times", where=where, remedy=remedy)


def is_numeric(column: pd.Series) -> bool:
    """Whether a column holds numbers or booleans, in whatever pandas type."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return bool(pd.api.types.is_bool_dtype(dtype.categories.dtype))
    if pd.api.types.is_object_dtype(dtype):
        return pd.api.types.infer_dtype(column, skipna=True) in _NUMERIC
    if pd.api.types.is_bool_dtype(dtype):
        return True
    return pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)


def numeric_values(column: pd.Series) -> npt.NDArray[np.float64]:
    """Return a numeric column as float64 with NaN for missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan))


def category_values(column: pd.Series, kind: Kind) -> npt.NDArray[np.object_]:
    """Return a text or code column as an object array of str or int with None for missing."""
    present = column.notna().to_numpy()
    values = np.full(len(column), None, dtype=object)
    found = column[present].astype(object).to_numpy()
    values[present] = [int(value) for value in found] if kind == "code" else found
    return values


def _inferred(column: pd.Series) -> str:
    values = column.dtype.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return pd.api.types.infer_dtype(values, skipna=True)
