"""For how many records did an attack succeed, by the published threshold?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.measure.reconstruct import Floats


def asr(errors: npt.ArrayLike, threshold: float) -> float:
    """Attack success rate as published: the share of records whose error is at most `threshold`.

    The literature takes .1 for UnSplit and .025 for URVFL. Read it with care: plain grey has an error below .1 for
    about 90 % of CIFAR-10's images, so that an attack which learned nothing "succeeds" as often.

    >>> asr([0.01, 0.02, 0.2, 0.3], threshold=0.1)
    0.5
    """
    return float(np.mean(_errors(errors) <= threshold))


def _errors(errors: npt.ArrayLike) -> Floats:
    values = np.asarray(errors, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        what = f"an array of shape {values.shape} is no list of errors"
        raise DataError(what, where="measure", remedy="give one error for each of at least one record")
    return values
