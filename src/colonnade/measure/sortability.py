"""Could a causal graph be read off one number per variable, such as its variance?

Where data are simulated, causes often have smaller variances than their effects, and sorting by variance finds the
graph without learning anything (Reisach et al., arXiv 2102.13647 and 2303.18211). These functions say how far an order
by such numbers agrees with a graph. A party hands over one number for each of its variables and nothing else.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

# Standardised columns have equal variances but for rounding, which must not look like an order.
_TIE = 1e-9


def sortability(scores: npt.ArrayLike, graph: npt.ArrayLike) -> float:
    """Share of directed paths along which the score grows from the first cause to the last effect; ties count half.

    As in the published definition, all paths of one length between the same two variables count as one.

    Args:
        scores: one finite number for each variable.
        graph: acyclic mask or weights, [cause, effect].

    Returns:
        1 where sorting upwards finds a causal order, 0 where sorting downwards does, .5 where neither helps; NaN for a
        graph without edges.

    >>> chain = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    >>> sortability([1.0, 2.0, 3.0], chain), sortability([1.0, 1.0, 1.0], chain), sortability([3.0, 2.0, 1.0], chain)
    (1.0, 0.5, 0.0)
    """
    values, edges = np.asarray(scores, dtype=np.float64), np.asarray(graph) != 0
    if values.ndim != 1 or edges.shape != (len(values), len(values)) or not np.isfinite(values).all():
        remedy = "give one finite number and one row and column of the graph for each variable"
        raise DataError(f"scores {values.shape} do not fit a graph {edges.shape}", where="measure", remedy=remedy)
    credit = _credit(values)
    agreeing, paths = 0.0, 0
    connected = edges  # by a path of 1 edge, then of 2, …
    for _ in range(len(values) - 1):
        agreeing += float(credit[connected].sum())
        paths += int(connected.sum())
        connected = connected @ edges
    return agreeing / paths if paths else math.nan


def varsortability(variances: npt.ArrayLike, graph: npt.ArrayLike) -> float:
    """Sortability by the variance of each raw column. Near 1: variances alone give the order away. See `sortability`.

    >>> varsortability([1.0, 4.0], [[0, 1], [0, 0]])
    1.0
    """
    if (np.asarray(variances, dtype=np.float64) < 0).any():
        raise DataError("a variance is negative", where="measure", remedy="give the variance of each variable")
    return sortability(variances, graph)


def r2_sortability(explained: npt.ArrayLike, graph: npt.ArrayLike) -> float:
    """Sortability by R², the share of each variable's variance that all others explain linearly. See `sortability`.

    Unlike the variance it survives standardising.

    >>> r2_sortability([0.9, 0.2], [[0, 1], [0, 0]])
    0.0
    """
    if (np.asarray(explained, dtype=np.float64) > 1).any():
        raise DataError("an R² is above 1", where="measure", remedy="give the share of variance that is explained")
    return sortability(explained, graph)


def _credit(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return 1 for each [cause, effect] whose score grows, one half where both are equal but for rounding."""
    growth = values[None, :] - values[:, None]
    tie = np.abs(growth) <= _TIE * np.maximum(np.abs(values)[None, :], np.abs(values)[:, None])
    return np.where(tie, 0.5, (growth > 0).astype(np.float64))
