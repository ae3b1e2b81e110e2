"""If these fail, the tables on privacy print a correlation that no attack reached, or the scores of another graph."""

import numpy as np
import pytest

from colonnade.attack.discovery import CoordinatorObserver, Observer, UnSplit, pool
from colonnade.bench import discovery_leak
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.sets import fresh
from colonnade.bench.causal.watched import PermutedRecords, Watched
from colonnade.bench.discovery_leak import Case
from colonnade.discover.discover import discover
from colonnade.discover.exchange import Layout
from colonnade.discover.validator import is_acyclic
from colonnade.errors import DataError, RunError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.measure.graph import graph_scores

SHORT = {"epochs": 20, "refit_epochs": 5}


@pytest.fixture(scope="module")
def data():
    return fresh(Design(6, 8, records=200), seed=1, parties=3)


def test_a_row_is_what_a_curious_party_finds_by_hand(data):
    """Discover, attack and correlate step by step."""
    observer = Observer()
    graph = discover(data.federation(), secure=False, progress=False, curious={"party1": observer}, **SHORT)
    own = data.values[:, :2]
    settings = DiscoverySettings.model_validate({"secure": False, **SHORT})
    layouts = {party: Layout((1, 1)) for party in data.parties}
    attack = UnSplit()
    attack.seed(0)
    guess = attack.guess(pool({"party1": observer}, layouts, {"party1": own}, settings))
    true = data.values[guess.rows][:, 2:]
    by_hand = [abs(np.corrcoef(guess.columns[:, i], true[:, i])[0, 1]) for i in range(4)]
    found = Watched("w", Case("unsplit"), SHORT).score(data, 0)
    assert found["correlation"] == pytest.approx(np.mean(by_hand), abs=1e-9)
    expected = graph_scores(graph.adjacency.to_numpy() != 0, data.truth)
    assert {name: found[name] for name in expected} == expected
    assert found["seconds"] > 0


def test_an_encrypted_run_reveals_what_is_gathered_in_the_clear(data):
    """Most secure rows rest on this."""
    gathered, encrypted = (
        Watched("w", Case("unsplit"), {"epochs": 10, "refit_epochs": 5}, encrypted=real).score(data, 0)
        for real in (False, True)
    )
    assert encrypted["correlation"] == pytest.approx(gathered["correlation"], abs=1e-3)
    assert encrypted["shd"] == gathered["shd"]


def test_an_encrypted_row_is_really_encrypted(data, monkeypatch):
    seen = []

    def watch(data, attackers, seed, **settings):
        seen.append((attackers, settings))
        raise DataError("stop", where="here")

    monkeypatch.setattr(discovery_leak, "watch", watch)
    for attackers in ("one party", "all but one"):
        with pytest.raises(RunError, match="no graph was found"):
            Watched("w", Case("unsplit", attackers), SHORT, encrypted=attackers == "one party").score(data, 0)
    assert seen == [(["party1"], {"secure": True, **SHORT}), (["party1", "party2"], {"secure": False, **SHORT})]


def test_cycles_kept_are_all_edges_that_the_coordinator_saw_last(data):
    settings = {"epochs": 20, "refit_epochs": 0, "rule": "strength", "least_strength": 0.1, "growth": 0.0}
    looks = CoordinatorObserver()
    drawn = discover(data.federation(), secure=False, progress=False, curious_coordinator=looks, **settings)
    strengths = looks.looks[-1][1]
    every = np.array(
        [[cause != effect and strengths[cause, effect] > 0.1 for effect in range(6)] for cause in range(6)]
    )
    assert is_acyclic(drawn.adjacency.to_numpy() != 0) and not is_acyclic(every)
    cyclic = Watched("w", Case("unsplit"), settings, cycles=True).score(data, 0)
    expected = graph_scores(every, data.truth, data.party_of)
    assert {name: cyclic[name] for name in expected} == expected
    assert cyclic["recall"] > Watched("w", Case("unsplit"), settings).score(data, 0)["recall"]


def test_what_shuffled_records_show_is_next_to_nothing(data):
    random = np.random.default_rng(7)
    foreign = data.values[:, 2:]
    by_hand = [
        abs(np.corrcoef(foreign[random.permutation(200), column], foreign[:, column])[0, 1])
        for column in range(4)
        for _ in range(500)
    ]
    assert PermutedRecords().score(data, 0)["correlation"] == pytest.approx(np.mean(by_hand), abs=0.02)
    assert np.square(by_hand).mean() == pytest.approx(1 / 199, rel=0.1)


def test_changed_attacks_and_noise_cost_the_kept_rows():
    names = {path.name for path in Watched("w", Case("unsplit")).files()}
    assert {"unsplit.py", "noise.py", "discovery_leak.py", "coordinator.py", "watched.py"} <= names
    assert all(path.is_file() for path in Watched("w", Case("unsplit")).files())
