"""How near is a found causal graph to the true one? Always next to what an empty and a random graph score.

Graphs are square masks: entry [cause, effect] is anything but zero where there is an edge. A share of nothing (the F1
of a kind of edge that neither graph has) is NaN; the precision of a graph without edges is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

Mask = npt.NDArray[np.bool_]


def shd(found: npt.ArrayLike, truth: npt.ArrayLike) -> int:
    """Structural Hamming distance: pairs of variables on which the graphs differ; a reversed edge counts once.

    The empty graph scores the number of true edges.

    >>> shd([[0, 1, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 1], [1, 0, 0], [0, 0, 0]])  # one reversed, one missing
    2
    """
    found, truth = _pair(found, truth)
    differs = found != truth
    return int((differs | differs.T).sum()) // 2


def precision(found: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Share of found edges that are true, with their direction. A graph without edges scores 0.

    >>> precision([[0, 1, 1], [0, 0, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [1, 0, 0]])
    0.5
    """
    found, truth = _pair(found, truth)
    return int((found & truth).sum()) / int(found.sum()) if found.any() else 0.0


def recall(found: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Share of true edges that were found, with their direction. NaN where the truth has none.

    >>> recall([[0, 1], [0, 0]], [[0, 1], [0, 0]])
    1.0
    """
    found, truth = _pair(found, truth)
    return int((found & truth).sum()) / int(truth.sum()) if truth.any() else math.nan


def f1(found: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Harmonic mean of precision and recall of directed edges. NaN where neither graph has an edge.

    The empty graph scores 0; a random order with the true number of edges about half the share of pairs with an edge.

    >>> f1([[0, 1, 1], [0, 0, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [1, 0, 0]])
    0.5
    """
    found, truth = _pair(found, truth)
    return _f1_within(found, truth, np.ones_like(truth))


def skeleton_f1(found: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """F1 of edges without their direction.

    >>> skeleton_f1([[0, 1, 1], [0, 0, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [1, 0, 0]])
    1.0
    """
    found, truth = _pair(found, truth)
    return _f1_within(found | found.T, truth | truth.T, np.triu(np.ones_like(truth)))


def inter_f1(found: npt.ArrayLike, truth: npt.ArrayLike, party: Sequence[str]) -> float:
    """F1 of directed edges between variables of different parties; `party` names the party of each variable.

    >>> inter_f1([[0, 1, 1], [0, 0, 1], [0, 0, 0]], [[0, 1, 1], [0, 0, 0], [0, 0, 0]], ["clinic", "clinic", "lab"])
    0.6666666666666666
    """
    found, truth = _pair(found, truth)
    return _f1_within(found, truth, ~_same_party(party, len(truth)))


def intra_f1(found: npt.ArrayLike, truth: npt.ArrayLike, party: Sequence[str]) -> float:
    """F1 of directed edges between variables of one party; `party` names the party of each variable.

    >>> intra_f1([[0, 1, 1], [0, 0, 1], [0, 0, 0]], [[0, 1, 1], [0, 0, 0], [0, 0, 0]], ["clinic", "clinic", "lab"])
    1.0
    """
    found, truth = _pair(found, truth)
    return _f1_within(found, truth, _same_party(party, len(truth)))


def graph_scores(
    found: npt.ArrayLike, truth: npt.ArrayLike, party: Sequence[str] | None = None
) -> dict[str, int | float]:
    """All scores of this module; those by kind of edge only where `party` names the party of each variable.

    >>> graph_scores([[0, 1], [0, 0]], [[0, 0], [1, 0]])
    {'shd': 1, 'f1': 0.0, 'precision': 0.0, 'recall': 0.0, 'skeleton_f1': 1.0}
    """
    scores: dict[str, int | float] = {
        "shd": shd(found, truth),
        "f1": f1(found, truth),
        "precision": precision(found, truth),
        "recall": recall(found, truth),
        "skeleton_f1": skeleton_f1(found, truth),
    }
    if party is not None:
        scores["inter_f1"] = inter_f1(found, truth, party)
        scores["intra_f1"] = intra_f1(found, truth, party)
    return scores


def empty_graph_scores(truth: npt.ArrayLike, party: Sequence[str] | None = None) -> dict[str, int | float]:
    """Scores of the graph without edges: the first thing a found graph must beat.

    >>> empty_graph_scores([[0, 1], [0, 0]])
    {'shd': 1, 'f1': 0.0, 'precision': 0.0, 'recall': 0.0, 'skeleton_f1': 0.0}
    """
    return graph_scores(np.zeros_like(np.asarray(truth)), truth, party)


def random_graph_scores(
    truth: npt.ArrayLike, edges: int, seed: int = 0, repeats: int = 100, party: Sequence[str] | None = None
) -> dict[str, float]:
    """Mean scores of `repeats` random acyclic graphs with `edges` edges.

    Each takes a random order of the variables and, among all pairs, as many as there are edges.

    >>> scores = random_graph_scores([[0, 1], [0, 0]], edges=1, repeats=1000)
    >>> scores["skeleton_f1"], round(scores["f1"], 1)
    (1.0, 0.5)
    """
    variables = len(_mask(truth))
    if not 0 <= edges <= variables * (variables - 1) // 2 or repeats < 1:
        remedy = f"give 0 to {variables * (variables - 1) // 2} edges and at least one repeat"
        what = f"no {repeats} acyclic graphs of {variables} variables with {edges} edges can be drawn"
        raise DataError(what, where="measure", remedy=remedy)
    random = np.random.default_rng(seed)
    drawn = [graph_scores(_random_graph(variables, edges, random), truth, party) for _ in range(repeats)]
    return {name: _mean_of_numbers([scores[name] for scores in drawn]) for name in drawn[0]}


def _random_graph(variables: int, edges: int, random: np.random.Generator) -> Mask:
    order = random.permutation(variables)
    earlier, later = np.triu_indices(variables, k=1)
    chosen = random.choice(len(earlier), size=edges, replace=False)
    graph = np.zeros((variables, variables), dtype=np.bool_)
    graph[order[earlier[chosen]], order[later[chosen]]] = True
    return graph


def _mean_of_numbers(values: Sequence[float]) -> float:
    numbers = [value for value in values if not math.isnan(value)]
    return sum(numbers) / len(numbers) if numbers else math.nan


def _f1_within(found: Mask, truth: Mask, region: Mask) -> float:
    right = int((found & truth & region).sum())
    named = int((found & region).sum()) + int((truth & region).sum())
    return 2 * right / named if named else math.nan


def _same_party(party: Sequence[str], variables: int) -> Mask:
    if len(party) != variables:
        what = f"{len(party)} parties are named for {variables} variables"
        raise DataError(what, where="measure", remedy="name the party of each variable, in their order")
    names = np.asarray(party, dtype=object)
    same: Mask = names[:, None] == names[None, :]
    return same


def _pair(found: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Mask, Mask]:
    left, right = _mask(found), _mask(truth)
    if left.shape != right.shape:
        remedy = "give both over the same variables in the same order"
        raise DataError(f"graphs {left.shape} and {right.shape} do not pair", where="measure", remedy=remedy)
    return left, right


def _mask(graph: npt.ArrayLike) -> Mask:
    mask: Mask = np.asarray(graph) != 0
    if mask.ndim != 2 or mask.shape[0] != mask.shape[1] or not mask.size:
        what = f"an array of shape {mask.shape} is no graph"
        raise DataError(what, where="measure", remedy="give one row and one column for each variable")
    if mask.diagonal().any():
        what = f"variable {int(mask.diagonal().argmax())} causes itself"
        raise DataError(what, where="measure", remedy="set the diagonal to zero")
    return mask
