"""Records: what a party holds is what it thinks it holds, or it is told which rows and columns are wrong."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from colonnade.data import Records
from colonnade.errors import DataError


@pytest.fixture
def frame():
    return pd.DataFrame(
        {"patient": ["a1", "a2", "a3"], "age": [30, 40, 50], "town": ["Bern", None, "Chur"], "ill": [0, 1, 0]}
    )


def test_from_frame_keeps_ids_columns_and_label_together(frame):
    records = Records.from_frame(frame, id_column="patient", label="ill")
    assert len(records) == 3
    assert records.columns == ["age", "town"]
    assert records.has_features
    assert records.ids.tolist() == ["a1", "a2", "a3"]
    assert records.table.index.equals(records.ids)
    assert records.label.loc["a2"] == 1


def test_from_frame_takes_the_index_when_no_id_column_is_named(frame):
    records = Records.from_frame(frame.set_index("patient"), columns=["age"])
    assert records.ids.tolist() == ["a1", "a2", "a3"]
    assert records.columns == ["age"]
    assert records.label is None


def test_a_label_only_party_has_no_features(frame):
    records = Records.from_frame(frame, id_column="patient", columns=[], label="ill")
    assert records.table is None
    assert not records.has_features
    assert "no columns and no images" in repr(records)


def test_dropping_the_last_column_leaves_a_label_only_party(frame):
    records = Records.from_frame(frame, id_column="patient", columns=["age"], label="ill")
    assert dataclasses.replace(records, table=records.table.drop(columns="age")).table is None


def test_take_moves_table_images_and_label_alike():
    images = np.arange(3 * 4, dtype=np.uint8).reshape(3, 1, 2, 2)
    records = Records(
        pd.Index([7, 8, 9]), table=pd.DataFrame({"x": [1, 2, 3]}), images=images, label=pd.Series([0, 1, 2])
    )
    taken = records.take(np.array([2, 0]))
    assert taken.ids.tolist() == [9, 7]
    assert taken.table["x"].tolist() == [3, 1]
    assert taken.label.tolist() == [2, 0]
    assert np.array_equal(taken.images, images[[2, 0]])
    assert len(records.take([])) == 0


@pytest.mark.parametrize("rows", [[-1], [0, 3], [0.5]])
def test_take_refuses_rows_that_a_party_lacks(frame, rows):
    with pytest.raises(DataError, match="row"):
        Records.from_frame(frame, id_column="patient").take(rows)


def test_take_refuses_the_same_record_twice(frame):
    with pytest.raises(DataError, match="more than once"):
        Records.from_frame(frame, id_column="patient").take([0, 0])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", None, "b", np.nan], "2 ids are missing, at rows 1, 3 "),
        (["a", "b", "a", "b", "c"], "2 ids occur more than once, at rows 0, 1, 2, 3"),
        ([3] * 9, "1 id occurs more than once, at rows 0, 1, 2, 3, 4 and 4 more"),
        (["a", "b", 3], "mixed types: most are text, but not row 2"),
        ([1, 2, "c"], "mixed types: most are integers, but not row 2"),
        ([1, 2, 3.5], "floating|mixed"),
        ([1.0, 2.0], "type floating"),
        ([True, False], "type boolean"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "type datetime"),
        ([2**63 + 1, 5], "64 bits"),
        (pd.MultiIndex.from_tuples([(1, 2)]), "several columns"),
    ],
)
def test_ids_that_cannot_align_are_refused_with_their_rows(ids, message):
    with pytest.raises(DataError, match=message):
        Records(ids if isinstance(ids, pd.Index) else pd.Index(ids))


@pytest.mark.parametrize(
    "ids", [[3, 1, 2], np.array([1, 2], "uint8"), pd.array([1, 2], "Int64"), np.array([1, 5], "uint64"), range(4)]
)
def test_integer_ids_become_int64(ids):
    assert Records(pd.Index(ids)).ids.dtype == np.int64
    assert Records(pd.Index(ids)).ids.tolist() == [int(value) for value in ids]


@pytest.mark.parametrize("dtype", ["str", "object", "string", "category"])
def test_text_ids_of_any_pandas_type_are_the_same_ids(dtype):
    assert Records(pd.Index(["007", "8"], dtype=dtype)).ids.equals(Records(pd.Index(["007", "8"])).ids)


def test_unknown_columns_are_named_with_the_nearest_one(frame):
    with pytest.raises(DataError, match=r"bank.csv: .*'aeg' \(did you mean 'age'\?\); 'il' \(did you mean 'ill'\?\)"):
        Records.from_frame(frame, id_column="patient", columns=["aeg", "town"], label="il", where="bank.csv")


def test_of_many_unknown_columns_the_first_few_are_named(frame):
    """A line of a thousand names hides what is wrong."""
    wanted = ["aeg", *(f"gene {number}" for number in range(99))]
    with pytest.raises(DataError) as caught:
        Records.from_frame(frame, id_column="patient", columns=wanted)
    assert caught.value.what == "no such column: 'aeg' (did you mean 'age'?); 'gene 0'; 'gene 1'; and 97 more"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["age", "ill"], "label": "ill"}, "label column 'ill' is also listed"),
        ({"columns": ["age", "patient"]}, "id column 'patient' is also listed"),
        ({"label": "patient"}, "both id and label"),
        ({"columns": ["age", "age"]}, "listed twice: age"),
    ],
)
def test_contradictory_columns_are_refused(frame, arguments, message):
    with pytest.raises(DataError, match=message):
        Records.from_frame(frame, id_column="patient", **arguments)


def test_infinite_values_are_refused_by_column_name(frame):
    frame["age"] = [1.0, np.inf, 3.0]
    with pytest.raises(DataError, match="infinite values in column 'age'"):
        Records.from_frame(frame, id_column="patient")


def test_a_column_without_one_value_is_refused_for_training_but_may_be_predicted_with(frame):
    frame["town"] = None
    with pytest.raises(DataError, match="every value is missing in column 'town'"):
        Records.from_frame(frame, id_column="patient")
    assert Records.from_frame(frame, id_column="patient", for_training=False).columns == ["age", "town", "ill"]


@pytest.mark.parametrize(
    "values",
    [
        pd.date_range("2024-03-01", periods=3),
        ["2024-03-01", "2024-3-9", None],
        ["2024-03-01T08:30:00Z", "2024-03-01 08:30", "unknown"],
        ["31.12.2024", "1.1.2025", "5.6.1970 7:05"],
        ["03/31/24", "12/01/24", "01/31/24"],
        ["3 Mar 2024", "03-MAR-24", "March 3, 2024"],
        ["08:30", "8:30 pm", "23:59:59.5"],
    ],
)
def test_dates_are_refused_before_anybody_is_met(frame, values):
    """As text they would become one category a day."""
    frame["visit"] = values
    with pytest.raises(DataError, match="column 'visit' holds dates or times"):
        Records.from_frame(frame, id_column="patient")
    assert "visit" not in Records.from_frame(frame, id_column="patient", columns=["age"]).columns


@pytest.mark.parametrize(
    "values",
    [
        ["1.2.3", "1.2.4", "2.0.1"],
        ["Mayer", "March", "Dec"],
        ["2024", "2025", "2026"],
        ["0123-45", "555-1234", "12/34"],
        pd.Categorical(["2024-03-01", "2024-03-02", "2024-03-01"]),
    ],
)
def test_text_that_is_no_date_is_text(frame, values):
    frame["code"] = values
    assert "code" in Records.from_frame(frame, id_column="patient").columns


def test_a_model_that_was_trained_with_text_of_dates_can_still_predict(frame):
    frame["visit"] = "2024-03-01"
    assert "visit" in Records.from_frame(frame, id_column="patient", for_training=False).columns


def test_constant_columns_are_fine(frame):
    assert Records.from_frame(frame.assign(age=1), id_column="patient").columns == ["age", "town", "ill"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (pd.DataFrame({"x": []}), "no records"),
        (pd.DataFrame([[1, 2]]), "must be text"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "occur twice: x"),
    ],
)
def test_frames_that_are_no_tables_are_refused(broken, message):
    with pytest.raises(DataError, match=message):
        Records.from_frame(broken)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 3, 8), np.uint8), "shape"),
        (np.zeros((3, 1, 8, 8), np.uint8), "for 2 ids"),
        (np.zeros((2, 8, 8, 3), np.uint8), "channels last"),
        (np.zeros((2, 1, 8, 8), np.float64), "float64"),
        (np.full((2, 1, 8, 8), 255, np.float32), "between 0 and 1"),
        (np.full((2, 1, 8, 8), np.nan, np.float32), "between 0 and 1"),
    ],
)
def test_images_in_another_layout_are_refused(images, message):
    with pytest.raises(DataError, match=message):
        Records(pd.Index([1, 2]), images=images)


def test_parts_of_different_length_are_refused():
    with pytest.raises(DataError, match="table has 1 rows for 2 ids"):
        Records(pd.Index([1, 2]), table=pd.DataFrame({"x": [1]}))
    with pytest.raises(DataError, match="label has 3 rows for 2 ids"):
        Records(pd.Index([1, 2]), label=pd.Series([1, 2, 3]))


def test_parts_that_are_indexed_by_the_ids_go_by_them_and_not_by_position():
    """Rows in another order would give records the values of others, and nobody would be told."""
    ids, reversed_ids = pd.Index(["a", "b", "c"]), pd.Index(["c", "b", "a"])
    records = Records(
        ids,
        table=pd.DataFrame({"x": [3, 2, 1]}, index=reversed_ids),
        label=pd.Series([30, 20, 10], index=reversed_ids.astype(object)),
        secrets=pd.DataFrame({"s": [6, 5, 4]}, index=reversed_ids),
    )
    assert records.table["x"].tolist() == [1, 2, 3]
    assert records.label.to_dict() == {"a": 10, "b": 20, "c": 30}
    assert records.secrets["s"].tolist() == [4, 5, 6]
    assert Records(ids, label=pd.Series([10, 20, 30])).label.to_dict() == {"a": 10, "b": 20, "c": 30}


@pytest.mark.parametrize(
    "index",
    [[5, 6, 7], ["a", "b", "x"], ["a", "a", "c"], pd.MultiIndex.from_product([["a", "b", "c"], [1]])],
)
def test_parts_that_are_indexed_by_other_ids_are_refused(index):
    with pytest.raises(DataError, match=r"label is indexed by other ids .*reset_index"):
        Records(pd.Index(["a", "b", "c"]), label=pd.Series([1, 2, 3], index=index))


def test_ids_from_a_column_are_those_of_its_rows_however_the_rows_are_numbered(frame):
    """A frame that was filtered or sorted keeps the numbers of its rows."""
    records = Records.from_frame(frame.iloc[[2, 0]], id_column="patient", label="ill", secrets=["town"])
    assert records.table["age"].to_dict() == {"a3": 50, "a1": 30}
    assert records.secrets["town"].to_dict() == {"a3": "Chur", "a1": "Bern"}


def test_repr_fits_a_screen_and_never_shows_an_id():
    wide = pd.DataFrame({f"column_{i}": [1.0, None] for i in range(300)}, index=["secret-1", "secret-2"])
    text = repr(Records.from_frame(wide))
    assert "secret" not in text
    assert "300 columns" in text
    assert "50% missing" in text
    assert len(text) < 1000


def test_importing_records_does_not_import_torch_or_sklearn():
    """Commands that only read a file would start seconds later."""
    code = "import sys, colonnade.data; sys.exit(any(m in sys.modules for m in ('torch', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
