"""What a method offers between accuracy and privacy, as one number: the area that its front dominates.

A point is a pair of gains, both better when larger: how much of the task is kept, and how much of the leak is gone.
`Axes` turns what was measured into such a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from colonnade.errors import DataError

Point = tuple[float, float]

REFERENCE: Point = (0.0, 0.0)
"""A model that learned nothing and hides nothing: what every point is held against."""


@dataclass(frozen=True)
class Axes:
    """The scales of the two gains: each runs from what is trivial to what the undefended model does.

    Attributes:
        trivial: target score of always guessing the commonest label.
        undefended: target score of the undefended model.
        majority: leak of always guessing the commonest value of the secret.
        undefended_leak: leak of the undefended model's uploads.
    """

    trivial: float
    undefended: float
    majority: float
    undefended_leak: float

    def point(self, target: float, leak: float) -> Point:
        """Return the two gains of one model.

        The first is the kept share of what the undefended model learned: 0 where the model does no better than the
        commonest label; above 1 where it does better than the undefended one. The second is the share of the
        undefended leak that is gone, from 0 to 1. Not a number where there was nothing to learn, or nothing to hide.

        >>> axes = Axes(trivial=0.75, undefended=0.85, majority=0.67, undefended_leak=0.87)
        >>> tuple(round(gain, 2) for gain in axes.point(target=0.84, leak=0.72))
        (0.9, 0.75)
        """
        kept = _share(target, self.trivial, self.undefended)
        left = _share(leak, self.majority, self.undefended_leak)
        return max(kept, 0.0), 1 - min(max(left, 0.0), 1.0)


def pareto(points: Iterable[Point]) -> list[Point]:
    """Return the points that no other one reaches in both gains, each once, from the least first gain to the largest.

    >>> pareto([(0.9, 0.2), (0.5, 0.5), (0.8, 0.1), (0.2, 0.9)])
    [(0.2, 0.9), (0.5, 0.5), (0.9, 0.2)]
    """
    front: list[Point] = []
    for first, second in sorted((_checked(point) for point in points), reverse=True):
        # Of points with the same first gain the best in the second comes first.
        if not front or second > front[-1][1]:
            front.append((first, second))
    return front[::-1]


def hypervolume(points: Iterable[Point], reference: Point = REFERENCE) -> float:
    """Return the area of all pairs of gains that some point reaches or exceeds, counted from `reference`; exact.

    A point that is not above the reference in both gains adds nothing. With gains from `Axes`, 1 is a model as good as
    the undefended one that leaks nothing beyond the majority guess; 0 is any choice between the undefended model itself
    and one that learned nothing.

    >>> hypervolume([(0.5, 1.0), (1.0, 0.5)])
    0.75
    """
    least, floor = _checked(reference)
    above = [point for point in pareto(points) if point[0] > least and point[1] > floor]
    area, start = 0.0, least
    for first, second in above:  # from left to right the second gain falls: one column of the area each
        area += (first - start) * (second - floor)
        start = first
    return area


def _share(value: float, trivial: float, undefended: float) -> float:
    return (value - trivial) / (undefended - trivial) if undefended > trivial else math.nan


def _checked(point: Point) -> Point:
    first, second = (float(gain) for gain in point)
    if not (math.isfinite(first) and math.isfinite(second)):
        remedy = "leave out what has no scale: the undefended model must learn and leak something"
        raise DataError(f"({first}, {second}) is no point of a front", where="front", remedy=remedy)
    return first, second
