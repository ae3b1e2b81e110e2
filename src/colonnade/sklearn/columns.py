"""What all estimators share: the columns of `X` dealt to parties, and errors as callers of scikit-learn expect them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from colonnade.data.partition import evenly
from colonnade.errors import ColonnadeError, ConfigError, DataError, nearest

Column = str | int
Parties = Mapping[str, Sequence[Column]]
RandomState = int | np.random.RandomState | None


class EstimatorError(ColonnadeError, ValueError):
    """A parameter or data that the federation refused; a ValueError too, as callers of scikit-learn expect."""


@contextmanager
def refused_as_value_error() -> Iterator[None]:
    """Raise what the federation refuses as an `EstimatorError`."""
    try:
        yield
    except (ConfigError, DataError) as error:
        raise EstimatorError(error.what, where=error.where, remedy=error.remedy) from error


def checked(estimator: BaseEstimator, X: Any, *, reset: bool = True, **checks: Any) -> pd.DataFrame:
    """Return `X` as `named` does; an array goes through scikit-learn's `checks`, a frame is checked where prepared."""
    if isinstance(X, pd.DataFrame):
        checks = {"skip_check_array": True}
    return named(estimator, validate_data(estimator, X, reset=reset, **checks))


def named(estimator: BaseEstimator, X: pd.DataFrame | npt.NDArray[Any]) -> pd.DataFrame:
    """Return a frame with named columns and numbered rows: the index of `X` is no id, it may repeat."""
    names = list(getattr(estimator, "feature_names_in_", [f"x{number}" for number in range(X.shape[1])]))
    if isinstance(X, pd.DataFrame):
        return X.set_axis(names, axis=1).reset_index(drop=True)
    return pd.DataFrame(X, columns=names)


def dealt(parties: Parties | None, columns: list[str], usual: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of each party's columns; without `parties`, the `usual` ones share them evenly."""
    if parties is None:
        return evenly(columns, usual)
    if not isinstance(parties, Mapping) or not all(isinstance(party, str) for party in parties):
        raise ConfigError("give the name of each party with its columns", where="parties", remedy="{'lab': [0, 1]}")
    return {party: _names(party, held, columns) for party, held in parties.items()}


def seed_of(random_state: RandomState) -> int:
    """Return the seed that stands for a random state; a whole number stands for itself."""
    drawn = check_random_state(random_state)  # refuses what is no random state, negative numbers too
    return int(random_state) if isinstance(random_state, Integral) else int(drawn.randint(2**31 - 1))


def _names(party: str, held: Sequence[Column], columns: list[str]) -> list[str]:
    if isinstance(held, str) or not isinstance(held, Iterable):
        raise ConfigError("columns must be a list", where=party, remedy=f"give [{held!r}]")
    return [_name(party, column, columns) for column in held]


def _name(party: str, column: Column, columns: list[str]) -> str:
    if isinstance(column, str):
        if column not in columns:
            raise ConfigError(f"no column '{column}'", where=party, remedy=nearest(column, columns))
        return column
    # A list of booleans would be taken for columns 0 and 1.
    if not isinstance(column, Integral) or isinstance(column, bool):
        raise ConfigError(f"{column!r} is no column", where=party, remedy="give names or whole numbers")
    if not -len(columns) <= column < len(columns):
        raise ConfigError(f"no column {column}, X has {len(columns)}", where=party, remedy="columns count from 0")
    return columns[column]
