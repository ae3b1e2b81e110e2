"""How good are predicted values?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.measure.reconstruct import skill


def rmse(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Root of the mean squared error. Guessing the mean gives the standard deviation of the truth.

    >>> rmse([2.0, 4.0], [1.0, 5.0])
    1.0
    """
    return math.sqrt(_mean_squared_error(predicted, truth))


def r2(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Share of the variance that is explained. Guessing the mean gives 0; NaN where the truth never varies.

    >>> r2([1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 3.0, 4.0])
    0.8
    """
    return skill(_mean_squared_error(predicted, truth), float(np.var(np.asarray(truth, dtype=np.float64))))


def regression_scores(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> dict[str, float]:
    """All scores of this module.

    >>> regression_scores([1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 3.0, 4.0])
    {'r2': 0.8, 'rmse': 0.5}
    """
    return {"r2": r2(predicted, truth), "rmse": rmse(predicted, truth)}


def _mean_squared_error(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    left, right = np.asarray(predicted, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if left.shape != right.shape or not left.size:
        remedy = "give one prediction for each of at least one record"
        raise DataError(f"predictions {left.shape} and truth {right.shape} do not pair", where="measure", remedy=remedy)
    return float(np.mean((left - right) ** 2))
