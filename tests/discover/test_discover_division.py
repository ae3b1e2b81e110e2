"""If these fail, who holds which column, or whether it is encrypted, changes the graph that is found."""

import numpy as np
import pytest
from discovery_parts import assert_same_but_for_rounding, chain, divided, find, weights_after

DIVISIONS = [("ab", "cde"), ("a", "bc", "de"), ("a", "b", "c", "d", "e")]


def strengths(graph):
    return graph.strengths.to_numpy()


@pytest.mark.parametrize("groups", DIVISIONS, ids="-".join)
def test_a_federation_learns_the_weights_of_one_party_with_all_columns(groups):
    """After 102 exchanges, 34 looks of the coordinator among them."""
    undivided = weights_after(divided(chain(), "abcde"), epochs=34, refit_epochs=0)
    federation = weights_after(divided(chain(), *groups), epochs=34, refit_epochs=0)
    assert np.abs(undivided).max() > 0.5
    np.testing.assert_allclose(federation, undivided, rtol=0, atol=1e-9)


@pytest.mark.parametrize("groups", DIVISIONS[:2], ids="-".join)
def test_encryption_changes_the_weights_by_the_rounding_of_fixed_point(groups):
    """Columns are rounded to 2^-14, so weights that grow to about 1 agree to about 2^-12 after 36 exchanges."""
    settings = {"epochs": 12, "refit_epochs": 3}
    plain = weights_after(divided(chain(), *groups), **settings)
    secure = weights_after(divided(chain(), *groups), **settings, secure=True)
    assert np.abs(plain).max() > 0.3
    np.testing.assert_allclose(secure, plain, rtol=0, atol=2.0**-12)


def test_encryption_does_not_change_the_graph():
    plain, secure = (find(divided(chain(), "a", "bc", "de"), epochs=12, secure=secure) for secure in (False, True))
    assert ((secure.adjacency > 0) == (plain.adjacency > 0)).all(axis=None)
    assert strengths(plain).max() > 0.1
    assert_same_but_for_rounding(secure, plain)


def test_another_seed_is_another_run():
    first, again, other = (find(divided(chain(), "ab", "cde"), seed=seed) for seed in (0, 0, 1))
    assert (strengths(first) == strengths(again)).all()
    assert not np.allclose(strengths(first), strengths(other))
