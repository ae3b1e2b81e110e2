"""Sortability, held against numbers of CausalDisco 0.2.4 (200 records of linear models, one seed each)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import DataError
from colonnade.measure.sortability import r2_sortability, sortability, varsortability

# variances and R² as CausalDisco computed them (rounded), and what its var_sortability and r2_sortability answered
VECTORS = [
    (
        [(0, 1), (0, 3), (1, 3), (2, 0)],
        [2.929, 7.454, 0.724, 4.452],
        [0.9886, 0.988, 0.8866, 0.672],
        0.875,
        0.25,
    ),
    (
        [(0, 1), (0, 3), (1, 3), (2, 5), (4, 1), (4, 2), (4, 3), (4, 5), (5, 3)],
        [1.318, 1.541, 0.86, 13.797, 0.239, 4.089],
        [0.7696, 0.7888, 0.8411, 0.8693, 0.8491, 0.8647],
        1.0,
        0.8571428571428571,
    ),
    (
        [(0, 1), (2, 0), (2, 3), (3, 4), (4, 1), (5, 0), (5, 1), (5, 2), (5, 7), (6, 1), (6, 3), (6, 4), (6, 7), (7, 0),
         (7, 3), (7, 4)],
        [10.972, 143.615, 6.076, 37.161, 195.199, 1.502, 0.271, 7.197],
        [0.9968, 0.9991, 0.9781, 0.9903, 0.9996, 0.9462, 0.8799, 0.9676],
        0.972972972972973,
        0.972972972972973,
    ),
    (
        [(0, 2), (0, 4), (0, 5), (2, 7), (2, 8), (5, 8), (6, 0), (6, 5), (7, 5), (9, 0), (9, 4), (9, 5)],
        [0.96, 0.463, 0.981, 1.475, 5.142, 7.63, 0.128, 3.579, 14.192, 0.215],
        [0.9525, 0.0351, 0.8683, 0.045, 0.8217, 0.988, 0.8013, 0.9835, 0.97, 0.8241],
        1.0,
        0.8285714285714286,
    ),
]  # fmt: skip


def graph(variables, edges):
    mask = np.zeros((variables, variables))
    for cause, effect in edges:
        mask[cause, effect] = -0.7
    return mask


@pytest.mark.parametrize(("edges", "variances", "explained", "by_variance", "by_r2"), VECTORS)
def test_values_equal_those_of_the_published_package(edges, variances, explained, by_variance, by_r2):
    """Our warning would be about another number than the one in the literature."""
    mask = graph(len(variances), edges)
    assert varsortability(variances, mask) == pytest.approx(by_variance, abs=1e-12)
    assert r2_sortability(explained, mask) == pytest.approx(by_r2, abs=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(2, 9))
def test_downwards_is_the_complement_of_upwards(seed, variables):
    """A graph that is sorted by falling R² would not be noticed."""
    random = np.random.default_rng(seed)
    mask = np.triu(random.random((variables, variables)) < 0.6, k=1)
    mask[0, 1] = True
    scores = random.integers(0, 4, variables).astype(float)
    assert sortability(scores, mask) + sortability(-scores, mask) == pytest.approx(1)
    assert sortability(np.arange(variables), mask) == 1


def test_standardised_columns_have_no_order_but_for_rounding():
    """Rounding of equal variances would raise, or hide, the warning at random."""
    chain = graph(3, [(0, 1), (1, 2)])
    assert varsortability([1.0, 1.0 + 2e-16, 1.0 - 1e-12], chain) == 0.5
    assert varsortability([1e-14, 2e-14, 3e-14], chain) == 1.0  # small units are no ties


def test_paths_of_one_length_count_once_and_longer_ones_again():
    """0 reaches 3 in two steps by two ways, and at once."""
    diamond = graph(4, [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])
    assert sortability([1, 2, 3, 0], diamond) == pytest.approx(2 / 6)


def test_a_graph_without_edges_has_no_sortability():
    assert math.isnan(varsortability([1.0, 2.0], np.zeros((2, 2))))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: sortability([1.0], np.zeros((2, 2))), "do not fit"),
        (lambda: sortability([1.0, math.nan], np.zeros((2, 2))), "do not fit"),
        (lambda: varsortability([1.0, -1.0], np.zeros((2, 2))), "negative"),
        (lambda: r2_sortability([1.0, 1.5], np.zeros((2, 2))), "above 1"),
    ],
)
def test_scores_that_cannot_be_are_refused(call, match):
    with pytest.raises(DataError, match=match):
        call()
