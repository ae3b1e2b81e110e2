"""Ids that cannot be used are refused with the row at fault, and nothing is silently normalised."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.align.ids import check_ids
from colonnade.errors import DataError


@pytest.mark.parametrize(
    "ids",
    [
        [30, 4, 2**80],
        np.array([30, 4, -1], dtype=np.int32),
        np.array([30, 4], dtype=np.uint64),
        pd.Index([30, 4]),
        pd.Series([30, 4], dtype="Int64"),
        pd.RangeIndex(5, 9),
        [np.int64(30), 4],
    ],
)
def test_an_integer_is_the_same_id_whatever_type_holds_it(ids):
    checked = check_ids(ids, "clinic")
    assert checked.kind == "integer"
    assert checked.spelt == [f"integer:{int(value)}".encode() for value in ids]


@pytest.mark.parametrize("dtype", [object, "string", "category", "str"])
def test_a_string_is_the_same_id_whatever_type_holds_it(dtype):
    checked = check_ids(pd.Index(["b", "ä", "007"], dtype=dtype), "clinic")
    assert (checked.kind, checked.spelt[2]) == ("string", b"string:007")


def test_integers_ascend_by_value_and_strings_by_character():
    assert check_ids([10, 9, -3], "clinic").ascending.tolist() == [2, 1, 0]
    assert check_ids(["10", "9", "a"], "clinic").ascending.tolist() == [0, 1, 2]


def test_no_spelling_is_normalised():
    """Merging ' 7', '7' and '007' would join records of different people."""
    spelt = check_ids(["7", " 7", "7 ", "007", "a", "A", "é", "e\u0301"], "clinic").spelt
    assert len(set(spelt)) == 8


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA, pd.NaT, ""])
def test_a_missing_id_is_named_by_its_row(gap):
    with pytest.raises(DataError, match=r"clinic: 2 of 4 records have no id: rows 1, 3 .*drop these rows"):
        check_ids(["x", gap, "y", gap], "clinic")


def test_many_faulty_rows_do_not_flood_the_screen():
    with pytest.raises(DataError, match=r"rows 0, 1, 2, 3, 4, … \(counted from 0\)"):
        check_ids([None] * 1000, "clinic")


def test_floats_from_a_csv_with_gaps_get_the_remedy():
    with pytest.raises(DataError, match=r"row 0 has an id of type float .*Int64"):
        check_ids(pd.Series([1.0, 2.0]), "clinic")


@pytest.mark.parametrize("stranger", [True, b"x", (1, 2), pd.Timestamp("2020-01-01"), 1.5])
def test_other_types_are_no_ids(stranger):
    with pytest.raises(DataError, match=f"row 1 has an id of type {type(stranger).__name__}"):
        check_ids([1, stranger], "clinic")


def test_mixed_types_name_the_first_offender():
    with pytest.raises(DataError, match="row 0 holds an integer, row 2 a string"):
        check_ids([1, 2, "3", 4], "clinic")


def test_duplicates_are_counted_and_shown_by_row():
    with pytest.raises(DataError, match=r"2 ids occur more than once, in 5 of 6 records: rows 0, 1, 3, 4, 5 "):
        check_ids([8, 9, 7, 8, 9, 8], "clinic")


def test_text_that_cannot_be_encoded_is_refused():
    with pytest.raises(DataError, match="row 1 is no valid Unicode"):
        check_ids(["a", "\ud800"], "clinic")


def test_a_party_without_records_is_told_so():
    with pytest.raises(DataError, match="no record to align"):
        check_ids([], "clinic")


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, unique=True), st.data())
def test_digests_differ_where_records_or_their_order_differ(ids, data):
    checked = check_ids(ids, "clinic")
    rows = np.arange(len(ids))
    other = np.array(data.draw(st.permutations(rows.tolist()))[: data.draw(st.integers(1, len(ids)))])
    assert (checked.digest(rows) == checked.digest(other)) == np.array_equal(rows, other)
