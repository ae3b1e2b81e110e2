"""If these fail, noise that users count on is missing, wrongly sized, or accounted for too kindly."""

import numpy as np
import pytest
from discovery_parts import SHORT, chain, divided, find

from colonnade.discover.discover import discover_tables
from colonnade.discover.noise import feature_spend, gaussian, laplace, strength_spend, with_laplace
from colonnade.federation.discovery import DiscoverySettings
from colonnade.secure.norms import reveal_norms


def test_noise_has_the_size_that_was_asked_for():
    assert np.std(gaussian((200_000,), 0.3)) == pytest.approx(0.3, rel=0.02)
    drawn = laplace((200_000,), 0.3)
    assert np.mean(np.abs(drawn)) == pytest.approx(0.3, rel=0.02)
    assert abs(np.mean(drawn)) < 0.01


def test_noise_never_repeats():
    assert not (gaussian((100,), 1.0) == gaussian((100,), 1.0)).any()


def test_noise_on_shares_is_noise_on_what_they_stand_for():
    """Both parties add theirs; what the coordinator sees has a spread like that of one Laplace noise."""
    squares = np.full(50_000, int(4.0 * 2**32), np.uint64)
    seen = reveal_norms(with_laplace(squares, 0.1), with_laplace(np.zeros_like(squares), 0.1))
    assert np.mean(seen) == pytest.approx(4.0, abs=0.01)
    assert np.std(seen) == pytest.approx(0.1 * np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
@pytest.mark.parametrize(
    "noise", [{"feature_noise": 0.5}, {"strength_epsilon": 2.0}], ids=lambda noise: next(iter(noise))
)
def test_noise_changes_the_run_and_the_graph_stays_acyclic(noise, secure):
    settings = {"epochs": 8, "refit_epochs": 1, "secure": secure}
    clean = find(divided(chain(), "ab", "cde"), **settings)
    noisy = find(divided(chain(), "ab", "cde"), **settings, **noise)
    assert not np.allclose(clean.strengths, noisy.strengths, atol=1e-3)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_what_edges_are_worth_is_seen_through_the_same_noise_and_counted(secure):
    """Two looks at worths without noise would tell what dozens of noisy ones hide."""
    chosen = {**SHORT, "secure": secure, "epochs": 4, "refit_epochs": 2, "strength_epsilon": 0.5, "validate_every": 2}
    settings, seen = DiscoverySettings.model_validate(chosen), []
    graph = discover_tables(
        divided(chain(), "ab", "cde"), settings, progress=False,
        curious_coordinator=lambda step, strengths, kept: seen.append(strengths),
    )  # fmt: skip
    absent = ~np.eye(5, dtype=bool) & (seen[-2] == 0)
    assert 0 < absent.sum() < 18, "noise below zero counts as nothing, and no more than about half of it is"
    looks = len(seen) - 2
    spent = strength_spend(0.5, looks + 2, edges=20, shared=secure)
    note = f"noise on 20 edge strengths or worths at {looks + 2} looks: ε = {spent:.3g} at"
    assert any(one.startswith(note) and "losses" in one for one in graph.notes)


def test_more_looks_and_less_noise_cost_more():
    assert strength_spend(1.0, 20, 6, shared=False) > strength_spend(1.0, 10, 6, shared=False)
    assert strength_spend(1.0, 10, 6, shared=True) > strength_spend(1.0, 10, 6, shared=False)
    assert feature_spend(1.0, 2.0, 10) > feature_spend(2.0, 2.0, 10)
    # One look at one edge of sensitivity 1 is the definition of the mechanism.
    assert strength_spend(1.0, 1, 1, shared=False) == pytest.approx(1.0, abs=1e-3)


def test_one_record_may_move_every_edge_at_once():
    """Fifteen variables have 210 edges, each with its own noise: a look is no single event of ε = 1."""
    assert 120 < strength_spend(1.0, 1, 210, shared=False) < 210
    # Much noise or little, it is counted at once: a run must not end by filling the memory.
    assert strength_spend(64.0, 80, 210, shared=True) == pytest.approx(64 * 80 * 210 * np.sqrt(2), rel=0.02)
