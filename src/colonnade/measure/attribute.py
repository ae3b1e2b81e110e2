"""How much of a secret was guessed? Beside what everybody can guess, and what the raw columns would tell.

A secret is an array of class numbers (integers; -1 where it is missing) or of numbers (floats; NaN where missing).
Records whose secret is missing count nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn import metrics

from colonnade.errors import DataError
from colonnade.measure.baseline import majority_class
from colonnade.measure.classify import accuracy
from colonnade.measure.regress import r2


class Score(NamedTuple):
    """How well a secret was guessed.

    Attributes:
        accuracy: the share of records whose class was guessed; for a secret that is a number, R².
        f1: F1 of each class, averaged; NaN for a number.
    """

    accuracy: float
    f1: float


@dataclass(frozen=True)
class Leak:
    """What one attacker found out about one secret, beside the two guesses that bound it.

    Attributes:
        attacker: who guessed.
        accuracy: of its guesses from the uploads; for a secret that is a number, R².
        f1: F1 of each class, averaged; NaN for a number.
        majority: accuracy of always guessing the class that is commonest among the auxiliary records; 0 for a number.
        majority_f1: F1 of that guess; NaN for a number.
        ceiling: accuracy of the same attacker on the raw columns; NaN where it was not measured.
        ceiling_f1: F1 of that.
    """

    attacker: str
    accuracy: float
    f1: float
    majority: float
    majority_f1: float
    ceiling: float = math.nan
    ceiling_f1: float = math.nan

    @property
    def advantage(self) -> float:
        """What the uploads told beyond what everybody can guess."""
        return self.accuracy - self.majority

    @property
    def normalised_advantage(self) -> float:
        """The advantage as a share of the ceiling's: 0 tells nothing, 1 as much as the raw columns.

        NaN where the raw columns tell nothing either.
        """
        room = self.ceiling - self.majority
        return self.advantage / room if room > 0 else math.nan


def is_known(secret: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return for each record whether its secret is known: no class -1, no NaN.

    >>> is_known([1, -1, 0]).tolist(), is_known([0.5, float("nan")]).tolist()
    ([True, False, True], [True, False])
    """
    values = np.asarray(secret)
    return values >= 0 if has_classes(values) else ~np.isnan(values)


def has_classes(secret: npt.ArrayLike) -> bool:
    """Return whether a secret is one of several classes (integers) and not a number (floats)."""
    kind = np.asarray(secret).dtype.kind
    if kind not in "iuf":
        what = f"a secret of type {np.asarray(secret).dtype} is neither class numbers nor numbers"
        raise DataError(what, where="measure", remedy="give integers from 0, or floats")
    return kind != "f"


def macro_f1(predicted: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """F1 of each class that occurs, averaged; for two classes as for more, so that no class must be the positive one.

    Always guessing a class of share p among k gives 2p / (1 + p) / k.

    >>> macro_f1([1, 1, 0, 0], [1, 0, 0, 0])
    0.7333333333333334
    """
    return float(metrics.f1_score(np.asarray(truth), np.asarray(predicted), average="macro", zero_division=0.0))


def secret_score(guesses: npt.ArrayLike, truth: npt.ArrayLike) -> Score:
    """Return how well a secret was guessed, over the records whose secret is known.

    >>> secret_score([1, 1, 0, 0], [1, 0, 0, -1]).accuracy
    0.6666666666666666
    >>> secret_score([0.0, 1.0, 5.0], [0.0, 1.0, float("nan")])
    Score(accuracy=1.0, f1=nan)
    """
    guessed, true = np.asarray(guesses), np.asarray(truth)
    if guessed.shape != true.shape:
        remedy = "give one guess for each record"
        raise DataError(f"guesses {guessed.shape} and secrets {true.shape} do not pair", where="measure", remedy=remedy)
    seen = is_known(true)
    if not seen.any():
        raise DataError("no record's secret is known", where="measure", remedy="give records with their secrets")
    if not has_classes(true):
        return Score(r2(guessed[seen], true[seen]), math.nan)
    return Score(accuracy(guessed[seen], true[seen]), macro_f1(guessed[seen], true[seen]))


def majority_score(auxiliary: npt.ArrayLike, truth: npt.ArrayLike) -> Score:
    """Return the score of one who saw no upload: always the commonest class of the auxiliary records.

    For a number that is the mean, whose R² is 0 by definition.

    >>> majority_score([0, 1, 1], [1, 1, 1, 0])
    Score(accuracy=0.75, f1=0.42857142857142855)
    """
    if not has_classes(auxiliary):
        return Score(0.0, math.nan)
    known = np.asarray(auxiliary)[is_known(auxiliary)]
    if not len(known):
        raise DataError("no auxiliary record's secret is known", where="measure", remedy="give some that are")
    return secret_score(np.full(np.shape(truth), majority_class(known)), truth)


def leak_of(attacker: str, found: Score, majority: Score, ceiling: Score | None = None) -> Leak:
    """Return what an attacker found, beside the score of a blind guess and that of the raw columns."""
    return Leak(attacker, *found, *majority, *(ceiling or (math.nan, math.nan)))
