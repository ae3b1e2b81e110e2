"""Means over seeds, with the interval that tells whether a difference is more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from colonnade.bench.registry import Row

_MEANT = ("edges", "shd", "f1", "precision", "recall", "inter_f1", "intra_f1", "correlation", "seconds", "bytes")
_SAME = (
    "method", "data", "secure", "parties", "columns", "attributes", "records", "standardised", "unit_variance",
)  # fmt: skip

# Two-sided 95 % points of Student's t by degrees of freedom; beyond the list the normal distribution's.
_STUDENT = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL = 1.96


def with_means(rows: Sequence[Row]) -> list[Row]:
    """Return one row of means (its `seed` None) for each group that differs in the seed only, then all rows."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in _SAME), []).append(row)
    return [*(_mean(group) for group in groups.values()), *rows]


def interval(values: Sequence[float]) -> float | None:
    """Return half the width of the 95 % interval of a mean; None for fewer than two values.

    >>> round(interval([1.0, 2.0, 3.0]), 2)
    2.48
    """
    if len(values) < 2:
        return None
    factor = _STUDENT[len(values) - 1] if len(values) <= len(_STUDENT) else _NORMAL
    return round(factor * stdev(values) / math.sqrt(len(values)), 4)


def _mean(group: Sequence[Row]) -> Row:
    mean = {**group[0], "seed": None, "seeds": len(group)}
    for name in _MEANT:
        values = _numbers(group, name)
        mean[name] = round(fmean(values), 4) if values else None
    for name in ("shd", "f1"):
        mean[f"{name}_interval"] = interval(_numbers(group, name))
    return mean


def _numbers(group: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in group if row[name] is not None]
