"""If these fail, the table of leaks misses an attack, or a mean over seeds is one of different things."""

import pytest

from colonnade.bench import discovery_leak
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.leaks import WatchedSet, mean_rows
from colonnade.bench.causal.sets import fresh
from colonnade.bench.discovery_leak import MITIGATIONS, UNDEFENDED, Case, attack, case_rows, watch
from colonnade.errors import DataError, RunError

SHORT = {"epochs": 30, "refit_epochs": 10}


@pytest.fixture(scope="module")
def data():
    return fresh(Design(6, 8, records=200), seed=1, parties=3)


def test_every_attack_of_a_case_becomes_a_row_with_its_baselines(data, monkeypatch):
    chosen = (
        Case("subspace"),
        Case("known_records", known=30),
        Case("unsplit", secure=False),
        Case("own_columns", known=5),
    )
    monkeypatch.setattr(discovery_leak, "CASES", chosen)
    rows = list(case_rows(data, SHORT, UNDEFENDED, seed=0))
    assert [row["attack"] for row in rows] == ["subspace", "known_records", "unsplit", "own_columns"]
    assert rows[0]["r2"] > 0.95 > rows[0]["r2_baseline"]
    assert {"method", "secure", "parties", "mitigation", "strength", "correlation", "correlation_baseline"} <= set(
        rows[0]
    )
    assert {"r2", "r2_baseline", "f1", "shd", "seconds"} <= set(rows[0])
    noisy = next(one for one in MITIGATIONS if one.name == "feature_noise")
    assert "own_columns" not in [row["attack"] for row in case_rows(data, SHORT, noisy, seed=0)]


def test_collusion_and_the_coordinator_only_add_to_what_is_known(data):
    watched = watch(data, list(data.parties)[:2], seed=0, **SHORT)
    alone, both, told = (
        attack(watched, Case("subspace", who)) for who in ("one party", "all but one", "party and coordinator")
    )
    assert both["r2"] > 0.95 and told["r2"] == alone["r2"]
    assert attack(watched, Case("coordinator")) == dict.fromkeys(discovery_leak.MEASURED)


def test_a_mean_is_taken_over_seeds_and_nothing_else():
    row = {"attack": "ica", "known_records": None, **dict.fromkeys(discovery_leak.MEASURED, 0.5), "f1": 1.0, "shd": 2}
    rows = [
        {**row, "seconds": 1.0},
        {**row, "seconds": 3.0, "r2": 0.7},
        {**row, "attack": "gram", "seconds": 1.0, "r2": None},
    ]
    first, second = mean_rows(rows)
    assert (first["attack"], first["r2"], first["seconds"], first["seeds"]) == ("ica", 0.6, 2.0, 2)
    assert second["r2"] is None and second["seeds"] == 1
    assert first["r2_interval"] == pytest.approx(1.2706, abs=1e-3) and second["r2_interval"] is None


def test_a_set_without_a_graph_is_left_out_and_told(monkeypatch):
    """The other hundred sets of the table would be lost."""

    def unbounded(*_, **__):
        raise DataError("edge strengths grow without bound", where="strength")

    monkeypatch.setattr(discovery_leak, "watch", unbounded)
    one = WatchedSet(3, UNDEFENDED, 0, "smoke")
    with pytest.raises(RunError, match="no graph was found, strength: edge strengths grow without bound"):
        one.run()
    assert one.title == "3 parties, undefended, seed 0"
