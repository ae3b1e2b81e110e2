"""Means over seeds, with the interval that tells whether a difference is more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from colonnade.bench.registry import Row
from colonnade.measure.interval import interval

_MEANT = ("edges", "shd", "f1", "precision", "recall", "inter_f1", "intra_f1", "correlation", "seconds", "bytes")
_SAME = (
    "method", "data", "secure", "parties", "columns", "attributes", "records", "standardised", "unit_variance",
)  # fmt: skip


def with_means(rows: Sequence[Row]) -> list[Row]:
    """Return one row of means (its `seed` None) for each group that differs in the seed only, then all rows."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in _SAME), []).append(row)
    return [*(_mean(group) for group in groups.values()), *rows]


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
