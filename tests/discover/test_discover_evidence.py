"""If these fail, graphs of noisy data lose true edges, or graphs of any data are full of edges that mean nothing."""

import math

import numpy as np
import pytest
from discovery_parts import chain, divided, find
from hypothesis import given
from hypothesis import strategies as st

from colonnade.discover.evidence import least_worth

WORTHS = st.lists(st.floats(0, 1e6), min_size=4, max_size=4).map(lambda found: np.array(found).reshape(2, 2))


def strongest(*values):
    """Worths where each variable has one cause."""
    return np.diag(np.array(values, dtype=float))


def test_without_strong_causes_an_edge_pays_for_its_weights():
    assert least_worth(np.zeros((3, 3)), 5, 1000) == pytest.approx(5 * math.log(1000) / 2000)
    assert least_worth(strongest(0.04, 0.01), 5, 1000) == pytest.approx(5 * math.log(1000) / 2000)


def test_more_records_find_weaker_edges():
    assert least_worth(strongest(0.2, 0.2), 5, 10_000) < least_worth(strongest(0.2, 0.2), 5, 1000)


@pytest.mark.parametrize("median, asked", [(0.2, 0.0173), (2.0, 0.07), (100.0, 1.2)])
def test_what_is_asked_follows_the_strongest_causes(median, asked):
    worth = strongest(median / 3, median, 3 * median)
    assert least_worth(worth, 5, 1000) == pytest.approx(asked, rel=0.01)


def test_variables_without_causes_do_not_lower_what_is_asked():
    assert least_worth(strongest(2.0, 2.0, 0.0, 0.0, 0.0), 5, 1000) == least_worth(strongest(2.0, 2.0), 5, 1000)


@given(WORTHS, st.integers(1, 64), st.integers(2, 10**6))
def test_it_never_asks_more_than_all_strong_causes_are_worth(worth, weights, records):
    price = weights * math.log(records) / (2 * records)
    assert price <= least_worth(worth, weights, records) <= max(price, worth.max())


@given(WORTHS.map(lambda worth: worth + 0.06), st.floats(1, 100))
def test_stronger_causes_never_ask_less(worth, times):
    """Where all of them count already: a weak one that comes to count may well lower the median."""
    assert least_worth(times * worth, 5, 1000) >= least_worth(worth, 5, 1000)


def test_the_rule_of_strength_keeps_all_candidates_and_tells_their_last_strengths():
    """Its note says so; half-way through a refit edges were dropped by their worth all the same."""
    tables = divided(chain(), "ab", "cde")
    strong = {"rule": "strength", "evidence": 1e9, "least_strength": 0.1}
    searched, refitted = (find(tables, **strong, refit_epochs=epochs) for epochs in (0, 6))
    assert (refitted.adjacency > 0).equals(searched.adjacency > 0) and len(searched.edges)
    assert not np.allclose(refitted.adjacency, searched.adjacency)
