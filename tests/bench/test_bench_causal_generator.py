"""If these fail, causal benches are run on other data than they say."""

import numpy as np
import pytest

from colonnade.bench.causal.generator import Design, generate
from colonnade.errors import ConfigError
from colonnade.measure.sortability import r2_sortability, varsortability


def explained(values):
    return 1 - 1 / np.diag(np.linalg.inv(np.corrcoef(values.T)))


def acyclic(graph):
    return not np.linalg.matrix_power(graph.astype(int), len(graph)).any()


@pytest.mark.parametrize("edges", [0, 1, 40, 45])
def test_a_graph_has_exactly_the_edges_asked_for_and_no_cycle(edges):
    for seed in range(5):
        values, graph = generate(Design(10, edges, records=50), seed)
        assert graph.sum() == edges and acyclic(graph) and values.shape == (50, 10)
    with pytest.raises(ConfigError, match="cannot have 46 edges"):
        Design(10, 46)


def test_a_seed_gives_the_same_records_and_another_seed_others():
    first, again, other = (generate(Design(6, 8, records=20), seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_it_draws_what_the_stored_sets_hold():
    """Sortability of the stored sets: .72 to .87 by variance, .17 to .43 by R²; a mean outside is another generator."""
    drawn = [generate(Design(15, 60), seed) for seed in range(20)]
    by_variance = np.mean([varsortability(values.var(axis=0), graph) for values, graph in drawn])
    by_explained = np.mean([r2_sortability(explained(values), graph) for values, graph in drawn])
    assert 0.72 < by_variance < 0.87 and 0.17 < by_explained < 0.43
    roots = np.concatenate([values[:, graph.sum(axis=0) == 0].std(axis=0) for values, graph in drawn])
    assert roots == pytest.approx(0.5, abs=0.05)


def test_unit_variance_leaves_no_order_to_sort_by():
    for seed in range(3):
        values, graph = generate(Design(15, 60, unit_variance=True), seed)
        assert values.var(axis=0) == pytest.approx(1)
        assert varsortability(values.var(axis=0), graph) == 0.5


def test_unit_variance_is_what_standardised_columns_hold():
    """The claim that the docstring makes: without it the two rows of a table would be thought to differ."""
    raw, _ = generate(Design(8, 20), 0)
    unit, _ = generate(Design(8, 20, unit_variance=True), 0)
    np.testing.assert_allclose(unit, (raw - raw.mean(axis=0)) / raw.std(axis=0), atol=1e-9)


def test_counts_are_counts_and_other_noise_is_what_it_is_called():
    counts, _ = generate(Design(10, 40, noise="poisson"), 0)
    assert (counts >= 0).all() and (counts == counts.round()).all() and counts.std(axis=0).min() > 0.5
    for noise in ("multiplicative", "non-iid"):
        other, graph = generate(Design(2, 1, records=20_000, noise=noise), 1)
        plain, _ = generate(Design(2, 1, records=20_000), 1)
        effect = int(graph.any(axis=0).argmax())
        signal = np.abs(other[:, effect] - plain[:, effect])
        assert signal.max() > 0.1, "the same seed draws the same signal, so that only the noise can differ"
        np.testing.assert_allclose(other[:, 1 - effect], plain[:, 1 - effect])


def test_latent_variables_are_gone_from_records_and_graph_and_were_confounders():
    all_values, all_graph = generate(Design(12, 30), 5)
    values, graph = generate(Design(12, 30, latent=3), 5)
    kept = [next(i for i in range(12) if np.array_equal(all_values[:, i], column)) for column in values.T]
    hidden = sorted(set(range(12)) - set(kept))
    assert len(hidden) == 3 and (all_graph[hidden].sum(axis=1) >= 2).all()
    np.testing.assert_array_equal(graph, all_graph[np.ix_(kept, kept)])
    with pytest.raises(ConfigError, match="two effects"):
        generate(Design(3, 1, latent=1), 0)
