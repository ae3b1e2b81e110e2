"""If these fail, numbers change or wrap on their way through the ring, or masks are not uniform."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from colonnade.errors import DataError
from colonnade.secure import ring

RING = st.integers(0, 2**59 - 1)
PLAIN = st.integers(-(2**20) + 1, 2**20 - 1)


@given(arrays(np.float64, (3, 4), elements=st.floats(-63.9, 63.9)))
def test_columns_come_back_within_half_a_unit(values):
    decoded = ring.decode(ring.wrap(ring.encode_plain(values)), ring.PLAIN_SCALE)
    assert np.abs(decoded - values).max() <= 2.0**-15


@pytest.mark.parametrize("scale", [ring.GRADIENT_SCALE, ring.WEIGHT_SCALE, ring.PRODUCT_SCALE])
@given(fraction=st.floats(-0.999, 0.999))
def test_numbers_up_to_the_edge_of_the_range_come_back(scale, fraction):
    value = fraction * 2.0 ** (58 - scale)
    decoded = ring.decode(ring.encode([[value]], scale), scale)[0, 0]
    assert abs(decoded - value) <= max(2.0**-scale, abs(value) * 2.0**-52)


@pytest.mark.parametrize("value", [2.0**22, -(2.0**22), 1e300, np.inf, -np.inf, np.nan])
def test_a_number_that_would_wrap_raises_and_is_not_shown(value):
    with pytest.raises(DataError, match="not below") as caught:
        ring.encode([[0.5, value]], ring.WEIGHT_SCALE, where="weights")
    assert caught.value.remedy
    assert str(value) not in str(caught.value)


@pytest.mark.parametrize("value", [64.0, -64.0, 63.99999, np.nan])
def test_a_column_that_is_not_standardised_raises(value):
    with pytest.raises(DataError):
        ring.encode_plain([[value]])


def test_a_product_that_could_wrap_raises_before_anything_is_encrypted():
    plain = ring.encode_plain(np.full((2, 4), 8.0))
    ring.check_product(plain, limit=7.9, scale=ring.WEIGHT_SCALE)
    with pytest.raises(DataError, match="does not fit"):
        ring.check_product(plain, limit=8.0, scale=ring.WEIGHT_SCALE)


@pytest.mark.parametrize(
    "bad",
    [np.zeros((2, 2), np.int32), np.zeros(3, np.int64), np.zeros((0, 2), np.int64), np.array([[2**20]]),
     np.array([[-(2**20)]])],
)  # fmt: skip
def test_only_small_whole_numbers_are_plain_matrices(bad):
    with pytest.raises(DataError):
        ring.check_plain(bad)


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.zeros(3, np.uint64), np.array([[2**59]], np.uint64)])
def test_only_ring_elements_are_secret_matrices(bad):
    with pytest.raises(DataError):
        ring.check_ring(bad)


@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_products_are_exact(data, rows, inner, columns):
    plain = data.draw(arrays(np.int64, (rows, inner), elements=PLAIN))
    secret = data.draw(arrays(np.uint64, (inner, columns), elements=RING))
    exact = (plain.astype(object) @ secret.astype(object)) % 2**59
    assert (ring.matmul(plain, secret).astype(object) == exact).all()


def test_long_products_of_extremes_are_exact():
    """More terms than a float64 could add up at once."""
    plain = np.full((1, 10_000), 2**20 - 1)
    secret = np.full((10_000, 1), 2**59 - 1, np.uint64)
    assert int(ring.matmul(plain, secret)[0, 0]) == (2**20 - 1) * (2**59 - 1) * 10_000 % 2**59


@pytest.mark.parametrize("shift", [0, 27, 51])
def test_masks_are_uniform_in_their_high_middle_and_low_bits(shift):
    counts = np.bincount((ring.random_ring((512, 512)) >> np.uint64(shift)).ravel() & np.uint64(255), minlength=256)
    expected = 512 * 512 / 256
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-9, 255)


def test_draws_below_a_bound_have_no_bias():
    """A remainder instead of rejection would make small numbers twice as likely for this bound."""
    bound = 3 << 20
    draws = ring.random_below(bound, 300_000)
    assert draws.max() < bound
    counts = np.bincount((draws >> np.uint64(20)).astype(np.int64), minlength=3)
    assert (((counts - 1e5) ** 2) / 1e5).sum() < chi2.isf(1e-9, 2)


def test_masks_never_repeat():
    drawn = np.concatenate([ring.random_ring((1, 4)) for _ in range(1000)])
    assert len(np.unique(drawn)) == drawn.size
