"""Sensitive columns as numbers: what a defense hides and an attacker guesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.kinds import is_numeric, numeric_values
from colonnade.data.label_preparation import LabelPreparation
from colonnade.errors import DataError

UNKNOWN = -1
"""The class of a record whose secret is missing, or is one that no training record has."""
FEW = 4
"""So few records may each have a class of their own by chance."""


@dataclass(frozen=True)
class Secret:
    """One sensitive column.

    Attributes:
        name: of the column.
        values: class numbers, `UNKNOWN` where there is none; or a quantity in standard units, NaN where there is none.
        classes: how many classes there are; 0 for a quantity.
    """

    name: str
    values: npt.NDArray[np.int64] | npt.NDArray[np.float32]
    classes: int


def prepare_secrets(secrets: pd.DataFrame, trained_on: npt.NDArray[np.int64], where: str) -> list[Secret]:
    """Return every sensitive column as numbers, its classes or its scale learned from the training records.

    A column is read as a label would be: text, booleans and few whole numbers are classes, other numbers a quantity.

    Args:
        secrets: the sensitive columns, one row a record.
        trained_on: the rows to learn from.
        where: whose they are, for errors.
    """
    if not secrets.columns.is_unique:
        twice = secrets.columns[secrets.columns.duplicated()][0]
        raise DataError(f"secret '{twice}' is listed twice", where=where, remedy="list it once")
    return [_prepared(_whole(secrets[name]), trained_on, f"{where}: secret '{name}'") for name in secrets.columns]


def _prepared(column: pd.Series, trained_on: npt.NDArray[np.int64], where: str) -> Secret:
    learned = column.iloc[trained_on].dropna()
    if learned.nunique() < 2:
        what = "the same" if len(learned) else "missing"
        what = f"is {what} in all records to learn from: there is nothing to hide"
        raise DataError(what, where=where, remedy="leave it out of the secrets")
    if is_numeric(learned) and np.isinf(numeric_values(learned)).any():
        raise DataError("has infinite values", where=where, remedy="put numbers in their places, or leave them empty")
    known = column.notna().to_numpy()
    try:
        preparation = LabelPreparation().fit(learned)
        if preparation.kind == "regression":
            values = np.full(len(column), np.nan, np.float32)
            values[known] = preparation.transform(column[known])
            return Secret(str(column.name), values, 0)
        known = known & column.isin(list(learned.unique())).to_numpy()
        numbers = np.full(len(column), UNKNOWN, np.int64)
        numbers[known] = preparation.transform(column[known])
    except DataError as error:
        what = f"can be no secret: {error.what.replace('the label', 'it', 1)}"
        raise DataError(what, where=where, remedy=error.remedy or "make it text or numbers, or leave it out") from None
    if len(learned) > FEW and preparation.outputs == len(learned):
        what = "has another value in every record to learn from: it names records, and nobody can learn to guess it"
        raise DataError(what, where=where, remedy="leave it out of the secrets, or group its values")
    return Secret(str(column.name), numbers, preparation.outputs)


def _whole(column: pd.Series) -> pd.Series:
    """Return whole numbers with gaps, which pandas reads as floats, as whole numbers: they may be classes."""
    known = column.dropna()
    if len(known) == len(column) or not pd.api.types.is_float_dtype(column.dtype):
        return column
    return column.astype("Int64") if (known.abs() < 2**53).all() and (known % 1 == 0).all() else column
