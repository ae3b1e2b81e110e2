"""If these fail, who holds which column, or whether it is encrypted, changes the graph that is found."""

import numpy as np
import pytest
from discovery_parts import chain, divided, find

DIVISIONS = [("ab", "cde"), ("a", "bc", "de"), ("a", "b", "c", "d", "e")]


def strengths(graph):
    return graph.strengths.to_numpy()


@pytest.mark.parametrize("groups", DIVISIONS, ids="-".join)
def test_a_federation_finds_what_one_party_with_all_columns_finds(groups):
    undivided = find(divided(chain(), "abcde"))
    federation = find(divided(chain(), *groups))
    np.testing.assert_allclose(strengths(federation), strengths(undivided), rtol=0, atol=1e-9)


@pytest.mark.parametrize("groups", DIVISIONS[:2], ids="-".join)
def test_encryption_changes_nothing_but_the_last_digits(groups):
    plain = find(divided(chain(), *groups), epochs=6, refit_epochs=2)
    secure = find(divided(chain(), *groups), epochs=6, refit_epochs=2, secure=True)
    np.testing.assert_allclose(strengths(secure), strengths(plain), rtol=1e-3, atol=1e-3)
    assert ((secure.adjacency > 0) == (plain.adjacency > 0)).all(axis=None)


def test_another_seed_is_another_run():
    first, again, other = (find(divided(chain(), "ab", "cde"), seed=seed) for seed in (0, 0, 1))
    assert (strengths(first) == strengths(again)).all()
    assert not np.allclose(strengths(first), strengths(other))
