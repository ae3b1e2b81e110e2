"""If these fail, a text and its code enter a discovery as two variables, or columns that differ are refused as one."""

import time

import numpy as np
import pandas as pd
import pytest
from discovery_parts import SHORT, find

from colonnade.discover.discover import discover_tables
from colonnade.discover.recodings import refuse_recodings
from colonnade.errors import DataError
from colonnade.federation.discovery import DiscoverySettings

N = 60
NUMBERS = np.arange(N) * 7 % 3
TOWNS = np.array(["Bern", "Chur", "Sion"])[NUMBERS]


def table(**columns):
    return pd.DataFrame({"age": np.random.default_rng(1).normal(50, 12, N), **columns})


def with_gaps(values, *rows):
    column = pd.Series(values, dtype=object)
    column.iloc[list(rows)] = None
    return column if isinstance(values[0], str) else column.astype(float)


SAME = {
    "text and its code": {"a": TOWNS, "b": NUMBERS},
    "codes that are no counts": {"a": TOWNS, "b": 100 * NUMBERS - 7},
    "codes in another order": {"a": TOWNS, "b": np.array([30, 10, 20])[NUMBERS]},
    "two codes": {"a": np.array([2, 0, 1])[NUMBERS], "b": np.array([10, 40, 20])[NUMBERS]},
    "text and its number as a category": {"a": TOWNS, "b": pd.Categorical(NUMBERS)},
    "text and numbers as text": {"a": TOWNS, "b": NUMBERS.astype(str)},
    "yes, no and 1, 0": {"a": np.where(NUMBERS > 1, "yes", "no"), "b": (NUMBERS > 1).astype(int)},
    "yes, no and a flag": {"a": np.where(NUMBERS > 1, "yes", "no"), "b": NUMBERS > 1},
    "gaps at different records": {"a": with_gaps(TOWNS, 3, 11), "b": with_gaps(NUMBERS, 4, 11, 20)},
}


@pytest.mark.parametrize("columns", SAME.values(), ids=SAME)
def test_a_column_and_its_code_are_refused_as_one(columns):
    """Each would explain the other wholly: whatever else causes them is lost, and so is the direction."""
    with pytest.raises(DataError) as caught:
        find({"clinic": table(**columns), "lab": table()[["age"]].rename(columns={"age": "c"})}, missing="impute")
    assert (caught.value.where, caught.value.what) == ("clinic", "columns 'a' and 'b' say the same thing")
    assert "leave one of them out" in (caught.value.remedy or "")


def test_a_stated_kind_makes_no_other_column_of_it():
    """Two levels are a category too, if somebody says so; the other column is still the same."""
    tables = {"clinic": table(a=np.where(NUMBERS > 1, "yes", "no"), b=(NUMBERS > 1).astype(int))}
    settings = DiscoverySettings.model_validate(SHORT)
    with pytest.raises(DataError, match="'a' and 'b' say the same thing"):
        discover_tables(tables, settings, kinds={"a": "categorical"}, progress=False)


rng = np.random.default_rng(0)
DIFFERENT = {
    "numbers that never repeat": {"a": rng.normal(size=N), "b": np.exp(np.arange(N) / 9.0)},
    "numbers that hardly repeat": {"a": np.minimum(np.arange(N), N - 2), "b": np.minimum(np.arange(N), N - 2) ** 2},
    "one record apart": {"a": TOWNS, "b": [1, *NUMBERS[1:]]},
    "a coarser code": {"a": TOWNS, "b": np.minimum(NUMBERS, 1)},
    "as many levels": {"a": TOWNS, "b": rng.permutation(NUMBERS)},
    "few common records": {"a": with_gaps(TOWNS, *range(28)), "b": with_gaps(NUMBERS, *range(32, N))},
}


@pytest.mark.parametrize("columns", DIFFERENT.values(), ids=DIFFERENT)
def test_columns_that_differ_are_kept(columns):
    """A person would be told to leave a column out that nothing else says."""
    refuse_recodings(table(**columns), where="clinic")


def test_levels_that_are_seen_once_or_twice_prove_nothing():
    """In five records, three towns fit three numbers by chance."""
    refuse_recodings(pd.DataFrame({"a": list("uvwuv"), "b": [1, 2, 3, 1, 2]}), where="clinic")


def test_a_wide_table_is_looked_through_at_once():
    """People would wait for a check that says nothing."""
    wide = pd.DataFrame(rng.integers(0, 5, (5000, 120))).rename(columns=str)
    began = time.perf_counter()
    refuse_recodings(wide, where="clinic")
    assert time.perf_counter() - began < 10
