"""How far may a mean over a few runs be off?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

from scipy.special import stdtrit

_UPPER = 0.975  # leaves 2.5 % above and as much below: an interval of 95 %


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the mean, from Student's t; None for fewer than two values.

    Write the mean as ``mean ± interval``.

    >>> round(interval([1.0, 2.0, 3.0]), 2)
    2.48
    """
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, _UPPER)) * stdev(values) / math.sqrt(len(values))
