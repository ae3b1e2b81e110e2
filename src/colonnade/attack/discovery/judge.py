"""How much of the foreign columns does a guess show? Always next to what the same guess shows of other records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.attack.discovery.base import Guess, Match
from colonnade.discover.exchange import Floats
from colonnade.errors import DataError

REPEATS = 20


@dataclass(frozen=True)
class Leak:
    """Means over the foreign columns.

    Attributes:
        correlation: absolute correlation of guess and truth, whatever the sign and the scale.
        correlation_baseline: the same after the guess's records were permuted. Where the best match of several is
            taken, so it is here, because the best of many is never nothing.
        r2: share of variance that the best line through the guess explains.
        r2_baseline: the same for permuted records.
        correlation_elsewhere: mean absolute correlation of a guessed column with the columns that it is *not* claimed
            to be: if it is as high as `correlation`, the attacker does not know which column is which.
    """

    correlation: float
    correlation_baseline: float
    r2: float
    r2_baseline: float
    correlation_elsewhere: float | None


def judge(guess: Guess, truth: Floats, seed: int = 0) -> Leak:
    """Hold a guess against the victims' columns of all records."""
    true = truth[guess.rows]
    if len(true) != len(guess.columns) or (guess.match == "claimed" and true.shape != guess.columns.shape):
        what = f"a guess of shape {guess.columns.shape} does not fit columns {true.shape}"
        raise DataError(what, where="judge", remedy="guess every foreign column for every record that is named")
    random = np.random.default_rng(seed)
    found = _shown(guess.columns, true, guess.match)
    blind = [_shown(guess.columns[random.permutation(len(true))], true, guess.match) for _ in range(REPEATS)]
    return Leak(
        correlation=float(found.mean()),
        correlation_baseline=float(np.mean(blind)),
        r2=float(np.square(found).mean()),
        r2_baseline=float(np.square(blind).mean()),
        correlation_elsewhere=_elsewhere(guess.columns, true) if guess.match == "claimed" else None,
    )


def _shown(guess: Floats, true: Floats, match: Match) -> Floats:
    """Return an absolute correlation for each true column."""
    if match == "span":
        basis, values, _ = np.linalg.svd(guess - guess.mean(axis=0), full_matrices=False)
        basis = basis[:, values > 1e-9 * values[0]]
        shown: Floats = np.linalg.norm(basis.T @ _standardised(true), axis=0)
        return shown
    pairs = _correlations(guess, true)
    return np.diagonal(pairs) if match == "claimed" else pairs.max(axis=0)


def _elsewhere(guess: Floats, true: Floats) -> float | None:
    pairs = _correlations(guess, true)
    apart = ~np.eye(len(pairs), dtype=bool)
    return float(pairs[apart].mean()) if apart.any() else None


def _correlations(guess: Floats, true: Floats) -> Floats:
    return np.abs(_standardised(guess).T @ _standardised(true))


def _standardised(columns: Floats) -> Floats:
    """Centre columns and bring them to length one; a constant one becomes zero, which correlates with nothing."""
    centred = columns - columns.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    scaled: Floats = centred / np.where(length > 1e-12 * (1 + np.abs(columns).max(axis=0)), length, np.inf)
    return scaled
