"""Labels: the classes a user gave come back as they were, and a task is never guessed from wrong data."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data import LabelPreparation, preparation_from_dict
from colonnade.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("values", "kind", "classes"),
    [
        (["no", "yes", "no"], "binary", ["no", "yes"]),
        (["c", "a", "b"], "multiclass", ["a", "b", "c"]),
        ([True, False], "binary", [False, True]),
        ([5, 3, 5], "binary", [3, 5]),
        (list(range(20)), "multiclass", list(range(20))),
        (list(range(21)), "regression", []),
        ([0.0, 1.0], "regression", []),
        (pd.Categorical(["b", "a"]), "binary", ["a", "b"]),
        (pd.Categorical(range(30)), "multiclass", list(range(30))),
        (pd.array([1, 2, 3], dtype="Int64"), "multiclass", [1, 2, 3]),
        (pd.array(["a", "b"], dtype="string"), "binary", ["a", "b"]),
    ],
)
def test_auto_decides_by_the_documented_rule(values, kind, classes):
    label = LabelPreparation().fit(pd.Series(values))
    assert label.kind == kind
    assert label.classes == classes
    assert [type(value) for value in label.classes] == [type(value) for value in classes]
    assert label.outputs == max(1, len(classes))


@given(
    st.one_of(
        st.lists(st.integers(-3, 3), min_size=2),
        st.lists(st.text(max_size=3), min_size=2),
        st.lists(st.booleans(), min_size=2),
    ).filter(lambda values: len(set(values)) > 1)
)
def test_classes_return_as_given_even_after_the_store(values):
    """A prediction in another vocabulary than the user's is of no use."""
    series = pd.Series(values, dtype=object)
    label = LabelPreparation().fit(series)
    stored = preparation_from_dict(json.loads(json.dumps(label.to_dict())))
    numbers = stored.transform(series)
    assert numbers.dtype == np.int64
    assert np.array_equal(numbers, label.transform(series))
    assert stored.inverse(numbers).tolist() == values
    assert stored.classes == sorted(set(values))


@pytest.mark.parametrize("codes", [[2**63, 2**63 + 1], [0, 2**64 - 1], [-(2**70), 2**70]])
def test_codes_beyond_64_bits_return_as_given(codes):
    """A label of 20-digit codes could be trained on and saved, and then no record be answered."""
    label = LabelPreparation().fit(pd.Series(codes))
    stored = preparation_from_dict(json.loads(json.dumps(label.to_dict())))
    assert label.kind == "binary" and stored.inverse(stored.transform(pd.Series(codes))).tolist() == codes
    small = LabelPreparation().fit(pd.Series([3, 5]))
    assert small.inverse(np.array([0, 1])).dtype == np.int64, "others keep numpy's own type"


def test_regression_targets_are_standardised_and_return_in_their_unit():
    series = pd.Series([10.0, 20.0, 30.0])
    label = LabelPreparation("regression").fit(series)
    prepared = label.transform(series)
    assert prepared.dtype == np.float32
    assert prepared.mean() == pytest.approx(0, abs=1e-6)
    assert prepared.std() == pytest.approx(1, abs=1e-6)
    assert label.inverse(prepared) == pytest.approx([10, 20, 30])
    stored = preparation_from_dict(json.loads(json.dumps(label.to_dict())))
    assert stored.transform(series).tobytes() == prepared.tobytes()


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("binary", [0.0, 1.0, 1.0], ("binary", [0, 1])),
        ("multiclass", [0, 1], ("multiclass", [0, 1])),
        ("multiclass", list(range(50)), ("multiclass", list(range(50)))),
        ("regression", [1, 2, 3], ("regression", [])),
    ],
)
def test_a_stated_kind_overrules_the_guess(kind, values, expected):
    label = LabelPreparation(kind).fit(pd.Series(values))
    assert (label.kind, label.classes) == expected


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("auto", ["a", None, "b", None], "there is no label for records 1, 3 "),
        ("auto", ["a", "a"], "same label, 'a'"),
        ("auto", [], "no labels"),
        ("auto", ["a", 1], "values of type mixed"),
        ("auto", pd.to_datetime(["2020-01-01", "2021-01-01"]), "values of type datetime"),
        ("binary", [1, 2, 3], "has 2 classes, the label has 3"),
        ("multiclass", [0.5, 1.0], "not whole"),
        ("regression", ["a", "b"], "must be numbers"),
        ("regression", [1.0, np.inf], "infinite"),
        ("regression", [-1e308, 1e308], "too large"),
    ],
)
def test_labels_that_fit_no_task_are_refused(kind, values, message):
    with pytest.raises(DataError, match=message):
        LabelPreparation(kind).fit(pd.Series(values))


@pytest.mark.parametrize(
    ("trained", "given_values", "message"),
    [
        (["a", "b"], ["a", "c", "d"], "no training record had: 'c', 'd'"),
        ([0, 1], ["0", "1"], "no training record had: '0', '1'"),
        ([0, 1], [0, None], "there is no label for record 1 "),
        ([0.5, 1.5], ["a", "b"], "must be numbers"),
    ],
)
def test_labels_unlike_those_of_training_are_refused(trained, given_values, message):
    with pytest.raises(DataError, match=message):
        LabelPreparation().fit(pd.Series(trained)).transform(pd.Series(given_values))


def test_misuse_is_named():
    with pytest.raises(ConfigError, match="unknown task kind"):
        LabelPreparation("ranking")
    with pytest.raises(DataError, match="not been fitted"):
        _ = LabelPreparation().kind
