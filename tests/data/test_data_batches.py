"""Batches: every party draws the same ones, and every record is in one of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data import epoch_batches, evaluation_batches
from colonnade.errors import ConfigError

PINNED = [[2, 4, 7, 3], [5, 1, 8], [9, 0, 6]]


def test_batches_of_a_known_seed_never_change():
    """Parties with different versions would train on mismatched records without noticing."""
    assert [b.tolist() for b in epoch_batches(np.arange(10), 4, seed=7, epoch=3)] == PINNED


@given(
    st.lists(st.integers(0, 2**40), unique=True, max_size=60),
    st.integers(1, 20),
    st.integers(0, 2**63),
    st.integers(0, 500),
)
def test_every_position_is_in_one_batch(positions, size, seed, epoch):
    batches = epoch_batches(positions, size, seed, epoch)
    assert sorted(int(p) for batch in batches for p in batch) == sorted(positions)
    sizes = {len(batch) for batch in batches}
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert not sizes or max(sizes) <= max(size, 3)
    again = epoch_batches(positions, size, seed, epoch)
    assert all(np.array_equal(one, two) for one, two in zip(batches, again, strict=True))
    if len(positions) > 1 and size > 1:
        assert min(len(batch) for batch in batches) > 1


def test_epochs_and_seeds_give_different_orders():
    orders = {tuple(np.concatenate(epoch_batches(np.arange(50), 8, s, e))) for s in range(5) for e in range(5)}
    assert len(orders) == 25


def test_no_batch_is_left_with_a_few_records():
    """Every epoch would end with a step on four records, normalised among themselves: it costs accuracy."""
    assert {len(batch) for batch in epoch_batches(np.arange(2500), 64, 0, 0)} == {62, 63}
    assert [len(batch) for batch in epoch_batches(np.arange(9), 4, 0, 0)] == [3, 3, 3]
    assert [len(batch) for batch in epoch_batches(np.arange(10), 4, 0, 0)] == [4, 3, 3]
    assert [len(batch) for batch in epoch_batches(np.arange(5), 2, 0, 0)] == [3, 2]
    assert [len(batch) for batch in epoch_batches(np.arange(3), 1, 0, 0)] == [1, 1, 1]
    assert [len(batch) for batch in epoch_batches([5], 4, 0, 0)] == [1]
    assert epoch_batches([], 4, 0, 0) == []


def test_evaluation_keeps_the_order():
    batches = evaluation_batches(np.array([9, 1, 5, 3, 7]), 2)
    assert [batch.tolist() for batch in batches] == [[9, 1], [5, 3], [7]]
    assert evaluation_batches([], 2) == []


@pytest.mark.parametrize(("size", "seed", "epoch"), [(0, 0, 0), (4, -1, 0), (4, 0, -1)])
def test_impossible_settings_are_refused(size, seed, epoch):
    with pytest.raises(ConfigError):
        epoch_batches(np.arange(5), size, seed, epoch)
