"""Splits: an id stays in its part for good, or test records end up in training."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data import TEST, TRAIN, VALIDATION, assign_split, split_from_column
from colonnade.errors import ConfigError, DataError

PINNED = [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2]


def test_the_split_of_known_ids_never_changes():
    """A new version that splits otherwise would score old models on their own training records."""
    assert assign_split(pd.RangeIndex(20), 0.5, 0.25, 0.25, seed=0).tolist() == PINNED
    assert assign_split(pd.Index([str(i) for i in range(20)]), 0.5, 0.25, 0.25, seed=0).tolist() == PINNED


@given(st.lists(st.text(max_size=5), unique=True, min_size=1), st.integers(0, 2**64), st.randoms())
def test_an_id_falls_in_its_part_whatever_the_others_are(ids, seed, random):
    together = dict(zip(ids, assign_split(pd.Index(ids), 0.6, 0.2, 0.2, seed), strict=True))
    random.shuffle(ids)
    for some in (ids, ids[:1], ids[: len(ids) // 2 + 1]):
        alone = dict(zip(some, assign_split(pd.Index(some), 0.6, 0.2, 0.2, seed), strict=True))
        assert all(together[one] == part for one, part in alone.items())


def test_shares_are_met_and_seeds_are_independent():
    ids = pd.RangeIndex(50_000)
    first, second = (assign_split(ids, 0.7, 0.1, 0.2, seed) for seed in (0, 1))
    assert first.dtype == np.uint8
    assert np.bincount(first) / 50_000 == pytest.approx([0.7, 0.1, 0.2], abs=0.01)
    assert np.mean((first == TEST) & (second == TEST)) == pytest.approx(0.04, abs=0.005)


@pytest.mark.parametrize("shares", [(1.0, 0.0, 0.0), (0.9, 0.1, 0.0), (0.7, 0.3, 0.0), (0.9, 0.0, 0.1), (0, 0, 1)])
def test_a_part_of_share_zero_gets_no_record(shares):
    found = np.bincount(assign_split(pd.RangeIndex(5_000), *shares, seed=3), minlength=3)
    assert [count > 0 for count in found] == [share > 0 for share in shares]


@pytest.mark.parametrize("shares", [(0.5, 0.1, 0.1), (1.2, -0.1, -0.1)])
def test_shares_that_do_not_add_up_are_refused(shares):
    with pytest.raises(ConfigError, match="add up to 1"):
        assign_split(pd.RangeIndex(3), *shares, seed=0)


def test_split_column_in_any_spelling():
    column = pd.Series(["train", "Validation", "VALID", "val ", "Test"])
    assert split_from_column(column).tolist() == [TRAIN, VALIDATION, VALIDATION, VALIDATION, TEST]
    assert split_from_column(column.astype("category")).tolist() == [0, 1, 1, 1, 2]


def test_without_a_validation_part_a_share_of_train_is_taken_by_id():
    column = pd.Series(["train"] * 9_000 + ["test"] * 1_000, index=pd.RangeIndex(10_000))
    split = split_from_column(column, validation=0.2, seed=5)
    assert (split[9_000:] == TEST).all()
    assert np.mean(split[:9_000] == VALIDATION) == pytest.approx(0.2, abs=0.02)
    half = split_from_column(column[::2], validation=0.2, seed=5)
    assert np.array_equal(half, split[::2])
    named = split_from_column(column.reset_index(drop=True), validation=0.2, seed=5, ids=column.index)
    assert np.array_equal(named, split)
    assert not (split_from_column(column, validation=0) == VALIDATION).any()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["train", "holdout", None], "column 'part': there is no known part for records 1, 2 "),
        (["test", "test"], "no record is in the train part"),
        ([0, 1], "no known part"),
    ],
)
def test_split_columns_with_other_words_are_refused(column, message):
    with pytest.raises(DataError, match=message):
        split_from_column(pd.Series(column, name="part"))
