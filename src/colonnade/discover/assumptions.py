"""What the search for a graph takes for granted, and signs in the data that it does not hold.

Three things are looked at, and none of them needs a column to leave its party. The coordinator gets one number per
variable to see whether such numbers alone give the order away, and whether a variable is a copy of others. A party
looks at the residuals of its own variables alone; what it finds is its own to tell, since everybody can read a note.

A sign is no proof: a graph that lacks an edge, or decoders that were trained too briefly, leave the same traces. Nor is
silence one: a hidden cause whose effects were joined by an edge instead leaves no trace in their residuals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from colonnade.errors import DataError
from colonnade.measure.sortability import r2_sortability, varsortability

Floats = npt.NDArray[np.float64]

SORTABLE = 0.8
"""From here up, or as far below .5, one number per variable orders the graph suspiciously well."""
FEWEST_PATHS = 10
"""With fewer ordered pairs of variables, an order that fits is no wonder."""
COPY = 0.99
"""A variable explained to this share is likely to be a copy of another, or computed from others."""
SIGNIFICANCE = 0.001
"""All tests of one party together find something where nothing is with this probability (Bonferroni)."""
LEAST_CORRELATION = 0.1
"""Smaller correlations are not told, however many records make them significant."""
FEWEST_RECORDS = 30


def sortability_notes(
    variances: npt.ArrayLike, r2: npt.ArrayLike | None, mask: npt.ArrayLike, standardised: bool = True
) -> tuple[float, float, list[str]]:
    """As the coordinator: say how far variances and R² alone would have given the graph's order.

    Args:
        variances: of each raw column, before standardising.
        r2: the share of each variable's variance that all others explain; None if not known, not finite where a
            variable has none: it is not continuous, or did not vary in the last records. It must come from a model in
            which every other variable may explain it: explained by its causes alone, it grows along any graph.
        mask: the graph, [cause, effect].
        standardised: whether the search saw unit variances.

    Returns:
        Varsortability, R²-sortability among variables that have an R², and notes; NaN for a graph without edges.

    >>> chain = np.triu(np.ones((5, 5)), 1)
    >>> variance, _, notes = sortability_notes([1, 2, 3, 4, 5], None, chain)
    >>> variance, notes[0][:43]
    (1.0, 'variances alone order 100 % of the paths: t')
    """
    edges = np.asarray(mask) != 0
    by_variance = varsortability(variances, edges)
    explained, known = _known(r2, len(edges))
    by_r2 = r2_sortability(explained[known], edges[np.ix_(known, known)]) if known.any() else math.nan
    notes = []
    if _suspicious(by_variance, edges):
        consequence = (
            "this graph was found on standardised columns and does not rest on it, but scores of methods that see raw "
            "columns would say nothing about them"
            if standardised
            else "this graph may show no more than the scales of the columns; set standardise=True"
        )
        notes.append(f"variances alone order {_percent(by_variance)} of the paths: {consequence}")
    if _suspicious(by_r2, edges):
        notes.append(
            f"R² alone orders {_percent(by_r2)} of the paths: standardising does not take that away, and the graph may "
            "show no more than how well each variable can be predicted"
        )
    if r2 is not None and not known.all():
        notes.append(
            f"R² is that of {known.sum()} of {len(known)} variables: the others are no continuous numbers, "
            "or did not vary in the last records"
        )
    return by_variance, by_r2, notes


def _known(r2: npt.ArrayLike | None, count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    explained = np.full(count, math.nan) if r2 is None else np.asarray(r2, dtype=np.float64)
    return explained, np.isfinite(explained)


def copy_notes(r2: npt.ArrayLike) -> list[str]:
    """As the coordinator: say how many variables look like copies of others. Two parties may hold the same column.

    Args:
        r2: the share of each variable's variance that all others explain.

    >>> copy_notes([0.3, 0.999, 0.995])[0][:48]
    '2 variables are explained to 99 % or more by the'
    """
    copies = int((np.asarray(r2, dtype=np.float64) >= COPY).sum())
    if not copies:
        return []
    subject = "1 variable is" if copies == 1 else f"{copies} variables are"
    return [
        f"{subject} explained to {_percent(COPY)} or more by the others: parties may hold the same column, or one "
        "computed from others; cause and effect cannot be told apart there"
    ]


def residual_notes(
    residuals: npt.ArrayLike,
    names: Sequence[str],
    where: str,
    values: npt.ArrayLike | None = None,
    causes: npt.ArrayLike | None = None,
) -> list[str]:
    """As a party: look at what is left of the own variables once their causes are known.

    The noise of two variables is independent unless a cause of both is hidden, so their residuals should not be
    correlated. And what is left of a variable should neither follow its causes, nor be wider where they are larger.
    Both are judged by the mean of a product of two columns of mean 0 and variance 1 (a t-test: the product's own
    spread counts, so that neither normal nor equally spread residuals are needed). A note needs a correlation above
    `LEAST_CORRELATION` that is significant at `SIGNIFICANCE`, divided by the number of tests.

    Args:
        residuals: (records, variables) target minus prediction, in predicted standard deviations; NaN where missing or
            undefined. Better from records that were not learned from.
        names: of the variables.
        where: the party.
        values: (records, variables) the variables themselves.
        causes: (variables, variables) the party's own edges in the graph found, [cause, effect].

    Returns:
        One sentence for each sign, the strongest of its kind first. They tell something about the party's columns.
    """
    left = np.array(residuals, dtype=np.float64)
    if left.ndim != 2 or left.shape[1] != len(names):
        what = f"residuals {left.shape} do not fit {len(names)} variables"
        raise DataError(what, where=where, remedy="give one column of residuals for each variable")
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    edges: list[tuple[int, int]] = []
    if values is not None and causes is not None:
        edges = [(int(i), int(j)) for i, j in np.argwhere(np.asarray(causes) != 0)]
    level = SIGNIFICANCE / max(len(pairs) + 2 * len(edges), 1)
    hidden = [(_correlation(left[:, j], left[:, i], level), names[j], names[i]) for i, j in pairs]
    notes = [
        f"residuals of {first} and {second} at {where} are correlated ({found:+.2f}): a hidden common cause is "
        "possible, or an edge between them that was not found"
        for found, first, second in _strongest(hidden)
    ]
    if not edges:
        return notes
    known = np.where(np.isnan(left), np.nan, np.array(values, dtype=np.float64))
    follows = [(_correlation(known[:, i], left[:, j], level), names[i], names[j]) for i, j in edges]
    notes += [
        f"what is left of {effect} at {where} still follows its cause {cause} ({found:+.2f}): its decoder was trained "
        "too briefly, or is too small"
        for found, cause, effect in _strongest(follows)
    ]
    widens = [(_correlation(known[:, i], np.square(left[:, j]), level), names[i], names[j]) for i, j in edges]
    return notes + [
        f"the spread of {effect} at {where} depends on its cause {cause} ({found:+.2f}): noise is not merely added, "
        "and the direction of this edge is less sure"
        for found, cause, effect in _strongest(widens)
    ]


def _suspicious(share: float, edges: npt.NDArray[np.bool_]) -> bool:
    return abs(share - 0.5) >= SORTABLE - 0.5 - 1e-9 and _ordered_pairs(edges) >= FEWEST_PATHS


def _ordered_pairs(edges: npt.NDArray[np.bool_]) -> int:
    reach = edges
    for _ in range(len(edges)):
        reach = reach | (reach @ edges)
    return int(reach.sum())


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _correlation(first: Floats, second: Floats, level: float) -> float:
    """Return the correlation of two columns, 0 if it is small or may be chance."""
    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < FEWEST_RECORDS:
        return 0.0
    x, y = first[both] - first[both].mean(), second[both] - second[both].mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    # Columns that are constant but for rounding have no correlation.
    if size <= 1e-12 * len(x) * float(np.abs(first[both]).max() * np.abs(second[both]).max()):
        return 0.0
    found = float(x @ y) / size
    if abs(found) <= LEAST_CORRELATION:
        return 0.0
    products = x * y
    needed = -float(stdtrit(len(products) - 1, level / 2)) * float(products.std(ddof=1))
    return found if abs(float(products.mean())) * math.sqrt(len(products)) > needed else 0.0


def _strongest(signs: list[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    return sorted((sign for sign in signs if sign[0]), key=lambda sign: -abs(sign[0]))
