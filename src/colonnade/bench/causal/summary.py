"""Means over seeds, with the interval that tells whether a difference is more than chance."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from statistics import fmean

from colonnade.bench.registry import Row
from colonnade.measure.interval import interval

_MEANT = ("edges", "shd", "f1", "precision", "recall", "inter_f1", "intra_f1", "correlation", "seconds", "bytes")


def with_means(rows: Sequence[Row], groups: Sequence[Hashable]) -> list[Row]:
    """Return one row of means (its `seed` None) for each group, then all rows.

    Args:
        rows: of single seeds.
        groups: of each row what is the same in all that differ in the seed only.
    """
    together: dict[Hashable, list[Row]] = {}
    for row, group in zip(rows, groups, strict=True):
        together.setdefault(group, []).append(row)
    return [*(_mean(group) for group in together.values()), *rows]


def _mean(group: Sequence[Row]) -> Row:
    mean = {**group[0], "seed": None, "seeds": len(group)}
    for name in _MEANT:
        values = _numbers(group, name)
        mean[name] = round(fmean(values), 4) if values else None
    for name in ("shd", "f1"):
        width = interval(_numbers(group, name))
        mean[f"{name}_interval"] = None if width is None else round(width, 4)
    return mean


def _numbers(group: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in group if row[name] is not None]
