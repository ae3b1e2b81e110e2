"""If these fail, shares do not add up to the secret any more, or one of them tells something about it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from colonnade.errors import DataError
from colonnade.secure import ring, shares

MATRIX = arrays(np.uint64, (3, 2), elements=st.integers(0, 2**59 - 1))


@given(MATRIX, st.integers(2, 5))
def test_shares_add_up_to_the_secret(secret, parties):
    assert (shares.reveal(*shares.split(secret, parties)) == secret).all()


@given(MATRIX, MATRIX)
def test_an_update_by_a_shared_gradient_is_addition(weights, gradient):
    updated = [
        shares.add(own, change) for own, change in zip(shares.split(weights, 3), shares.split(gradient, 3), strict=True)
    ]
    assert (shares.reveal(*updated) == (weights + gradient) % np.uint64(2**59)).all()


@given(MATRIX, MATRIX)
def test_an_update_by_a_public_gradient_is_added_by_one_party(weights, gradient):
    updated = [shares.add_public(own, gradient, first=i == 1) for i, own in enumerate(shares.split(weights, 3))]
    assert (shares.reveal(*updated) == (weights + gradient) % np.uint64(2**59)).all()


@given(MATRIX, MATRIX)
def test_subtraction_undoes_addition(first, second):
    assert (shares.subtract(shares.add(first, second), second) == first).all()


def test_weights_follow_many_updates_without_losing_a_digit():
    """A column times a gradient lands on the scale of weights: nothing is rounded between steps."""
    rng = np.random.default_rng(0)
    plain, weights = ring.encode_plain(rng.normal(size=(20, 3))), rng.normal(size=(3, 4))
    parts, exact = shares.split(ring.encode(weights, ring.WEIGHT_SCALE)), ring.encode(weights, ring.WEIGHT_SCALE)
    for _ in range(50):
        gradient = ring.encode(rng.normal(size=(20, 4)) * 1e-3, ring.GRADIENT_SCALE)
        change = ring.matmul(np.ascontiguousarray(plain.T), gradient)
        exact = ring.wrap(exact + change)
        parts = [shares.add(own, part) for own, part in zip(parts, shares.split(change), strict=True)]
    assert (shares.reveal(*parts) == exact).all()


@pytest.mark.parametrize("party", [0, 1, 2])
def test_no_single_share_of_a_constant_is_anything_but_uniform(party):
    share = shares.split(np.full((512, 256), 12345, np.uint64), 3)[party]
    counts = np.bincount((share >> np.uint64(51)).ravel().astype(np.int64), minlength=256)
    assert (((counts - 512.0) ** 2) / 512.0).sum() < chi2.isf(1e-9, 255)


def test_shares_of_different_matrices_are_refused():
    with pytest.raises(DataError, match="shapes"):
        shares.add(np.zeros((2, 2), np.uint64), np.zeros((2, 1), np.uint64))
