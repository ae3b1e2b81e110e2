"""Sensitive columns as numbers: what a defense hides and an attacker guesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.label_preparation import LabelPreparation
from colonnade.errors import DataError

UNKNOWN = -1
"""The class of a record whose secret is missing, or is one that no training record has."""


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

    Args:
        secrets: the sensitive columns, one row a record.
        trained_on: the rows to learn from.
        where: whose they are, for errors.
    """
    return [_prepared(secrets[name], trained_on, f"{where}: secret '{name}'") for name in secrets.columns]


def _prepared(column: pd.Series, trained_on: npt.NDArray[np.int64], where: str) -> Secret:
    learned = column.iloc[trained_on].dropna()
    if learned.nunique() < 2:
        what = "is the same in all training records" if len(learned) else "is missing in all training records"
        raise DataError(f"{what}: there is nothing to hide", where=where, remedy="leave it out of the secrets")
    preparation = LabelPreparation().fit(learned)
    known = column.notna().to_numpy()
    if preparation.kind == "regression":
        values = np.full(len(column), np.nan, np.float32)
        values[known] = preparation.transform(column[known])
        return Secret(str(column.name), values, 0)
    known = known & column.isin(list(learned.unique())).to_numpy()
    numbers = np.full(len(column), UNKNOWN, np.int64)
    numbers[known] = preparation.transform(column[known])
    return Secret(str(column.name), numbers, preparation.outputs)
