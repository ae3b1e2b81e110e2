"""If these fail, figure 3 compares depths that were not run, or claims to have tested deep encoders."""

import pytest
from bench_parts import Notes

from colonnade.bench.causal import depth
from colonnade.bench.causal.variants import fifteen_attributes, recipe_settings
from colonnade.bench.registry import BENCHES
from colonnade.discover.discover import discover
from colonnade.measure.graph import graph_scores


@pytest.fixture(scope="module")
def ran():
    progress = Notes()
    rows = BENCHES["vfedcd-fig3"]("smoke", progress)
    return {row["method"]: row for row in rows if row["seed"] is None}, progress.notes


def test_a_row_is_a_discovery_with_so_many_layers(ran):
    data = fifteen_attributes("smoke")[1](0)
    settings = recipe_settings("default", "smoke")
    graph = discover(data.federation(), secure=False, progress=False, depth=2, **settings)
    expected = graph_scores(graph.adjacency.to_numpy() != 0, data.truth, data.party_of)
    row = ran[0]["colonnade, depth 2"]
    assert row["decoder_layers"] == 2
    for name in ("shd", "f1", "inter_f1", "intra_f1"):
        assert row[name] == pytest.approx(expected[name], abs=1e-4)


def test_the_gap_is_that_of_the_two_kinds_of_edges(ran):
    for row in ran[0].values():
        assert row["gap"] == pytest.approx(row["intra_f1"] - row["inter_f1"], abs=1e-4)
    assert depth._gap({"intra_f1": None, "inter_f1": 0.5}) is None


def test_all_depths_run_under_both_recipes_and_beside_trivial_graphs(ran):
    found = {(row["recipe"], row["decoder_layers"]) for row in ran[0].values()}
    assert found == {
        ("default", 1),
        ("default", 2),
        ("default", 3),
        ("paper", 1),
        ("paper", 2),
        ("paper", 3),
        (None, None),
    }
    assert {"random", "empty"} <= set(ran[0])


def test_what_cannot_be_run_is_said(ran):
    assert any("deep encoder" in note and "not tested" in note for note in ran[1])
