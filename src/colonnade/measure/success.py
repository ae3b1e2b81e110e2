"""For how many records did an attack succeed? Beside the published threshold, one that a blind guess can't pass."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.measure.reconstruct import Floats


def asr(errors: npt.ArrayLike, threshold: float) -> float:
    """Attack success rate as published: the share of records whose error is at most `threshold`.

    The literature takes .1 for UnSplit and .025 for URVFL. Read it with care: plain grey has an error below .1 for
    about 90 % of CIFAR-10's images, so that an attack which learned nothing "succeeds" as often. See `asr_skill`.

    >>> asr([0.01, 0.02, 0.2, 0.3], threshold=0.1)
    0.5
    """
    return float(np.mean(_errors(errors) <= threshold))


def asr_skill(errors: npt.ArrayLike, baseline_errors: npt.ArrayLike, least: float = 0.5) -> float:
    """Share of records of whose mean guess's error an attack takes away more than the share `least`.

    Each record is held against its own mean guess, so that guessing the mean scores 0 however close to the mean some
    records are. A record that the mean guess gets exactly right has nothing left to find and is no success.

    Args:
        errors: the attack's error for each record.
        baseline_errors: for each record, the error of the mean of the records that the attacker knows.
        least: the skill that counts as success.

    >>> asr_skill([0.01, 0.04, 0.09], [0.1, 0.06, 0.06])
    0.3333333333333333
    """
    attack, baseline = _paired(errors, baseline_errors)
    return float(np.mean(attack < (1 - least) * baseline))


def normalised_mse(errors: npt.ArrayLike, baseline_errors: npt.ArrayLike) -> float:
    """Mean error divided by the mean guess's: 1 shows nothing, 0 everything. It is 1 − skill.

    NaN where the mean guess makes no error.

    >>> normalised_mse([0.01, 0.02], [0.06, 0.06])
    0.25
    """
    attack, baseline = _paired(errors, baseline_errors)
    mean = float(baseline.mean())
    return float(attack.mean()) / mean if mean > 0 else math.nan


def _paired(errors: npt.ArrayLike, baseline_errors: npt.ArrayLike) -> tuple[Floats, Floats]:
    attack, baseline = _errors(errors), _errors(baseline_errors)
    if attack.shape != baseline.shape:
        what = f"{len(attack)} errors and {len(baseline)} of the mean guess do not pair"
        raise DataError(what, where="measure", remedy="give both for the same records")
    return attack, baseline


def _errors(errors: npt.ArrayLike) -> Floats:
    values = np.asarray(errors, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        what = f"an array of shape {values.shape} is no list of errors"
        raise DataError(what, where="measure", remedy="give one error for each of at least one record")
    return values
