"""If these fail, a causal table shows rows that were not run, hides rows that failed, or runs for hours again."""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from bench_parts import Notes

from colonnade.bench import Workers, kept
from colonnade.bench.causal import peers, presets, published, tables
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.methods import Colonnade, EmptyGraph, RandomGraph
from colonnade.bench.causal.peers import PEERS, PeerGraph, peers_ready, run_peer
from colonnade.bench.causal.published import Published
from colonnade.bench.causal.sets import fresh
from colonnade.bench.causal.summary import interval
from colonnade.bench.causal.table import Case, run_table
from colonnade.bench.registry import BENCHES
from colonnade.errors import ConfigError, RunError
from colonnade.measure.graph import graph_scores
from colonnade.progress import Progress

AGREED = {
    "method", "secure", "parties", "attributes", "edges", "records", "unit_variance", "seed", "shd", "f1", "precision",
    "recall", "inter_f1", "intra_f1", "correlation", "seconds", "bytes", "published_shd", "published_f1",
}  # fmt: skip
RUNS = []


def small(seed):
    return fresh(Design(6, 8, records=60), seed)


@dataclass(frozen=True)
class Knowing:
    """Finds the true graph, or fails."""

    name: str = "knowing"
    secure: bool | None = False
    seeded: bool = True
    fails_on: int = -1

    def score(self, data, seed):
        RUNS.append((self.name, seed))
        if seed == self.fails_on:
            raise RunError("gave up")
        return {**graph_scores(data.truth, data.truth, data.party_of), "seconds": 1.0, "bytes": 10}

    def files(self):
        return []


@pytest.fixture(autouse=True)
def no_runs_yet():
    RUNS.clear()


def test_rows_have_the_agreed_keys_and_means_come_first():
    case = Case("fresh", small, [Knowing(), EmptyGraph()], range(3), {"knowing": Published(5, 0.5)})
    rows = run_table([case], Progress(), "t")
    assert all(set(row) >= AGREED for row in rows)
    mean, empty = rows[:2]
    assert mean["seed"] is None and mean["seeds"] == 3 and (mean["shd"], mean["f1"]) == (0, 1)
    assert (mean["published_shd"], mean["published_f1"]) == (5, 0.5) and mean["shd_interval"] == 0
    assert empty["shd"] == 8 and empty["f1"] == 0 and empty["published_shd"] is None
    assert [row["seed"] for row in rows[2:]] == [0, 1, 2] * 2
    json.dumps(rows, allow_nan=False)


def drawn(edges, seed):
    return fresh(Design(6, edges, records=60), seed)


def test_cases_of_one_kind_of_data_have_means_of_their_own():
    """Sparse graphs are easier than dense ones: a mean over both stands beside neither published entry."""
    cases = [
        Case("fresh", partial(drawn, edges), [EmptyGraph()], range(2), {"empty": Published(edges)}) for edges in (5, 9)
    ]
    first, second, *single = run_table(cases, Progress(), "t")
    assert [(row["edges"], row["shd"], row["published_shd"], row["seeds"]) for row in (first, second)] == [
        (5, 5, 5, 2),
        (9, 9, 9, 2),
    ]
    assert len(single) == 4


def test_a_kept_row_is_not_run_again_but_a_changed_method_is(tmp_path):
    case = partial(Case, "fresh", small, seeds=range(2))
    first = run_table([case(methods=[Knowing()])], Progress(), "t", tmp_path)
    again = run_table([case(methods=[Knowing()])], Progress(), "t", tmp_path)
    assert first == again and len(RUNS) == 2
    run_table([case(methods=[Knowing(fails_on=7)])], Progress(), "t", tmp_path)
    assert len(RUNS) == 4


def test_another_process_finds_the_kept_rows():
    """Otherwise a bench that was stopped starts again from nothing."""
    job = "table.Job('d', partial(tables._stored, 15, 60, (1, 14), True), methods.EmptyGraph(), 1, None)"
    look = "from functools import partial\nfrom colonnade.bench.causal import methods, table, tables\n"
    look += f"print({job}.file_name)"
    names = {subprocess.run([sys.executable, "-c", look], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(names) == 1


def test_changed_code_behind_a_row_runs_it_again(tmp_path, monkeypatch):
    code = tmp_path / "method.py"
    monkeypatch.setattr(Knowing, "files", lambda self: [code])
    for text in ("one", "one", "two"):
        code.write_text(text)
        kept.digest.cache_clear()
        run_table([Case("fresh", small, [Knowing()], (0,))], Progress(), "t", tmp_path / "rows")
    assert len(RUNS) == 2


def test_what_fails_is_left_out_and_said_and_tried_again(tmp_path):
    progress = Notes()
    case = Case("fresh", small, [Knowing(fails_on=1)], range(3))
    rows = run_table([case], progress, "t", tmp_path)
    assert [row["seed"] for row in rows] == [None, 0, 2] and rows[0]["seeds"] == 2
    assert progress.notes == ["left out: fresh knowing plain 1: gave up"]
    run_table([case], progress, "t", tmp_path)
    assert RUNS.count(("knowing", 1)) == 2 and RUNS.count(("knowing", 0)) == 1


def test_one_data_set_is_not_given_five_times_to_a_method_without_a_seed():
    cases = [Case("one", small, [Knowing(), EmptyGraph()], range(3), one_set=True)]
    rows = run_table(cases, Progress(), "t")
    assert sum(row["method"] == "empty" and row["seed"] is not None for row in rows) == 1
    assert len(RUNS) == 3


def test_methods_that_were_not_run_still_show_what_was_published():
    rows = run_table([Case("fresh", small, [EmptyGraph()], (0,), {"dcdi": Published(30, 0.4)})], Progress(), "t")
    assert rows[-1]["method"] == "dcdi" and rows[-1]["shd"] is None and rows[-1]["published_shd"] == 30


@pytest.mark.slow
def test_several_processes_give_the_same_rows():
    cases = [Case("fresh", partial(tables._fresh, Design(6, 8, records=60)), [RandomGraph(), EmptyGraph()], range(3))]
    assert run_table(cases, Progress(), "t", workers=Workers(jobs=2)) == run_table(cases, Progress(), "t")


def test_the_interval_is_students():
    assert interval([1.0]) is None
    assert interval([3.0, 3.0]) == 0
    assert interval([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(1.963, abs=0.001)


def test_an_undirected_edge_counts_as_right_only_where_there_is_one():
    truth = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=bool)
    undirected = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=bool)
    found = PeerGraph(np.zeros((3, 3), dtype=bool), undirected, 0.0).oriented(truth)
    np.testing.assert_array_equal(found, [[0, 1, 1], [0, 0, 0], [0, 0, 0]])


def test_a_missing_environment_is_named_before_anything_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("COLONNADE_PEERS", str(tmp_path))
    with pytest.raises(ConfigError, match="make peers"):
        presets.others("default", Progress())
    progress = Notes()
    assert [method.name for method in presets.others("smoke", progress)] == ["random", "empty"]
    assert any("left out: the published methods" in note for note in progress.notes)
    with pytest.raises(ConfigError, match="unknown published method 'sdc'"):
        run_peer("sdc", np.zeros((3, 2)))


def test_variables_that_cause_themselves_are_no_graph(monkeypatch, tmp_path):
    """Weights that are not numbers are above no threshold and below none: what DAGMA says of raw Sachs."""

    def finds_loops(command, *_):
        np.savez(command[4], directed=np.eye(2, dtype=bool), undirected=np.zeros((2, 2), bool), seconds=1.0)

    monkeypatch.setattr(peers, "require_peers", lambda: None)
    monkeypatch.setattr(peers, "_run", finds_loops)
    with pytest.raises(RunError, match="dagma_linear: failed: variables that cause themselves"):
        run_peer("dagma_linear", np.zeros((3, 2)))


@pytest.mark.skipif(not peers_ready(), reason="the environment of the published methods is not here: 'make peers'")
class TestRealPeers:
    def test_a_peer_really_runs_and_finds_a_chain(self):
        random = np.random.default_rng(0)
        cause = random.normal(size=500)
        effect = 2 * cause + random.normal(size=500)
        found = run_peer("sortnregress", np.column_stack([cause, effect]))
        np.testing.assert_array_equal(found.directed, [[0, 1], [0, 0]])
        assert not found.undirected.any() and found.seconds > 0

    def test_directions_are_not_turned_around(self):
        """A collider is the one thing that PC can direct: read transposed, its arrows would leave the effect."""
        random = np.random.default_rng(0)
        first, second = random.normal(size=(2, 2000))
        values = np.column_stack([first, second, first + second + 0.5 * random.normal(size=2000)])
        for method in ("pc", "ges"):
            found = run_peer(method, values)
            np.testing.assert_array_equal(found.directed, [[0, 0, 1], [0, 0, 1], [0, 0, 0]])

    def test_a_failure_says_why(self):
        with pytest.raises(RunError, match="r2_sortnregress: failed"):
            run_peer("r2_sortnregress", np.full((5, 3), np.nan))

    def test_a_peer_that_takes_too_long_is_given_up(self):
        with pytest.raises(RunError, match="took longer"):
            run_peer("pc", np.zeros((5, 3)), longest=0.01)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", [name for name in PEERS if name != "sdcd"])
    def test_every_peer_ends_with_a_graph(self, method):
        found = run_peer(method, small(0).values, schedule="short")
        assert found.directed.shape == (6, 6) and not found.directed.diagonal().any()


def test_published_values_fit_together():
    """Table 2's 60 edges repeat Table 1's 15 attributes but for the paper's own rounding."""
    assert {"vfedcd-table1", "vfedcd-table2", "vfedcd-table4", "vfedcd-table5", "vfedcd-table6"} <= set(BENCHES)
    assert published.TABLE1[10][published.OURS] == Published(18.8, 0.698, 0.016)
    for method, columns in published.TABLE2.items():
        assert columns[60].shd == pytest.approx(published.TABLE1[15][method].shd, abs=3)
    assert all(len(columns) == 6 for columns in published.TABLE2.values())


@pytest.mark.slow
@pytest.mark.usefixtures("shared_data")
def test_our_method_is_scored_on_the_split_columns(monkeypatch):
    """Plain, a few epochs: only that rows come out and name the split."""
    monkeypatch.setattr(tables, "_both", lambda preset: [Colonnade(False, {"epochs": 2, "refit_epochs": 1})])
    rows = tables.table6("smoke", Progress(), folder=None)
    assert [row["columns"] for row in rows[:3]] == ["1/1/13", "3/3/9", "5/5/5"]
    assert all(row["seconds"] > 0 and row["published_shd"] in (35, 36) for row in rows)


def test_listing_the_benches_loads_no_torch():
    """`colonnade bench list` would take seconds with it."""
    look = "import sys, colonnade.bench.causal; assert not {'torch', 'seal'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0
