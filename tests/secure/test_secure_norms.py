"""If these fail, edge strengths are wrong: the norm of a sum is not the sum of norms."""

import numpy as np
import pytest
from bfv_parts import key_pair
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import DataError
from colonnade.secure import backend, ring, shares
from colonnade.secure.bfv import BfvBackend
from colonnade.secure.dispatch import Line
from colonnade.secure.norms import LARGEST_SQUARED_NORM, NormScale, norms_as_holder, norms_as_owner, reveal_norms
from colonnade.wire.together import run_together


def norms(first, second, encryption=BfvBackend(), key=None, groups=None, **form):  # noqa: B008
    """Return squared norms computed by two parties from their fragments."""
    key = key or key_pair()

    def source(channel):
        line = Line(channel, "target", encryption, key)
        line.receive_key()
        return norms_as_holder(line, first, groups=groups, **form)

    def target(channel):
        line = Line(channel, "source", encryption, key)
        line.send_key()
        return norms_as_owner(line, second, groups=groups, **form)

    results = run_together({"source": source, "target": target})
    return reveal_norms(*results.values(), **form), results


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 70), st.integers(1, 12), st.integers(0, 2**32))
def test_norms_of_shared_weights_are_those_of_the_weights(rows, hidden, seed):
    weights = np.random.default_rng(seed).normal(size=(rows, hidden))
    squared, _ = norms(*shares.split(ring.encode(weights, ring.WEIGHT_SCALE)))
    error = np.sqrt(squared) - np.linalg.norm(weights, axis=1)
    assert np.abs(error).max() <= np.sqrt(hidden) * 2.0**-16


def test_weights_of_zero_have_a_strength_of_exactly_zero():
    squared, _ = norms(*shares.split(np.zeros((50, 5), np.uint64)))
    assert (squared == 0).all()


@pytest.mark.parametrize("fragment", [0, 1, 2**20, 2**38, 2**39, 2**58 - 1, 2**58, 2**59 - 2**20, 2**59 - 1])
def test_no_share_makes_the_norm_fail(fragment):
    """Shares that lie near the ends of the ring are what usual truncation gets wrong."""
    weights = np.array([[1.5, -2.0, 0.0, 2.0**-16, -3.999]])
    encoded = ring.encode(weights, ring.WEIGHT_SCALE)
    first = np.full_like(encoded, fragment)
    squared, _ = norms(first, shares.subtract(encoded, first))
    assert abs(np.sqrt(squared[0]) - np.linalg.norm(weights)) <= np.sqrt(5) * 2.0**-16


def test_the_largest_norm_is_right_and_beyond_it_is_documented():
    edge = np.sqrt(LARGEST_SQUARED_NORM) - 1e-3
    squared, _ = norms(*shares.split(ring.encode([[edge, 0.0]], ring.WEIGHT_SCALE)))
    assert abs(np.sqrt(squared[0]) - edge) < 1e-4
    assert LARGEST_SQUARED_NORM == 256


def test_one_partys_share_of_a_norm_changes_with_every_run():
    parts = shares.split(ring.encode([[1.0, 2.0]], ring.WEIGHT_SCALE))
    seen = {int(norms(*parts)[1]["source"][0]) for _ in range(5)}
    assert len(seen) == 5


def test_the_sum_of_the_fragments_norms_would_be_wrong():
    """The published validator adds norms of fragments: these are dominated by the masks."""
    weights = np.array([[0.5, 0.5]])
    parts = shares.split(ring.encode(weights, ring.WEIGHT_SCALE))
    published = sum(np.linalg.norm(ring.decode(part, ring.WEIGHT_SCALE)) for part in parts)
    squared, _ = norms(*parts)
    assert published > 100 * np.sqrt(squared[0])


def test_weights_without_a_hidden_axis_are_refused():
    with pytest.raises(DataError, match="two axes"):
        norms(np.zeros(3, np.uint64), np.zeros((3, 1), np.uint64))


def test_norms_are_the_same_with_the_other_backend():
    other = backend("paillier-2048")()
    weights = np.array([[0.5, -1.25], [0.0, 0.0], [3.0, 4.0]])
    squared, _ = norms(*shares.split(ring.encode(weights, ring.WEIGHT_SCALE)), other, other.generate())
    assert np.abs(np.sqrt(squared) - np.linalg.norm(weights, axis=1)).max() <= 2.0**-15


@settings(max_examples=12, deadline=None)
@given(st.integers(34, 50), st.integers(-4, 8), st.integers(0, 2**32))
def test_norms_at_other_scales_are_as_precise_as_promised(scale, exponent, seed):
    largest = 2.0**exponent
    form = NormScale(scale, largest)
    weights = np.random.default_rng(seed).normal(size=(9, 5))
    weights *= 0.9 * np.sqrt(largest) / np.linalg.norm(weights, axis=1, keepdims=True)
    squared, _ = norms(*shares.split(ring.encode(weights, scale)), scale=scale, largest=largest)
    error = np.sqrt(squared) - np.linalg.norm(weights, axis=1)
    assert np.abs(error).max() <= np.sqrt(5) * (2.0**-form.kept + 2.0**-scale)


def test_weights_mapped_by_a_public_matrix_have_the_norms_of_the_map():
    """The edge test: both parties apply the same integers to their shares, which is exact."""
    rng = np.random.default_rng(4)
    weights, public = rng.normal(size=(6, 5)) * 0.2, rng.normal(size=(5, 5))
    integers = np.rint(public * 2**10).astype(np.int64)
    parts = shares.split(ring.encode(weights, ring.WEIGHT_SCALE))
    mapped = [np.ascontiguousarray(ring.matmul(integers.T, part.T).T) for part in parts]
    squared, _ = norms(*mapped, scale=46, largest=4)
    assert np.abs(np.sqrt(squared) - np.linalg.norm(weights @ public, axis=1)).max() < 2e-3


def test_the_rows_of_one_cause_add_up_to_one_norm():
    weights = np.random.default_rng(5).normal(size=(40, 3))
    groups = np.arange(40) // 3
    parts = shares.split(ring.encode(weights, ring.WEIGHT_SCALE))
    squared, _ = norms(*parts, groups=groups)
    exact = [np.square(weights[groups == group]).sum() for group in range(14)]
    assert np.abs(squared - exact).max() < 1e-3


@pytest.mark.parametrize(("scale", "largest"), [(36, 100), (36, 2**30), (59, 256), (10, 256), (36, 0)])
def test_scales_that_cannot_work_are_refused(scale, largest):
    with pytest.raises(DataError, match="norm"):
        NormScale(scale, largest)


@pytest.mark.parametrize("groups", [np.array([0]), np.array([0, -1, 0])])
def test_groups_that_do_not_fit_are_refused(groups):
    with pytest.raises(DataError, match="groups"):
        norms(*shares.split(np.zeros((3, 2), np.uint64)), groups=groups)
