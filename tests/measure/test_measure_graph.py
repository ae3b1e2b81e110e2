"""Scores of causal graphs: held against their definitions, and next to what trivial graphs score."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from colonnade.errors import DataError
from colonnade.measure.graph import (
    empty_graph_scores,
    f1,
    graph_scores,
    inter_f1,
    intra_f1,
    precision,
    random_graph_scores,
    recall,
    shd,
    skeleton_f1,
)


def graph(variables, *edges):
    mask = np.zeros((variables, variables), dtype=bool)
    for cause, effect in edges:
        mask[cause, effect] = True
    return mask


def drawn(seed, variables, share):
    random = np.random.default_rng(seed)
    mask = np.triu(random.random((variables, variables)) < share, k=1)
    order = random.permutation(variables)
    return mask[np.ix_(order, order)]


TRUTH = graph(4, (0, 1), (1, 2), (2, 3), (0, 3))
PARTY = ["clinic", "clinic", "lab", "lab"]


def test_a_reversed_an_extra_and_a_missing_edge_cost_one_each():
    """Tables could not be compared with published ones, which count a reversal once."""
    assert shd(graph(4, (0, 1), (1, 2), (3, 2), (0, 3)), TRUTH) == 1
    assert shd(graph(4, (0, 1), (1, 2), (2, 3), (0, 3), (0, 2)), TRUTH) == 1
    assert shd(graph(4, (0, 1), (1, 2), (0, 3)), TRUTH) == 1
    assert shd(graph(4, (1, 0), (1, 2), (0, 3), (0, 2)), TRUTH) == 3
    assert shd(TRUTH, TRUTH) == 0


def test_an_edge_against_one_in_both_directions_differs_once():
    """A truth with an undirected edge would punish each answer twice."""
    assert shd(graph(2, (0, 1)), graph(2, (0, 1), (1, 0))) == 1


def test_strengths_count_as_edges():
    """Whoever forgets to make a mask would get another answer."""
    found = np.array([[0, 0.3], [0, 0]])
    assert graph_scores(found, graph(2, (0, 1)))["f1"] == 1.0


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 9), st.floats(0.1, 0.9))
def test_scores_equal_scikit_learns_on_ordered_pairs(seed, variables, share):
    """Our F1 would mean something else than everybody's."""
    found, truth = drawn(seed, variables, share), drawn(seed + 1, variables, 0.5)
    if not truth.any():
        return
    pairs = ~np.eye(variables, dtype=bool)
    scores = graph_scores(found, truth)
    for name, reference in [
        ("f1", metrics.f1_score),
        ("precision", metrics.precision_score),
        ("recall", metrics.recall_score),
    ]:
        assert scores[name] == pytest.approx(reference(truth[pairs], found[pairs], zero_division=0.0))
    upper = np.triu_indices(variables, k=1)
    expected = metrics.f1_score((truth | truth.T)[upper], (found | found.T)[upper], zero_division=0.0)
    assert scores["skeleton_f1"] == pytest.approx(expected)


@given(st.integers(0, 2**32 - 1), st.integers(2, 8))
def test_distance_is_symmetric_and_bounded(seed, variables):
    """A wrong graph could come out nearer than a right one."""
    left, right = drawn(seed, variables, 0.5), drawn(seed + 1, variables, 0.5)
    assert shd(left, right) == shd(right, left) <= variables * (variables - 1) // 2
    assert (shd(left, right) == 0) == bool((left == right).all())


@given(st.integers(0, 2**32 - 1), st.permutations(range(6)))
def test_scores_do_not_depend_on_the_order_of_variables(seed, order):
    """The same federation would score differently when parties join in another order."""
    found, truth = drawn(seed, 6, 0.5), drawn(seed + 1, 6, 0.5)
    party = np.array(["a", "a", "b", "b", "b", "c"])
    square = np.ix_(order, order)
    left, right = graph_scores(found, truth, party), graph_scores(found[square], truth[square], party[order])
    assert left == pytest.approx(right, nan_ok=True)


def test_edges_between_and_within_parties_are_told_apart():
    """Nobody could see whether edges across organisations are found at all."""
    found = graph(4, (0, 1), (1, 2), (3, 2), (1, 3))
    assert intra_f1(found, TRUTH, PARTY) == 0.5  # 0 -> 1 right, 2 -> 3 reversed
    assert inter_f1(found, TRUTH, PARTY) == 0.5  # 1 -> 2 right, 0 -> 3 missing, 1 -> 3 wrong


def test_a_share_of_nothing_is_no_number():
    """An absent kind of edge would pull a mean down, or up."""
    inside = graph(4, (0, 1))
    assert math.isnan(inter_f1(inside, inside, PARTY))
    assert math.isnan(f1(graph(2), graph(2)))
    assert math.isnan(recall(graph(2, (0, 1)), graph(2)))
    assert f1(graph(2, (0, 1)), graph(2)) == 0.0
    assert precision(graph(2), graph(2, (0, 1))) == 0.0


def test_the_empty_graph_scores_the_number_of_true_edges():
    """A distance that no graph at all would reach could be sold as a result."""
    scores = empty_graph_scores(TRUTH, PARTY)
    assert scores == {
        "shd": 4, "f1": 0.0, "precision": 0.0, "recall": 0.0, "skeleton_f1": 0.0, "inter_f1": 0.0, "intra_f1": 0.0
    }  # fmt: skip


def test_random_graphs_score_what_counting_predicts():
    """The baseline beside every table would be wrong."""
    truth = drawn(0, 10, 1.0)  # every pair has an edge
    scores = random_graph_scores(truth, edges=45, seed=3, repeats=400)
    assert scores["skeleton_f1"] == 1.0
    assert scores["f1"] == pytest.approx(0.5, abs=0.02)
    assert scores["shd"] == pytest.approx(22.5, abs=1)


def test_random_graphs_have_as_many_edges_and_repeat_with_the_seed():
    scores = random_graph_scores(TRUTH, edges=3, seed=1, repeats=50, party=PARTY)
    assert scores == random_graph_scores(TRUTH, edges=3, seed=1, repeats=50, party=PARTY)
    assert scores != random_graph_scores(TRUTH, edges=3, seed=2, repeats=50, party=PARTY)
    assert scores["precision"] * 3 == pytest.approx(scores["recall"] * 4)
    assert random_graph_scores(TRUTH, edges=0, repeats=2)["shd"] == 4


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: shd(graph(2), graph(3)), "do not pair"),
        (lambda: f1(np.zeros((2, 3)), graph(2)), "no graph"),
        (lambda: f1(np.zeros((0, 0)), np.zeros((0, 0))), "no graph"),
        (lambda: skeleton_f1(np.eye(2), graph(2)), "causes itself"),
        (lambda: inter_f1(TRUTH, TRUTH, ["clinic"]), "1 parties are named for 4"),
        (lambda: random_graph_scores(TRUTH, edges=7), "7 edges"),
        (lambda: random_graph_scores(TRUTH, edges=-1), "-1 edges"),
        (lambda: random_graph_scores(TRUTH, edges=1, repeats=0), "no 0 acyclic"),
    ],
)
def test_graphs_that_cannot_be_compared_are_refused(call, match):
    """A slip would score as a result."""
    with pytest.raises(DataError, match=match):
        call()
