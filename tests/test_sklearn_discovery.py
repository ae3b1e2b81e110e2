"""Causal discovery keeps scikit-learn's promises, and finds exactly what `co.discover` would."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import colonnade as co
from colonnade.errors import ColonnadeError
from colonnade.sklearn import EstimatorError, VerticalCausalDiscovery

SHORT = {"epochs": 2, "refit_epochs": 1, "hidden": 2, "least_strength": 0.0, "evidence": 0.0}
TINY = SHORT | {"epochs": 1, "batch_size": 400, "validate_every": 1}


@parametrize_with_checks(
    [
        VerticalCausalDiscovery(secure=False, settings=SHORT),
        VerticalCausalDiscovery(secure=False, settings=SHORT | {"missing": "impute"}),
        VerticalCausalDiscovery(settings=TINY),
    ]
)
def test_scikit_learn_conventions_hold(estimator, check):
    """All of them, with nothing excepted."""
    check(estimator)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    b = np.tanh(2 * a) + 0.3 * rng.normal(size=200)
    return pd.DataFrame({"c": np.sin(2 * b) + 0.3 * rng.normal(size=200), "a": a, "b": b, "d": rng.normal(size=200)})


PARTIES = {"lab": ["b", "a"], "clinic": ["c"]}


def quick(parties=None, **parameters):
    settings = SHORT | parameters.pop("settings", {})
    return VerticalCausalDiscovery(parties, **{"secure": False, "settings": settings, "random_state": 0, **parameters})


def test_the_estimator_finds_what_co_discover_finds(frame):
    """Otherwise results of a study with scikit-learn would not carry over to the real federation."""
    estimator = quick(PARTIES, random_state=7).fit(frame)
    federation = co.Federation.from_frame(frame, PARTIES)
    graph = co.discover(federation, False, seed=7, progress=False, **SHORT)
    pd.testing.assert_frame_equal(estimator.graph_.adjacency, graph.adjacency)
    assert len(graph.edges) > 0


def test_the_adjacency_stands_in_the_order_of_the_columns(frame):
    """Parties may name columns in another order, and leave some out; an index into X must not point elsewhere."""
    estimator = quick(PARTIES).fit(frame)
    assert estimator.graph_.variables == ("b", "a", "c")
    assert estimator.adjacency_.shape == (4, 4) and not estimator.adjacency_[:, 3].any()
    for cause, effect in np.ndindex(3, 3):
        names = frame.columns[cause], frame.columns[effect]
        assert estimator.adjacency_[cause, effect] == estimator.graph_.adjacency.loc[names]


def test_names_and_numbers_choose_the_same_columns(frame):
    by_number = quick({"lab": [2, 1], "clinic": [-4]})
    np.testing.assert_array_equal(by_number.fit(frame).adjacency_, quick(PARTIES).fit(frame).adjacency_)
    np.testing.assert_array_equal(by_number.fit(frame.to_numpy()).adjacency_, quick(PARTIES).fit(frame).adjacency_)
    assert by_number.parties_ == {"lab": ["x2", "x1"], "clinic": ["x0"]}


def test_without_parties_two_share_the_columns(frame):
    assert quick().fit(frame).parties_ == {"first": ["c", "a"], "second": ["b", "d"]}


def test_knowledge_kinds_and_settings_arrive(frame):
    known = {"required": [("d", "a")], "roots": ["d"]}
    graph = quick(knowledge=known, settings={"evidence": 1e9}).fit(frame).graph_
    assert [(edge.cause, edge.effect) for edge in graph.edge_list()] == [("d", "a")]
    by_party = quick({"clinic": ["c", "a"], "lab": ["b", "d"]}, knowledge={"lab": co.Knowledge(sinks=["b", "d"])})
    assert not by_party.fit(frame).adjacency_[2:].any()
    text = frame.assign(d=np.where(frame.d > 0, "yes", "no"), c=np.round(frame.c))
    assert quick(kinds={"c": "categorical"}).fit(text).adjacency_.shape == (4, 4)


def test_missing_values_need_a_policy(frame):
    holes = frame.mask(np.random.default_rng(0).uniform(size=frame.shape) < 0.1)
    with pytest.raises(EstimatorError, match=r"first: column 'c' has .* missing values .*missing='impute'"):
        quick().fit(holes)
    with pytest.raises(ValueError, match="NaN"):
        quick().fit(holes.to_numpy())
    found = quick(settings={"missing": "impute"}).fit(holes)
    np.testing.assert_array_equal(
        found.adjacency_, quick(settings={"missing": "impute"}).fit(holes.to_numpy()).adjacency_
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"settings": {"epoch": 3}}, "settings: unknown setting 'epoch' .*'epochs'"),
        ({"settings": {"secure": True}}, "settings: unknown setting 'secure' .*parameter of its own"),
        ({"settings": {"progress": True}}, "settings: unknown setting 'progress'"),
        ({"settings": {"epochs": 0}}, "epochs"),
        ({"recipe": "papr"}, "did you mean 'paper'"),
        ({"kinds": {"a": "number"}}, "column 'a' has the unknown kind 'number'"),
        ({"knowledge": {"root": ["a"]}}, "'root' is no party .*'roots'"),
        ({"knowledge": {"required": [("a", "b"), ("b", "a")]}}, "the cycle a → b → a"),
        ({"parties": {"lab": ["a"], "clinic": ["bb"]}}, "clinic: no column 'bb'"),
        ({"parties": {"lab": ["a"], "clinic": ["a"]}}, "'a' is at party 'lab' and again"),
        ({"parties": {"lab": ["a", "b"]}}, "at least two parties"),
        ({"parties": {"lab": ["a", "b"], "clinic": []}}, "'clinic' has neither columns nor the label"),
        ({"parties": [["a"], ["b"]]}, "parties: give the name of each party"),
    ],
)
def test_a_mistake_is_a_value_error_and_a_typed_one(frame, parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        quick(**parameters).fit(frame)
    assert isinstance(caught.value, ColonnadeError)


def test_one_column_is_no_graph(frame):
    with pytest.raises(EstimatorError, match="two columns"):
        quick().fit(frame[["a"]])


def test_clone_and_pickle_keep_everything(frame):
    estimator = quick(PARTIES, knowledge=co.Knowledge(roots=["a"]), kinds={"a": "continuous"})
    assert clone(estimator).get_params() == estimator.get_params()
    again = pickle.loads(pickle.dumps(estimator.fit(frame)))
    np.testing.assert_array_equal(again.adjacency_, estimator.adjacency_)
    pd.testing.assert_frame_equal(again.graph_.edges, estimator.graph_.edges)


def test_the_frame_is_left_alone_whatever_its_index(frame):
    odd = frame.set_axis(["same"] * len(frame), axis=0)
    before = odd.copy()
    np.testing.assert_array_equal(quick().fit(odd).adjacency_, quick().fit(frame).adjacency_)
    pd.testing.assert_frame_equal(odd, before)
