"""If these fail, the case study counts agreement that is not there, or claims that were made after looking."""

import pytest

from colonnade.bench.causal import diabetes, sets
from colonnade.bench.causal.diabetes import EXPECTED, FORBIDDEN, Variant, edge_rows, found_graph, picture, summary_rows
from colonnade.bench.registry import BENCHES
from colonnade.discover.graph import CausalGraph
from colonnade.progress import Progress

import pandas as pd  # isort: skip

NAMES = list(diabetes._COLUMNS)
SYSTEM = {"Age", "Glucose", "BloodPressure", "BMI", "Outcome"}
PLAIN = Variant("missing", secure=False)


def graph_of(*edges, confidence=None):
    """Return a graph with these edges, each twice as strong as the one behind it."""
    frame = pd.DataFrame(0.0, index=NAMES, columns=NAMES)
    for place, (cause, effect) in enumerate(edges):
        frame.loc[cause, effect] = 2.0**-place
    shares = None
    if confidence is not None:
        shares = pd.DataFrame(0.0, index=NAMES, columns=NAMES)
        for (cause, effect), share in confidence.items():
            shares.loc[cause, effect] = share
    party_of = {name: "system" if name in SYSTEM else "clinic" for name in NAMES}
    return CausalGraph(frame, party_of, confidence=shares, cost={"seconds": 1.0, "bytes": 10})


def test_no_edge_is_both_expected_and_forbidden_and_all_are_about_real_columns():
    assert not set(EXPECTED) & set(FORBIDDEN)
    assert {name for edge in EXPECTED | FORBIDDEN for name in edge} <= set(NAMES)
    assert all(cause != effect for cause, effect in EXPECTED | FORBIDDEN)
    assert sorted(name for tier in diabetes.TIERS for name in tier) == sorted(NAMES)
    assert set(FORBIDDEN) >= {(effect, cause) for cause, effect in EXPECTED}


def test_agreement_is_counted_edge_by_edge():
    graph = graph_of(("Pregnancies", "Outcome"), ("Outcome", "Glucose"), ("BMI", "Age"), ("Insulin", "Outcome"))
    ours, random = summary_rows(graph, PLAIN)
    assert (ours["edges"], ours["expected_found"], ours["expected_reversed"]) == (4, 2, 1)
    assert ours["forbidden_found"] == 2, "a cause of age, and an effect that should be a cause"
    assert ours["tiers_broken"] == 2, "diabetes before glucose, and BMI before age"
    assert random["method"] == "random" and random["edges"] == 4


def test_chance_is_what_random_graphs_show():
    """Without it, one expected edge of four looks like a finding."""
    import numpy as np

    graph = graph_of(*[("Age", name) for name in NAMES if name != "Age"])
    _, told = summary_rows(graph, PLAIN)
    generator, hits = np.random.default_rng(0), []
    for _ in range(4000):
        order = generator.permutation(len(NAMES))
        pairs = [(NAMES[order[i]], NAMES[order[j]]) for i in range(9) for j in range(i + 1, 9)]
        chosen = {pairs[k] for k in generator.choice(len(pairs), 8, replace=False)}
        hits.append((len(chosen & set(EXPECTED)), len(chosen & set(FORBIDDEN))))
    means = np.mean(hits, axis=0)
    errors = np.std(hits, axis=0) / np.sqrt(len(hits))
    assert abs(told["expected_found"] - means[0]) < 4 * errors[0] + 0.001
    assert abs(told["forbidden_found"] - means[1]) < 4 * errors[1] + 0.001


def test_expected_edges_are_shown_also_where_they_were_not_found():
    """A table of found edges alone would hide what the published picture has and ours has not."""
    shares = {("Age", "Pregnancies"): 1.0, ("BMI", "SkinThickness"): 0.6, ("SkinThickness", "BMI"): 0.4}
    rows = list(edge_rows(graph_of(("Age", "Pregnancies"), confidence=shares), PLAIN))
    by_edge = {(row["cause"], row["effect"]): row for row in rows}
    assert set(by_edge) == {("Age", "Pregnancies"), ("BMI", "SkinThickness"), *EXPECTED}
    assert by_edge["Age", "Pregnancies"]["strength"] == 1 and by_edge["Age", "Pregnancies"]["kind"] == "inter"
    often = by_edge["BMI", "SkinThickness"]
    assert (often["strength"], often["confidence"], often["confidence_reversed"]) == (None, 0.6, 0.4)
    missing = by_edge["Outcome", "Glucose"]
    assert (missing["stated"], missing["strength"], missing["kind"]) == ("expected", None, "intra")
    assert "appendix I" in missing["source"] and often["source"] is None


def test_the_picture_names_every_variable_once_or_more():
    text = picture(
        graph_of(("Age", "Pregnancies"), ("Pregnancies", "Outcome"), confidence={("Age", "Pregnancies"): 0.9})
    )
    assert text.splitlines()[:4] == [
        "Age (system)",
        "  -> Pregnancies (clinic): 1.000, in 90 % of repeated runs",
        "Pregnancies (clinic)",
        "  -> Outcome (system): 0.500, in 0 % of repeated runs",
    ]
    assert all(name in text for name in NAMES)
    assert picture(graph_of()).startswith("without an edge: Age")


@pytest.mark.usefixtures("shared_data")
class TestRealData:
    def test_the_split_is_the_published_one(self):
        parties = sets.pima().parties
        assert {"Age", "Glucose", "Outcome"} <= set(parties["system"])
        assert {"Pregnancies", "Insulin", "DiabetesPedigreeFunction"} <= set(parties["clinic"])
        assert sorted(name for columns in parties.values() for name in columns) == sorted(NAMES)

    def test_a_found_graph_is_kept_with_its_pictures_and_not_found_again(self, tmp_path, monkeypatch):
        monkeypatch.setitem(diabetes.REPEATS, "smoke", {False: 1, True: 0})
        first = found_graph(PLAIN, "smoke", tmp_path)
        assert sorted(path.suffix for path in tmp_path.iterdir()) == [".dot", ".json", ".txt"]
        monkeypatch.setattr(diabetes, "_discover", None)
        again = found_graph(PLAIN, "smoke", tmp_path)
        assert again.edges.equals(first.edges) and again.cost["repeats"] == 1
        assert next(tmp_path.glob("*.txt")).read_text() == picture(again)

    @pytest.mark.slow
    def test_the_bench_runs_all_variants(self, monkeypatch):
        monkeypatch.setitem(diabetes.REPEATS, "smoke", {False: 0, True: 0})
        rows = BENCHES["vfedcd-diabetes"]("smoke", Progress())
        summaries = [row for row in rows if "edges" in row]
        assert [(row["method"], row["secure"]) for row in summaries[:4]] == [
            ("colonnade", False), ("random", False), ("colonnade", True), ("random", True),
        ]  # fmt: skip
        assert sum(row.get("stated") == "expected" for row in rows) == 4 * len(EXPECTED)
