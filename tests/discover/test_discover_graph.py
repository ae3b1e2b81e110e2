"""The causal graph: what it promises to whoever reads, restricts or scores it."""

import math
import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from colonnade.discover.graph import CausalGraph
from colonnade.errors import ConfigError
from colonnade.measure.graph import graph_scores

NAMES = ["age", "bmi", "glucose", "insulin", "outcome"]
PARTY_OF = {"age": "clinic", "bmi": "clinic", "glucose": "lab", "insulin": "lab", "outcome": "registry"}
EDGES = {
    ("age", "bmi"): 0.4,
    ("bmi", "glucose"): 0.9,
    ("glucose", "insulin"): 0.7,
    ("glucose", "outcome"): 0.8,
    ("age", "outcome"): 0.2,
}


def frame(edges, names=NAMES):
    matrix = pd.DataFrame(np.zeros((len(names), len(names))), index=names, columns=names)
    for (cause, effect), value in edges.items():
        matrix.loc[cause, effect] = value
    return matrix


def example(**changes):
    arguments = {
        "adjacency": frame(EDGES),
        "party_of": PARTY_OF,
        "confidence": frame(dict.fromkeys(EDGES, 0.75) | {("insulin", "outcome"): 0.25}),
        "strengths": frame(EDGES | {("insulin", "outcome"): 0.05}),
        "notes": ["edges below .1 were left out"],
        "cost": {"seconds": 1.5, "bytes": np.int64(2048), "steps": 10},
        "varsortability": 0.5,
        "r2_sortability": 0.25,
    } | changes
    return CausalGraph(**arguments)


def test_a_cycle_is_refused_and_named():
    """A graph with a cycle is no causal graph: every tool behind it would fail in its own way."""
    with pytest.raises(ConfigError, match="cycle") as raised:
        example(adjacency=frame(EDGES | {("insulin", "bmi"): 0.1}))
    circle = raised.value.what.split(": ")[1].split(" -> ")
    assert circle[0] == circle[-1]
    steps = set(pairwise(circle))
    assert steps == {("bmi", "glucose"), ("glucose", "insulin"), ("insulin", "bmi")}
    with pytest.raises(ConfigError, match="age -> age"):
        example(adjacency=frame({("age", "age"): 0.1}))


def test_nothing_that_is_handed_out_can_change_the_graph():
    """Whoever sorts or edits a table would make the graph cyclic behind everybody's back."""
    given = frame(EDGES)
    graph = example(adjacency=given)
    given.loc["outcome", "age"] = 1.0
    taken, sure = graph.adjacency, graph.confidence
    taken.loc["outcome", "age"] = 1.0
    taken["age"] = 1.0
    sure.loc["age", "bmi"] = 0.0
    graph.party_of["age"] = "lab"
    graph.cost["seconds"] = 0
    assert graph.adjacency.equals(frame(EDGES))
    assert graph.confidence.loc["age", "bmi"] == 0.75
    assert graph.party_of == PARTY_OF
    assert graph.cost == {"seconds": 1.5, "bytes": 2048, "steps": 10}
    with pytest.raises(AttributeError):
        graph.adjacency = frame({})


def test_edges_are_a_tidy_table_the_strongest_first():
    """An analyst could not read the result without writing code."""
    edges = example().edges
    assert edges["cause"].tolist() == ["bmi", "glucose", "glucose", "age", "age"]
    assert edges["effect"].tolist() == ["glucose", "outcome", "insulin", "bmi", "outcome"]
    assert edges["strength"].tolist() == [0.9, 0.8, 0.7, 0.4, 0.2]
    assert edges["confidence"].tolist() == [0.75] * 5
    assert edges["kind"].tolist() == ["inter", "inter", "intra", "intra", "inter"]
    assert edges.loc[0, ["cause_party", "effect_party"]].tolist() == ["clinic", "lab"]
    assert example(confidence=None).edges["confidence"].isna().all()


def test_an_empty_graph_has_the_same_table_without_rows():
    """A script over many graphs would stop at the first that found nothing."""
    empty = example(adjacency=frame({}), confidence=None, strengths=None)
    assert empty.edges.columns.tolist() == example().edges.columns.tolist()
    assert empty.edges["strength"].dtype == np.float64
    assert len(empty.edges) == 0
    assert "0 edges" in repr(empty)


def test_order_parents_and_ancestors_follow_the_edges():
    graph = example()
    place = {name: number for number, name in enumerate(graph.order)}
    assert sorted(graph.order) == sorted(NAMES)
    assert all(place[cause] < place[effect] for cause, effect in EDGES)
    assert graph.parents("outcome") == ("age", "glucose")
    assert graph.ancestors("insulin") == ("age", "bmi", "glucose")
    assert graph.ancestors("age") == ()
    with pytest.raises(ConfigError, match="did you mean 'glucose'"):
        graph.parents("glucos")


def test_a_party_is_given_only_what_touches_its_variables():
    """reveal="own" would show a party how the others' columns hang together."""
    graph = example()
    own = graph.of("registry")
    assert own.reveal == "registry"
    assert own.variables == graph.variables
    assert {(edge.cause, edge.effect) for edge in own.edge_list()} == {("glucose", "outcome"), ("age", "outcome")}
    others = [name for name in NAMES if name != "outcome"]
    for matrix in (own.adjacency, own.confidence, own.strengths):
        assert (matrix.loc[others, others] == 0).all(axis=None)
    assert own.strengths.loc["insulin", "outcome"] == 0.05
    assert own.of("registry") is own
    assert "only edges that touch variables of registry" in repr(own)
    with pytest.raises(ConfigError, match="only the edges of 'registry'"):
        own.of("lab")
    with pytest.raises(ConfigError, match="did you mean 'lab'"):
        graph.of("labb")


def test_a_party_graph_with_foreign_edges_cannot_be_made():
    """A file could claim to hold one party's edges and hold all."""
    for part in ("adjacency", "confidence", "strengths"):
        parts = {"adjacency": frame({}), "confidence": None, "strengths": None} | {part: frame({("age", "bmi"): 0.5})}
        with pytest.raises(ConfigError, match="do not touch 'lab'"):
            example(**parts, reveal="lab")
    with pytest.raises(ConfigError, match="holds no variable"):
        example(reveal="own")


def test_a_party_named_all_is_not_taken_for_everybody():
    graph = CausalGraph(frame({("a", "b"): 1.0}, ["a", "b"]), {"a": "all", "b": "lab"})
    with pytest.raises(ConfigError, match="named 'all'"):
        graph.of("all")


def test_score_finds_the_truth_by_name_whatever_its_order():
    """A truth with its columns in another order would score as noise."""
    graph = example()
    truth = frame({("age", "bmi"): 1, ("glucose", "bmi"): 1, ("insulin", "outcome"): 1})
    shuffled = truth.loc[NAMES[::-1], NAMES[2:] + NAMES[:2]]
    expected = graph_scores(frame(EDGES), truth, list(PARTY_OF.values()))
    assert graph.score(shuffled) == graph.score(truth.to_numpy()) == expected
    assert graph.score(CausalGraph(truth.loc[NAMES[::-1], NAMES[::-1]], PARTY_OF)) == expected
    assert graph.score(graph)["shd"] == 0


def test_a_partial_graph_is_scored_on_what_it_may_know():
    """A party's perfect view would be punished for edges that it was not shown."""
    assert example().of("registry").score(frame(EDGES))["f1"] == 1.0
    assert example().of("registry").score(frame(EDGES))["shd"] == 0


@pytest.mark.parametrize(
    "truth", [np.zeros((2, 2)), frame({}, [*NAMES[:4], "weight"]), frame({}, NAMES[:4]), frame({}, [*NAMES, "age"])]
)
def test_a_truth_over_other_variables_is_refused(truth):
    with pytest.raises(ConfigError, match="truth"):
        example().score(truth)


def test_agreement_counts_each_edge_once():
    """Two seeds could not be compared."""
    other = CausalGraph(
        frame({("age", "bmi"): 2, ("glucose", "bmi"): 1, ("insulin", "outcome"): 1}).loc[NAMES[::-1], NAMES[::-1]],
        PARTY_OF,
    )
    agreed = example().agree(other)
    assert agreed == {"both": 1, "reversed": 1, "only_here": 3, "only_there": 1, "agreement": pytest.approx(1 / 6)}
    assert other.agree(example())["only_here"] == 1
    assert example().agree(example())["agreement"] == 1
    empty = CausalGraph(frame({}), PARTY_OF)
    assert math.isnan(empty.agree(empty)["agreement"])
    assert example().agree(other.of("clinic")) == {
        "both": 1, "reversed": 1, "only_here": 1, "only_there": 0, "agreement": pytest.approx(1 / 3)
    }  # fmt: skip


def test_the_summary_shows_parties_edges_and_notes_on_one_screen():
    """Nobody would know what was found without reading frames."""
    text = repr(example())
    assert "5 variables at 3 parties, 5 edges (3 between parties, 2 within)" in text
    assert "clinic: age, bmi" in text
    assert "bmi -> glucose      0.900  confidence 0.75  inter (clinic -> lab)" in text
    assert "glucose -> insulin  0.700  confidence 0.75  intra (lab)" in text
    assert "note: edges below .1 were left out" in text
    assert "varsortability 0.50, R²-sortability 0.25" in text
    assert "cost: 1.5 seconds, 2,048 bytes, 10 steps" in text


def test_the_summary_of_a_large_graph_with_odd_names_stays_on_one_screen():
    names = [f"column {number}\n{'x' * 50}" for number in range(200)]
    edges = dict.fromkeys(pairwise(names), 1.0)
    party_of = {name: f"party-{number % 50}" for number, name in enumerate(names)}
    text = repr(CausalGraph(frame(edges, names), party_of, notes=["a\nb"] * 40))
    assert len(text.splitlines()) < 45
    assert max(map(len, text.splitlines())) < 400
    assert "… 189 more" in text
    assert "note: a b" in text


def test_a_graph_survives_a_copy_between_processes():
    graph = pickle.loads(pickle.dumps(example()))
    assert repr(graph) == repr(example())


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"adjacency": frame({("age", "bmi"): -1.0})}, "below 0"),
        ({"adjacency": frame({("age", "bmi"): math.nan})}, "not finite"),
        ({"adjacency": frame({}).astype(object).replace(0.0, "strong")}, "something else than numbers"),
        ({"adjacency": frame({}).iloc[:, ::-1]}, "not the same variables"),
        ({"adjacency": pd.DataFrame()}, "not the same variables"),
        ({"adjacency": frame({}, ["age", "age"]), "party_of": {"age": "a"}}, "occurs twice"),
        ({"adjacency": frame({}, [1, 2]), "party_of": {1: "a", 2: "a"}}, "1 is no name"),
        ({"adjacency": frame({}, [""]), "party_of": {"": "a"}}, "is no name"),
        ({"adjacency": frame({}, ["a\0"]), "party_of": {"a\0": "a"}}, "is no name"),
        ({"party_of": PARTY_OF | {"age": "a\ud800"}}, "no name of a party"),
        ({"party_of": {"age": "clinic"}}, "'bmi' is not both"),
        ({"party_of": PARTY_OF | {"weight": "clinic"}}, "'weight' is not both"),
        ({"party_of": PARTY_OF | {"age": ""}}, "no name of a party"),
        ({"confidence": frame({("age", "bmi"): 1.5})}, "above 1"),
        ({"strengths": frame({}, NAMES[:4])}, "other variables"),
        ({"cost": {"seconds": math.inf}}, "no finite number"),
        ({"cost": {"seconds": "long"}}, "no finite number"),
        ({"varsortability": 1.5}, "between 0 and 1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, match):
    """A wrong graph would be found out far away, or never."""
    with pytest.raises(ConfigError, match=match):
        example(**changes)


def test_an_unknown_sortability_is_none():
    assert example(varsortability=math.nan).varsortability is None
