"""If these fail, an edge looks surer or less sure than the data make it, or parties resample different records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from discovery_parts import SHORT, chain, divided
from scipy.stats import binomtest

from colonnade.discover.confidence import draws, with_confidence
from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.discover.variables import prepare_columns
from colonnade.errors import ConfigError, DataError, RunError
from colonnade.federation.discovery import DiscoverySettings

NAMES = ["a", "b", "c"]
PARTIES = {"a": "clinic", "b": "clinic", "c": "lab"}


def graph(*edges, **parts):
    adjacency = pd.DataFrame(0.0, NAMES, NAMES)
    for cause, effect in edges:
        adjacency.loc[cause, effect] = 0.7
    return CausalGraph(adjacency, PARTIES, **parts)


class Runs:
    """Stands for a discovery: hands out prepared graphs and errors, and remembers what it was asked for."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, seed, rows):
        self.asked.append((seed, rows))
        answer = self.answers[len(self.asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_confidence_is_the_share_of_repeats_and_edges_are_those_of_all_records():
    runs = Runs(
        graph(("a", "b"), ("b", "c"), varsortability=0.5, notes=["first"], cost={"seconds": 2.0}, strengths=None),
        graph(("a", "b"), cost={"seconds": 1.0}),
        graph(("a", "b"), ("c", "b"), cost={"seconds": 1.0}),
        graph(("a", "b"), ("b", "c"), cost={"seconds": 1.0}),
        graph(("b", "a")),
    )
    found = with_confidence(runs, records=20, repeats=4, seed=3)
    pd.testing.assert_frame_equal(found.adjacency, graph(("a", "b"), ("b", "c")).adjacency)
    assert found.confidence.loc["a", "b"] == 0.75 and found.confidence.loc["b", "c"] == 0.25
    assert found.confidence.loc["c", "b"] == 0.25, "an edge that only repeats find is worth knowing, too"
    assert found.varsortability == 0.5 and found.cost == {"seconds": 5.0, "repeats": 4}
    assert found.notes[0] == "first" and "4 runs on resampled records" in found.notes[1]
    assert "found 1 of the 2 edges" in found.notes[2]
    assert [seed for seed, _ in runs.asked] == [3, 4, 5, 6, 7]
    np.testing.assert_array_equal(runs.asked[0][1], np.arange(20))


def test_notes_name_no_edge():
    """A party that is shown only its own edges reads the same notes as all others."""
    found = with_confidence(Runs(graph(("b", "c")), graph()), records=20, repeats=1)
    assert all("→" not in note and "b" not in note.split() for note in found.of("clinic").notes)


def test_without_repeats_the_graph_is_as_it_was():
    first = graph(("a", "b"))
    assert with_confidence(Runs(first), records=20, repeats=0) is first


def test_all_draw_the_same_records_and_every_repeat_draws_others():
    again = [rows for _, rows in draws(500, 5, seed=1)]
    for rows, same in zip(again, (rows for _, rows in draws(500, 7, seed=1)), strict=False):
        np.testing.assert_array_equal(rows, same)
    other = [rows for _, rows in draws(500, 5, seed=2)]
    assert len({rows.tobytes() for rows in again + other}) == 10


def test_a_bootstrap_draws_with_replacement_and_prefers_nobody():
    times = np.zeros(200, int)
    for _, rows in draws(200, 100, seed=0):
        assert len(rows) == 200 and 0.5 < len(np.unique(rows)) / 200 < 0.75
        times += np.bincount(rows, minlength=200)
    assert all(binomtest(int(count), 20_000, 1 / 200).pvalue > 1e-6 for count in times)


def test_other_seeds_keep_all_records():
    for number, (seed, rows) in enumerate(draws(30, 3, seed=5, how="seeds"), start=6):
        assert seed == number
        np.testing.assert_array_equal(rows, np.arange(30))


def test_a_repeat_that_fails_does_not_cost_the_graph():
    """Hours of encrypted training must not be lost because one repeat diverged."""
    failure = RunError("edge strengths are no longer finite", where="validator")
    found = with_confidence(Runs(graph(("a", "b")), failure, graph(("a", "b"))), records=9, repeats=2)
    assert found.confidence.loc["a", "b"] == 1 and found.cost["repeats"] == 1
    assert "1 repeated runs failed and do not count, the last because edge strengths" in found.notes[-1]
    with pytest.raises(RunError):
        with_confidence(Runs(graph(), failure, failure), records=9, repeats=2)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"repeats": -1}, ConfigError, "confidence: -1 is no number of repeats"),
        ({"repeats": 2.5}, ConfigError, "2.5 is no number"),
        ({"repeats": True}, ConfigError, "True is no number"),
        ({"repeats": 1, "how": "bootstap"}, ConfigError, "did you mean 'bootstrap'"),
        ({"repeats": 1, "records": 0}, DataError, "no records"),
    ],
)
def test_bad_arguments_are_named_before_anything_runs(arguments, kind, message):
    runs = Runs()
    with pytest.raises(kind, match=message):
        with_confidence(runs, **{"records": 9, **arguments})
    assert not runs.asked


def test_a_resample_keeps_kinds_levels_and_scales():
    """A rare value may be missing in a resample; the column must not turn constant, or into another kind."""
    frame = chain(40).assign(rare=[1] + [0] * 39, town=["Bern"] + ["Chur", "Sion", "Sion"] * 13)
    columns = prepare_columns(frame)
    rows = np.arange(1, 40).repeat(2)
    taken = columns.take(rows)
    assert taken.variables == columns.variables
    np.testing.assert_array_equal(taken.plain, columns.plain[rows])
    np.testing.assert_array_equal(taken.target, columns.target[rows])
    np.testing.assert_array_equal(taken.raw_variance, columns.raw_variance)


def test_real_runs_on_resampled_records_agree_on_what_is_known():
    """Each party resamples its own table alone, and still all rows belong together."""
    tables = divided(chain(), "ab", "cde")
    known = {"required": [("a", "e")], "forbidden": [("a", "b"), ("b", "a")]}
    settings = DiscoverySettings(**SHORT)

    def run_once(seed, rows):
        drawn = {party: table.iloc[rows] for party, table in tables.items()}
        return discover_tables(drawn, settings, seed=seed, knowledge=known, progress=False)

    found, again = (with_confidence(run_once, 240, repeats=3, seed=1) for _ in range(2))
    assert found.confidence.loc["a", "e"] == 1 and found.confidence.loc["a", "b"] == 0
    assert set(found.confidence.to_numpy().ravel() * 3) <= {0, 1, 2, 3}
    pd.testing.assert_frame_equal(found.confidence, again.confidence)
    pd.testing.assert_frame_equal(found.adjacency, run_once(1, np.arange(240)).adjacency)
