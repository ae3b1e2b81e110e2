"""If these fail, a graph may come out with a cycle, or the penalty pushes on the wrong edges."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.discover.validator import OFFSET, Validator, greedy_acyclic, is_acyclic, reachable, spectral
from colonnade.errors import ConfigError, RunError

SETTINGS = {"sparsity": 0.005, "growth": 0.06}


def strengths_of(d, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    B = rng.random((d, d)) * (rng.random((d, d)) < density)
    np.fill_diagonal(B, 0)
    return B


def start(d):
    return np.full(d, 1 / np.sqrt(d)), np.full(d, 1 / np.sqrt(d))


def radius(B):
    return np.abs(np.linalg.eigvals(B + OFFSET)).max()


ring = np.zeros((4, 4))
ring[[0, 1, 2], [1, 2, 0]] = 0.9, 0.3, 0.6
pair = np.zeros((4, 4))
pair[[0, 1], [1, 0]] = 0.9, 0.3
back = np.triu(strengths_of(12, 3, 0.5))
back[6, 2] = 0.3


@pytest.mark.parametrize("B", [strengths_of(8), ring, pair, back], ids=["dense", "ring", "pair", "one edge back"])
def test_spectral_radius_and_gradient_are_right(B):
    u, v = start(len(B))
    for _ in range(3):
        rho, gradient, u, v = spectral(B, u, v)
    assert rho == pytest.approx(radius(B), rel=1e-4)
    for i, j in np.ndindex(B.shape):
        step = np.zeros_like(B)
        step[i, j] = 1e-7
        expected = (radius(B + step) - radius(B - step)) / 2e-7
        assert gradient[i, j] == pytest.approx(expected, rel=1e-2, abs=2e-3)


def test_kept_vectors_make_the_next_call_exact():
    """One iteration is enough on strengths that have hardly moved: that is what the vectors are kept for."""
    B = strengths_of(10)
    _, _, u, v = spectral(B, *start(10), iterations=40)
    rho, _, _, _ = spectral(B * 1.001, u, v, iterations=1)
    assert rho == pytest.approx(radius(B * 1.001), rel=1e-8)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.floats(0, 0.5), st.integers(0, 10_000))
def test_acyclic_means_what_networkx_says(d, density, seed):
    mask = strengths_of(d, seed, density) > 0
    graph = nx.from_numpy_array(mask, create_using=nx.DiGraph)
    assert is_acyclic(mask) == nx.is_directed_acyclic_graph(graph)
    closure = nx.to_numpy_array(nx.transitive_closure(graph, reflexive=True), nodelist=range(d)) > 0
    np.testing.assert_array_equal(reachable(mask), closure)


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 10), st.floats(0.05, 1), st.integers(0, 10_000))
def test_the_greedy_graph_is_always_acyclic_and_keeps_what_it_must(d, density, seed):
    rng = np.random.default_rng(seed)
    B = strengths_of(d, seed, density)
    order = rng.permutation(d)
    forward = np.zeros((d, d), bool)
    forward[np.ix_(order, order)] = np.triu(np.ones((d, d), bool), 1)
    required = forward & (rng.random((d, d)) < 0.2)
    forbidden = (rng.random((d, d)) < 0.3) & ~required
    free = greedy_acyclic(B, 0.1)
    assert is_acyclic(free) and not (free & (B <= 0.1)).any()
    if B.max() > 0.1:
        assert free.ravel()[B.argmax()], "the strongest edge"
    bound = greedy_acyclic(B, 0.1, required, forbidden)
    assert is_acyclic(bound) and bound[required].all() and not bound[forbidden].any()
    for i, j in np.argwhere((B > 0.1) & ~bound & ~forbidden & ~np.eye(d, dtype=bool)):
        assert reachable(bound)[j, i], "an edge is left out only if it would close a cycle"


def test_the_greedy_graph_of_many_variables():
    graph = greedy_acyclic(strengths_of(200), 0.0)
    assert is_acyclic(graph) and graph.sum() == 200 * 199 / 2


def test_the_greedy_graph_refuses_contradictions():
    cycle = np.array([[0, 1], [1, 0]], bool)
    with pytest.raises(ConfigError, match="cycle"):
        greedy_acyclic(np.zeros((2, 2)), 0.1, required=cycle)
    with pytest.raises(ConfigError, match="forbidden"):
        greedy_acyclic(np.zeros((2, 2)), 0.1, required=np.triu(cycle), forbidden=cycle)


def test_sparsity_alone_takes_the_same_length_from_every_edge():
    """Group soft threshold: learning times weight, and 0 where less than that was left."""
    B = np.array([[0, 0.5, 1e-5], [0, 0, 0.2], [0, 0, 0]])
    verdict = Validator(3, **(SETTINGS | {"growth": 0.0})).judge(B, learned=0.04)
    shrunk = np.maximum(B - 0.04 * 0.005, 0)
    np.testing.assert_allclose(verdict.factors * B, shrunk, atol=1e-15)
    assert verdict.acyclic and verdict.edges == 2


def test_the_weight_of_cycles_grows_with_learning_and_stops_once_acyclic():
    validator = Validator(3, **SETTINGS)
    cyclic = np.array([[0, 0.5, 0], [0, 0, 0.5], [0.5, 0, 0]])
    for _ in range(5):
        verdict = validator.judge(cyclic, learned=0.02)
    assert not verdict.acyclic and validator.weight == pytest.approx(0.006)
    cyclic[2, 0] = 0.09
    assert validator.judge(cyclic, learned=0.02).acyclic and validator.weight == pytest.approx(0.006)


def test_training_on_the_verdict_alone_ends_acyclic():
    validator = Validator(6, **(SETTINGS | {"growth": 1.0}))
    B = strengths_of(6)
    for _ in range(2000):
        verdict = validator.judge(B, learned=0.01)
        if verdict.acyclic:
            break
        B = B * verdict.factors
    assert verdict.acyclic and 0 < verdict.edges < 15


def test_a_long_way_at_once_ends_near_many_short_ones():
    """The coordinator may look rarely: the gradient is taken anew on the way."""
    whole, parts = Validator(6, **(SETTINGS | {"growth": 0.0})), Validator(6, **(SETTINGS | {"growth": 0.0}))
    whole.weight = parts.weight = 0.3
    start_at = strengths_of(6)
    at_once = start_at * whole.judge(start_at, learned=1.0).factors
    by_parts = start_at
    for _ in range(200):
        by_parts = by_parts * parts.judge(by_parts, learned=0.005).factors
    np.testing.assert_allclose(at_once, by_parts, atol=0.01)
    assert np.abs(at_once - start_at).max() > 0.03


def test_in_a_refit_sparsity_alone_shrinks_edges():
    B = strengths_of(4)
    verdict = Validator(4, **SETTINGS).shrink(B, learned=2.0, sparsity=0.01)
    np.testing.assert_allclose(verdict.factors * B, np.maximum(B - 0.02, 0) * (B > 0))


def test_knowledge_rules_the_factors():
    B = strengths_of(5)
    required, forbidden = np.zeros((5, 5), bool), np.zeros((5, 5), bool)
    required[0, 1] = forbidden[2, 3] = True
    validator = Validator(5, required=required, forbidden=forbidden, **SETTINGS)
    factors = validator.judge(B, learned=0.01).factors
    assert factors[0, 1] == 1 and factors[2, 3] == 0 and (np.diag(factors) == 0).all()
    assert ((factors >= 0) & (factors <= 1)).all()


def test_strengths_below_zero_are_taken_for_none():
    """Noise for privacy may push a strength below 0."""
    B = strengths_of(4)
    B[0, 1] = -0.3
    assert Validator(4, **SETTINGS).judge(B, learned=0.01).factors[0, 1] == 0


def test_a_diverged_run_is_told_so():
    B = strengths_of(4)
    B[0, 1] = np.nan
    with pytest.raises(RunError, match="learning rate"):
        Validator(4, **SETTINGS).judge(B, learned=0.01)


def test_a_resumed_validator_says_the_same():
    one, two = Validator(6, **SETTINGS), Validator(6, **SETTINGS)
    for seed in range(4):
        one.judge(strengths_of(6, seed), learned=0.03)
    two.load(one.state())
    for seed in range(4, 8):
        first, second = (validator.judge(strengths_of(6, seed), learned=0.03) for validator in (one, two))
        np.testing.assert_array_equal(first.factors, second.factors)
        assert first.rho == second.rho
    with pytest.raises(RunError):
        Validator(5, **SETTINGS).load(one.state())
