"""If these fail, scaling an edge spoils weights, now and then by a huge amount, and nobody can see it."""

import numpy as np
import pytest
from bfv_parts import key_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import DataError
from colonnade.secure import backend, ring, shares
from colonnade.secure.bfv import BfvBackend
from colonnade.secure.dispatch import Line
from colonnade.secure.rescale import UNIT_FACTOR, encode_factors, rescale_as_holder, rescale_as_owner
from colonnade.wire.together import run_together

LARGEST = 2**55 - 1
EDGES = [0, 1, 2**20, 2**56, 2**58 - 2**56, 2**58 - 1, 2**58, 2**58 + 1, 2**59 - 2**56, 2**59 - 1]


def rescale(first, second, factors, encryption=BfvBackend(), key=None):  # noqa: B008
    """Return the shares of two parties after scaling, and how many messages were sent."""
    key = key or key_pair()
    sent = []

    def party(method, peer):
        def live(channel):
            line = Line(channel, peer, encryption, key)
            line.send_key()
            line.receive_key()
            channel.observe(lambda to, message: sent.append(message))
            return method(line, first if peer == "target" else second, factors)

        return live

    results = run_together({"source": party(rescale_as_holder, "target"), "target": party(rescale_as_owner, "source")})
    return results["source"], results["target"], len(sent)


def errors(weights, factors, one, two):
    """Return by how many units the sum of the shares is off, exactly."""
    found = ring.signed(shares.add(one, two)).astype(object)
    exact = weights.astype(object) * np.broadcast_to(factors, weights.shape).astype(object)
    return np.abs(found * UNIT_FACTOR - exact)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-LARGEST, LARGEST) | st.sampled_from([0, 1, -1, LARGEST, -LARGEST]),
            st.integers(0, 2**59 - 1) | st.sampled_from(EDGES),
            st.integers(0, UNIT_FACTOR) | st.sampled_from([0, 1, UNIT_FACTOR - 1, UNIT_FACTOR]),
        ),
        min_size=1,
        max_size=150,
    )
)
def test_any_shares_of_any_weight_scale_to_within_one_unit(entries):
    weights, first, factors = (np.array(column, np.int64)[None, :] for column in zip(*entries, strict=True))
    first = first.view(np.uint64)
    one, two, _ = rescale(first, shares.subtract(ring.wrap(weights), first), factors)
    assert (errors(weights, factors, one, two) < UNIT_FACTOR).all()
    assert max(one.max(), two.max()) < 2**59


@pytest.mark.parametrize("first", EDGES)
def test_no_share_makes_scaling_fail(first):
    """Shares near the ends of the ring are what scaling them one by one gets wrong by 2^59."""
    weights = np.array([[0, 1, -1, 2**36, -(2**36), 2**55 - 1, 1 - 2**55]])
    fragment = np.full(weights.shape, first, np.uint64)
    for factors in (np.array([[1]]), np.array([[UNIT_FACTOR // 3]]), np.array([[UNIT_FACTOR - 1]])):
        one, two, _ = rescale(fragment, shares.subtract(ring.wrap(weights), fragment), factors)
        assert (errors(weights, factors, one, two) < UNIT_FACTOR).all()


def test_without_the_product_of_bits_scaling_does_fail():
    """What the protocol is for: sharewise scaling is off by s · 2^59 in about half of all cases."""
    weights = np.full((1, 200), 2**36)
    one, two = shares.split(ring.wrap(weights))
    scaled = shares.add(one // 2, two // 2)
    assert (np.abs(ring.signed(scaled) - 2**35) > 2**50).mean() > 0.25


def test_weights_of_zero_stay_exactly_zero():
    one, two, _ = rescale(*shares.split(np.zeros((20, 5), np.uint64)), np.full((20, 1), 700_001))
    assert (shares.add(one, two) == 0).all()


def test_removed_edges_are_zero_kept_ones_untouched_and_neither_costs_a_message():
    one, two = shares.split(ring.random_ring((2, 3)))
    factors = np.array([[0], [UNIT_FACTOR]])
    new_one, new_two, sent = rescale(one, two, factors)
    assert not new_one[0].any()
    assert not new_two[0].any()
    assert (new_one[1] == one[1]).all()
    assert (new_two[1] == two[1]).all()
    assert sent == 0


def test_a_factor_for_each_row_spreads_over_its_hidden_units():
    weights = np.random.default_rng(0).normal(size=(7, 5))
    factors = encode_factors(np.linspace(0, 1, 7)[:, None])
    one, two, sent = rescale(*shares.split(ring.encode(weights, ring.WEIGHT_SCALE)), factors)
    found = ring.decode(shares.add(one, two), ring.WEIGHT_SCALE)
    assert np.abs(found - weights * np.linspace(0, 1, 7)[:, None]).max() < 1e-5
    assert sent == 2


def test_scaling_is_the_same_with_the_other_backend():
    other = backend("paillier-2048")()
    weights = np.array([[2**40, -(2**40), 3]])
    factors = np.array([[UNIT_FACTOR // 2]])
    one, two, _ = rescale(*shares.split(ring.wrap(weights)), factors, other, other.generate())
    assert (errors(weights, factors, one, two) < UNIT_FACTOR).all()


def test_new_shares_differ_with_every_run():
    one, two = shares.split(ring.wrap(np.full((1, 4), 2**36)))
    seen = {rescale(one, two, np.array([[UNIT_FACTOR // 2 + 1]]))[0].tobytes() for _ in range(4)}
    assert len(seen) == 4


@pytest.mark.parametrize(
    "factors",
    [np.array([[-1]]), np.array([[UNIT_FACTOR + 1]]), np.array([[0.5]]), np.ones((3, 3), np.int64)],
)
def test_factors_that_are_none_are_refused_before_anything_is_sent(factors):
    with pytest.raises(DataError):
        rescale(*shares.split(np.zeros((2, 2), np.uint64)), factors)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_real_factors_out_of_range_are_refused(value):
    with pytest.raises(DataError, match="between 0 and 1"):
        encode_factors([[value]])
    assert encode_factors([[0.0, 0.5, 1.0]]).tolist() == [[0, UNIT_FACTOR // 2, UNIT_FACTOR]]
