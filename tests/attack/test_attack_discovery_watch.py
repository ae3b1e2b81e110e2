"""If these fail, attacks on discovery judge something else than what a real run shows its roles."""

import numpy as np
import pandas as pd
import pytest

from colonnade.attack.discovery import CoordinatorObserver, Observer, judge, make_discovery_attack, pool
from colonnade.discover.discover import discover_tables
from colonnade.discover.exchange import Layout
from colonnade.discover.variables import prepare_columns
from colonnade.federation.discovery import DiscoverySettings

PARTIES = ("clinic", "lab", "bank")
SHORT = {"epochs": 6, "refit_epochs": 2, "batch_size": 64, "minibatch": 64, "validate_every": 2}


def tables(records=128):
    """Two columns each, one the effect of the column before it."""
    random = np.random.default_rng(0)
    columns = [random.normal(size=records)]
    for _ in range(5):
        columns.append(np.tanh(2 * columns[-1]) + 0.5 * random.normal(size=records))
    names = [f"v{number}" for number in range(6)]
    frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
    return {party: frame[names[2 * place : 2 * place + 2]] for place, party in enumerate(PARTIES)}


def watched(**settings):
    """Discover while the clinic, the lab and the coordinator look."""
    chosen = DiscoverySettings.model_validate({**SHORT, **settings})
    observers, coordinator = {party: Observer() for party in PARTIES[:2]}, CoordinatorObserver()
    discover_tables(tables(), chosen, progress=False, curious=observers, curious_coordinator=coordinator)
    columns = {party: prepare_columns(table, where=party).plain for party, table in tables().items()}
    layouts = {party: Layout((1, 1)) for party in PARTIES}
    return observers, coordinator, layouts, columns, chosen


def evidence_of(run, *attackers, **others):
    observers, _, layouts, columns, settings = run
    return pool({party: observers[party] for party in attackers}, layouts, columns, settings, **others)


@pytest.fixture(scope="module")
def plain():
    return watched(secure=False)


def test_a_secure_run_shows_a_party_the_sum_that_a_plain_run_shows_it(plain):
    secure = watched(secure=True)
    seen, expected = evidence_of(secure, "clinic"), evidence_of(plain, "clinic")
    assert [visit.step for visit in seen.visits] == [visit.step for visit in expected.visits]
    for ours, theirs in zip(seen.visits, expected.visits, strict=True):
        np.testing.assert_allclose(ours.features, theirs.features, atol=1e-2)
    for ours, theirs in zip(seen.verdicts, expected.verdicts, strict=True):
        np.testing.assert_allclose(ours.values, theirs.values, atol=1e-2)
    assert not any(secure[0]["clinic"].apart.values()), "a secure run shows nobody's features apart"


def test_features_lie_in_the_space_of_the_foreign_columns(plain):
    columns = plain[3]
    truth = np.hstack([columns["lab"], columns["bank"]])
    for visit in evidence_of(plain, "clinic").visits:
        rest = visit.features - truth[visit.rows] @ np.linalg.lstsq(truth[visit.rows], visit.features, rcond=None)[0]
        assert np.abs(rest).max() < 1e-9


def test_two_who_collude_see_the_third_alone(plain):
    bank = plain[3]["bank"]
    evidence = evidence_of(plain, "clinic", "lab")
    assert (evidence.foreign, evidence.effects) == (2, 4)
    for visit in evidence.visits:
        rest = visit.features - bank[visit.rows] @ np.linalg.lstsq(bank[visit.rows], visit.features, rcond=None)[0]
        assert np.abs(rest).max() < 1e-9
    assert judge(make_discovery_attack("subspace").guess(evidence), bank).r2 > 0.9


def test_in_the_clear_each_partys_features_are_seen_apart(plain):
    lab = evidence_of(plain, "clinic", victims=["lab"])
    bank = evidence_of(plain, "clinic", victims=["bank"])
    both = evidence_of(plain, "clinic")
    np.testing.assert_allclose(lab.visits[0].features + bank.visits[0].features, both.visits[0].features)


def test_strengths_are_those_of_the_features_right_after_the_look(plain):
    """B and the factors tell the norms of the encoder of the next exchange: what the coordinator's attack stands on."""
    coordinator, columns = plain[1], plain[3]
    evidence = evidence_of(plain, "clinic", coordinator=coordinator)
    truth = np.hstack([columns["lab"], columns["bank"]])
    visits = {visit.step: visit for visit in evidence.visits}
    looks = [(look.step, evidence.left_of(look)) for look in evidence.strengths if look.step in visits]
    looks = [(step, left) for step, left in looks if left is not None]
    assert len(looks) > 3
    for step, left in looks:
        visit = visits[step]
        weights = np.linalg.lstsq(truth[visit.rows], visit.features, rcond=None)[0]
        norms = np.linalg.norm(weights.reshape(4, 2, -1), axis=2)
        np.testing.assert_allclose(norms, left, rtol=1e-4, atol=1e-6)


def test_the_verdict_after_the_search_says_which_edges_stay(plain):
    evidence = evidence_of(plain, "clinic")
    kept = next(look for look in evidence.verdicts if look.last)
    assert kept.step == evidence.settled == SHORT["epochs"] * 2
    assert set(np.unique(kept.values)) <= {0.0, 1.0}
