"""Preparation: training statistics only, stored as JSON, and the same numbers bit for bit when read back."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.data import (
    ImagePreparation,
    Records,
    TablePreparation,
    preparation_from_dict,
    prepare_features,
    read_table,
    split_from_column,
)
from colonnade.data.table_preparation import MAX_CATEGORIES
from colonnade.errors import DataError, RunError


def table_records(**columns):
    return Records(pd.RangeIndex(len(next(iter(columns.values())))), table=pd.DataFrame(columns))


def round_trip(preparation):
    return preparation_from_dict(json.loads(json.dumps(preparation.to_dict(), allow_nan=False)))


def test_numbers_are_imputed_standardised_and_flagged_where_training_had_gaps():
    preparation = TablePreparation().fit(table_records(gappy=[1.0, None, 3.0, 5.0], full=[0, 0, 2, 2]))
    assert preparation.feature_names == ["gappy", "full", "gappy is missing"]
    prepared = preparation.transform(table_records(gappy=[3.0, None], full=[2.0, None]))
    assert prepared.dtype == np.float32
    assert prepared.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert preparation.shape == (3,)


def test_statistics_come_from_training_records_only():
    """Test records that shift the scale would leak into training."""
    train, test = table_records(x=[0.0, 2.0], c=["a", "b"]), table_records(x=[1e6, 1.0], c=["z", "a"])
    preparation = TablePreparation().fit(train)
    before = preparation.to_dict()
    assert preparation.transform(test).tolist() == [[999999.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert preparation.to_dict() == before


def test_missing_is_a_category_of_its_own_however_rare_and_unknown_ones_get_zeros():
    training = ["a"] * 4000 + ["b"] * 4000 + [None]
    preparation = TablePreparation().fit(table_records(c=training))
    assert preparation.feature_names == ["c=a", "c=b", "c is missing"]
    assert preparation.transform(table_records(c=[None, "new", "b"])).tolist() == [[0, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_rare_categories_share_one_output():
    training = ["a"] * 6000 + ["b"] * 6000 + ["x", "y", None]
    preparation = TablePreparation().fit(table_records(c=training))
    assert preparation.feature_names == ["c=a", "c=b", "c is missing", "c is rare"]
    prepared = preparation.transform(table_records(c=["x", "y", "z", "a", None]))
    assert prepared.tolist() == [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]


def test_a_column_of_free_text_does_not_explode():
    preparation = TablePreparation().fit(table_records(note=[f"note {i}" for i in range(5000)]))
    assert preparation.shape[0] <= MAX_CATEGORIES


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (pd.Series([True, False]), ["x"]),
        (pd.Series([True, None]), ["x", "x is missing"]),
        (pd.Series([True, None], dtype="boolean"), ["x", "x is missing"]),
        (pd.Series([1, None], dtype="Int64"), ["x", "x is missing"]),
        (pd.Series([1.5, None], dtype="Float64"), ["x", "x is missing"]),
        (pd.Series([1, 2], dtype="int64[pyarrow]"), ["x"]),
        (pd.Series([True, None], dtype="bool[pyarrow]"), ["x", "x is missing"]),
        (pd.Series([1, 2.5], dtype=object), ["x"]),
        (pd.Series(["a", None], dtype="str"), ["x=a", "x is missing"]),
        (pd.Series(["a", None], dtype="string"), ["x=a", "x is missing"]),
        (pd.Series(["a", None], dtype=object), ["x=a", "x is missing"]),
        (pd.Series(["b", "a"], dtype="category"), ["x=a", "x=b"]),
        (pd.Series([10, 9, None], dtype="category"), ["x=9", "x=10", "x is missing"]),
        (pd.Series([True, False], dtype="category"), ["x"]),
    ],
)
def test_kinds_follow_the_pandas_type(column, names):
    records = table_records(x=column)
    preparation = TablePreparation().fit(records)
    assert preparation.feature_names == names
    assert preparation.transform(records).shape == (len(column), len(names))
    assert np.array_equal(round_trip(preparation).transform(records), preparation.transform(records))


@pytest.mark.parametrize(
    "column",
    [
        pd.to_datetime(["2020-01-01", None]),
        pd.Series([pd.Timestamp("2020-01-01").date(), None], dtype=object),
        pd.to_timedelta([1, 2]),
        pd.period_range("2020", periods=2, freq="Y"),
    ],
)
def test_dates_are_refused_with_a_way_out(column):
    with pytest.raises(DataError, match=r"'born' holds dates or times \(turn it into a number"):
        TablePreparation().fit(table_records(born=column))


@pytest.mark.parametrize("column", [["a", 1], [1j, 2j], [b"a", b"b"], [[1], [2]], pd.Categorical([1.5, 2.5])])
def test_values_that_are_neither_numbers_nor_text_are_refused(column):
    with pytest.raises(DataError, match="'x' holds values of type"):
        TablePreparation().fit(table_records(x=column))


def test_a_column_that_is_gone_is_named_and_extra_columns_do_no_harm():
    preparation = TablePreparation().fit(table_records(age=[1.0, 2.0], town=["a", "b"]))
    with pytest.raises(DataError, match=r"'age' \(did you mean 'ages'\?\)"):
        preparation.transform(table_records(ages=[1.0], town=["a"]))
    with pytest.raises(DataError, match=r"'age'.*'town'"):
        preparation.transform(Records(pd.Index([1])))
    more = preparation.transform(table_records(split=["train"], town=["a"], age=[1.0]))
    assert np.array_equal(more, preparation.transform(table_records(age=[1.0], town=["a"])))


@pytest.mark.parametrize(
    ("trained", "given", "message"),
    [
        ([1, 2], ["1", "2"], "held numbers at training and holds text now"),
        (["a", "b"], [1, 2], "held text at training and holds numbers now"),
        (pd.Categorical([1, 2]), ["1", "2"], "held integer categories at training and holds text now"),
        (pd.Categorical([1, 2]), [1.5, 2.0], "held integer categories at training and holds numbers now"),
    ],
)
def test_a_column_that_changed_its_type_is_refused(trained, given, message):
    with pytest.raises(DataError, match=f"'x' {message}"):
        TablePreparation().fit(table_records(x=trained)).transform(table_records(x=given))


def test_integer_categories_survive_a_file_that_forgets_them():
    preparation = TablePreparation().fit(table_records(x=pd.Categorical([1, 2, None])))
    assert preparation.transform(table_records(x=[2.0, None])).tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("trained_with", "given", "read_as"),
    [
        ("A1\n250\n007\n", "250\n", "250"),
        ("A1\n250\n007\n", "250\n\n", "250"),  # a missing value makes 250.0 of it
        ("A1\n250\n007\n", "007\n", "007"),
        ("A1\n2.50\n", "2.5\n", "2.50"),
        ("True\nunknown\nFalse\n", "False\n", "False"),
    ],
)
def test_text_that_a_small_file_makes_numbers_of_is_text_again(tmp_path, trained_with, given, read_as):
    """Whether a batch can be answered must not depend on which other records are in it."""

    def read(text):
        numbered = "".join(f"{number},{line}\n" for number, line in enumerate(text.removesuffix("\n").split("\n")))
        (tmp_path / "a.csv").write_text(f"id,code\n{numbered}")
        return Records.from_frame(read_table(tmp_path / "a.csv", "id"), id_column="id", for_training=False)

    preparation = TablePreparation().fit(read(trained_with))
    assert preparation.statistics.categories[0].kind == "text"
    assert not pd.api.types.is_string_dtype(read(given).table["code"].dtype)
    prepared = dict(zip(preparation.feature_names, preparation.transform(read(given))[0], strict=True))
    assert prepared[f"code={read_as}"] == prepared.get("code is missing", 0) + 1 == sum(prepared.values())
    unseen = preparation.transform(read("True" if "True" in trained_with else "13"))[0]
    assert unseen.sum() == ("True" in trained_with)


@pytest.mark.parametrize("text", [["7", "007", "A1"], ["Bern", "Chur", "Bern"]])
def test_numbers_that_could_be_several_texts_or_none_are_refused(text):
    preparation = TablePreparation().fit(Records.from_frame(pd.DataFrame({"code": text})))
    with pytest.raises(DataError, match=r"held text at training and holds numbers now \(make it text again"):
        preparation.transform(Records.from_frame(pd.DataFrame({"code": [7]})))


def test_values_beyond_float32_are_refused_and_not_passed_on_as_infinity():
    preparation = TablePreparation().fit(table_records(x=[0.0, 1.0]))
    with pytest.raises(DataError, match=r"too large .*: x"):
        preparation.transform(table_records(x=[1e300]))
    with pytest.raises(DataError, match="infinite values in column 'x'"):
        preparation.transform(table_records(x=[np.inf]))
    with pytest.raises(DataError, match="too large to be scaled"):
        TablePreparation().fit(table_records(x=[-1e308, 1e308]))


def test_fit_refuses_what_cannot_be_learned_from():
    with pytest.raises(DataError, match="every training value is missing in column 'x'"):
        TablePreparation().fit(table_records(x=[None, None]))
    with pytest.raises(DataError, match="no table"):
        TablePreparation().fit(Records(pd.Index([1])))
    with pytest.raises(DataError, match="not been fitted"):
        TablePreparation().transform(table_records(x=[1]))


def test_absent_is_a_record_with_every_value_missing():
    preparation = TablePreparation().fit(table_records(x=[1.0, None, 3.0], c=["a", None, "b"]))
    assert preparation.absent().tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]


def test_no_records_give_an_empty_block():
    records = table_records(x=[1.0, 2.0], c=["a", "b"])
    assert TablePreparation().fit(records).transform(records.take([])).shape == (0, 3)


numbers = st.one_of(st.none(), st.floats(-1e30, 1e30), st.integers(-(10**15), 10**15).map(float))
words = st.one_of(st.none(), st.sampled_from(["a", "b", ""]), st.text(max_size=4))
codes = st.one_of(st.none(), st.integers(-5, 5))


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(numbers, words, codes, st.booleans()), min_size=1, max_size=30),
    later=st.lists(st.tuples(numbers, words, codes, st.booleans()), min_size=1, max_size=10),
)
def test_a_stored_preparation_transforms_bit_for_bit_as_the_fitted_one(rows, later):
    """A saved model would predict something else than the trained one."""

    def records(drawn):
        number, word, code, flag = zip(*drawn, strict=True)
        return table_records(n=pd.Series(number, dtype=float), w=pd.Series(word, dtype=object),
                             c=pd.Categorical(code), b=list(flag))  # fmt: skip

    try:
        fitted = TablePreparation().fit(records(rows))
    except DataError as error:
        assert "every training value is missing" in str(error)
        return
    stored = round_trip(fitted)
    assert stored.to_dict() == fitted.to_dict()
    assert stored.feature_names == fitted.feature_names
    for drawn in (rows, later):
        try:
            expected = fitted.transform(records(drawn))
        except DataError:
            with pytest.raises(DataError):
                stored.transform(records(drawn))
        else:
            assert expected.shape == (len(drawn), *fitted.shape)
            assert stored.transform(records(drawn)).tobytes() == expected.tobytes()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), min_size=2, max_size=40))
def test_numbers_equal_a_plain_scikit_learn_pipeline(values):
    """Rebuilding transformers from statistics must not change what they compute."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    column = np.array(values, dtype=float)[:, None]
    if np.isnan(column).all():
        return
    expected = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit_transform(column)
    records = table_records(x=column[:, 0])
    assert np.array_equal(TablePreparation().fit(records).transform(records)[:, 0], expected[:, 0].astype(np.float32))


def test_categories_equal_a_plain_scikit_learn_encoder():
    from sklearn.preprocessing import OneHotEncoder

    from colonnade.data.table_preparation import MIN_SHARE

    drawn = np.random.default_rng(0).zipf(1.3, 20000).clip(max=500).astype(str).astype(object)
    encoder = OneHotEncoder(
        min_frequency=MIN_SHARE, max_categories=MAX_CATEGORIES, handle_unknown="ignore", sparse_output=False
    )
    expected = encoder.fit_transform(drawn[:, None])
    assert np.array_equal(TablePreparation().fit(table_records(x=drawn)).transform(table_records(x=drawn)), expected)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"preparation": "pickle"},
        {"preparation": "table"},
        {"preparation": ["table"]},
        {"preparation": "table", "numeric": [], "categories": [], "extra": 1},
        {"preparation": "table", "numeric": [{"name": "x", "median": 0, "mean": 0, "scale": 0, "had_missing": False}],
         "categories": []},
        {"preparation": "images", "shape": [1, 2, 2], "mean": [float("nan")], "scale": [1.0]},
        {"preparation": "label", "kind": "auto", "classes": []},
    ],
)  # fmt: skip
def test_a_damaged_store_is_a_run_error_and_not_a_crash(stored):
    with pytest.raises(RunError, match="stored preparation"):
        preparation_from_dict(stored)


def test_images_are_standardised_by_channel_and_survive_the_store():
    images = np.random.default_rng(0).integers(0, 256, (50, 3, 6, 5), dtype=np.uint8)
    images[:, 2] = 255
    records = Records(pd.RangeIndex(50), images=images)
    preparation = prepare_features(records)
    assert isinstance(preparation, ImagePreparation)
    assert preparation.shape == (3, 6, 5)
    prepared = preparation.transform(records)
    assert prepared.dtype == np.float32
    assert np.allclose(prepared.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    assert np.allclose(prepared.std(axis=(0, 2, 3)), [1, 1, 0], atol=1e-5)
    assert round_trip(preparation).transform(records).tobytes() == prepared.tobytes()
    assert preparation.absent().shape == (3, 6, 5)


def test_float_and_byte_images_are_the_same_images():
    images = np.random.default_rng(1).integers(0, 256, (1500, 1, 4, 4), dtype=np.uint8)
    as_bytes, as_floats = (Records(pd.RangeIndex(1500), images=i) for i in (images, images.astype(np.float32) / 255))
    one, two = ImagePreparation().fit(as_bytes), ImagePreparation().fit(as_floats)
    assert np.allclose(one.transform(as_bytes), two.transform(as_floats), atol=1e-5)


def test_images_of_another_size_are_refused():
    preparation = ImagePreparation().fit(Records(pd.Index([1]), images=np.zeros((1, 1, 4, 4), np.uint8)))
    with pytest.raises(DataError, match=r"images of shape \(1, 4, 5\), training had \(1, 4, 4\)"):
        preparation.transform(Records(pd.Index([1]), images=np.zeros((1, 1, 4, 5), np.uint8)))
    with pytest.raises(DataError, match="no images"):
        preparation.transform(table_records(x=[1]))


def test_prepare_features_knows_every_sort_of_party():
    assert isinstance(prepare_features(table_records(x=[1, 2])), TablePreparation)
    assert prepare_features(Records(pd.Index([1, 2]), label=pd.Series([0, 1]))) is None
    both = dataclasses.replace(table_records(x=[1, 2]), images=np.zeros((2, 1, 2, 2), np.uint8))
    with pytest.raises(DataError, match="both columns and images"):
        prepare_features(both)


def test_adult_is_prepared_well_enough_for_a_linear_model(shared_data):
    """85.2 % is what logistic regression on pooled Adult is known to reach."""
    from sklearn.linear_model import LogisticRegression

    frame = read_table(shared_data / "tabular" / "adult.parquet").drop(columns=["income"])
    split = split_from_column(frame.pop("split"))
    records = Records.from_frame(frame, label="label")
    assert len(records) == 48842
    train, test = records.take(np.flatnonzero(split == 0)), records.take(np.flatnonzero(split == 2))
    preparation = TablePreparation().fit(train)
    features = preparation.transform(train)
    assert preparation.columns[:2] == ["age", "fnlwgt"]
    assert 90 <= preparation.shape[0] <= 120
    assert np.isfinite(features).all()
    model = LogisticRegression(max_iter=200).fit(features, train.label)
    assert model.score(preparation.transform(test), test.label) > 0.848
