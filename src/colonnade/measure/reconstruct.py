"""How much of the records does a guess show? Always next to what a trivial guess shows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

Floats = npt.NDArray[np.float64]


def squared_error(guesses: npt.ArrayLike, truths: npt.ArrayLike) -> Floats:
    """Mean squared error of each record's guess. A single guess is held against every record.

    >>> squared_error([[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]).tolist()
    [0.5, 0.0]
    """
    guess, truth = np.asarray(guesses, dtype=np.float64), np.asarray(truths, dtype=np.float64)
    if guess.shape not in (truth.shape, truth.shape[1:]) or truth.ndim < 2 or not truth.size:
        remedy = "give one guess a record, or one guess for all"
        raise DataError(f"guesses {guess.shape} do not fit records {truth.shape}", where="measure", remedy=remedy)
    error: Floats = ((guess - truth) ** 2).reshape(len(truth), -1).mean(axis=1)
    return error


def skill(error: float, baseline_error: float) -> float:
    """Share of a trivial guess's error that is gone: 1 is perfect, 0 no better than the trivial guess.

    Below 0 is worse than guessing, which is no sign of protection. NaN where the trivial guess makes no error.

    >>> skill(0.015, 0.06)
    0.75
    """
    return 1 - error / baseline_error if baseline_error > 0 else math.nan


def identification_rate(guesses: npt.ArrayLike, truths: npt.ArrayLike, candidates: int = 1000) -> float:
    """Share of guesses whose nearest neighbour among `candidates` records is the true one.

    The candidates of a record are itself and those that follow it in `truths`, from the start again at the end; where
    there are fewer records than `candidates`, all of them. Ties share the credit, so that a blind guess gives
    1 / candidates.

    >>> identification_rate([[0.1], [0.9]], [[0.0], [1.0]])
    1.0
    >>> identification_rate([[0.5], [0.5]], [[0.0], [1.0]])
    0.5
    """
    truth = np.asarray(truths, dtype=np.float64)
    guess = np.asarray(guesses, dtype=np.float64)
    if guess.shape != truth.shape or truth.ndim < 2 or not len(truth):
        remedy = "give one guess for each record"
        raise DataError(f"guesses {guess.shape} do not fit records {truth.shape}", where="measure", remedy=remedy)
    guess, truth = guess.reshape(len(guess), -1), truth.reshape(len(truth), -1)
    count = min(candidates, len(truth))
    credit = [
        _credit(distances.take(range(row, row + count), mode="wrap"))
        for row, distances in enumerate(_squared_distances(guess, truth))
    ]
    return float(np.mean(credit))


def _squared_distances(guess: Floats, truth: Floats) -> Iterator[Floats]:
    """Yield each guess's squared distances to all records; as products of matrices, because images are long."""
    centre = truth.mean(axis=0)
    guess, truth = guess - centre, truth - centre
    lengths = (truth**2).sum(axis=1)
    for start in range(0, len(guess), 256):
        block = guess[start : start + 256]
        yield from (block**2).sum(axis=1)[:, None] + lengths - 2 * block @ truth.T


def _credit(distances: Floats) -> float:
    """Return 1 where the first record is the nearest, divided among those that are as near but for rounding."""
    as_near = distances <= distances.min() + 1e-9 * distances.max()
    return float(as_near[0]) / int(as_near.sum())
