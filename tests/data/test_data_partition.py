"""Partitions: each party gets its own part of every record and nothing of another's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data import Records, by_column, by_modality, by_strip, evenly, thin
from colonnade.errors import ConfigError, DataError


@pytest.fixture
def frame():
    return pd.DataFrame(
        {"id": [1, 2, 3], "age": [3, 4, 5], "bmi": [1.0, 2.0, 3.0], "glucose": [7, 8, 9], "y": [0, 1, 0]}
    )


def test_by_column_gives_each_party_its_columns(frame):
    parts = by_column(frame, {"clinic": ["age", "bmi"], "lab": ["glucose"]}, label=("clinic", "y"), id_column="id")
    assert parts["clinic"].columns == ["age", "bmi"]
    assert parts["clinic"].label.tolist() == [0, 1, 0]
    assert parts["lab"].columns == ["glucose"]
    assert parts["lab"].label is None
    assert parts["lab"].ids.tolist() == [1, 2, 3]


def test_by_column_allows_a_label_only_party(frame):
    parts = by_column(frame, {"registry": [], "lab": ["glucose"]}, label=("registry", "y"))
    assert not parts["registry"].has_features
    assert parts["registry"].label is not None


def test_by_column_tells_every_problem_at_once(frame):
    with pytest.raises(DataError) as caught:
        by_column(
            frame,
            {"clinic": ["agee", "bmi", "y"], "lab": ["bmi", "glucose"], "idle": [], "typo": "age"},
            label=("clinik", "y"),
            id_column="identity",
        )
    text = str(caught.value)
    for problem in (
        "party 'clinic' has unknown column 'agee' (did you mean 'age'?)",
        "column 'bmi' is at party 'clinic' and again at party 'lab'",
        "party 'idle' has neither columns nor the label",
        "must be a list, not the text 'age'",
        "unknown party 'clinik' (did you mean 'clinic'?)",
        "label column 'y' is also a feature of party 'clinic'",
        "unknown id column 'identity'",
    ):
        assert problem in text


@pytest.mark.parametrize("asked", [0, "0"])
def test_by_column_says_that_column_names_must_be_text(asked):
    """A frame made of an array has numbers for names; asked for as text or not, the remedy is the same."""
    with pytest.raises(DataError, match="frame: column names must be text") as caught:
        by_column(pd.DataFrame(np.zeros((3, 2))), {"a": [asked]})
    assert "frame.columns.map(str)" in caught.value.remedy


def test_by_column_tells_a_number_from_a_name():
    frame = pd.DataFrame({"0": [1, 2], "1": [3, 4]})
    with pytest.raises(DataError) as caught:
        by_column(frame, {"a": [0]}, label=("a", 1), secrets={"a": [1]}, id_column=1)
    text = str(caught.value)
    for role in ("party 'a' has unknown column 0", "unknown label column 1", "unknown id column 1", "unknown secret 1"):
        assert f"{role} (did you mean '" in text


def test_by_column_refuses_the_id_as_a_feature_and_an_empty_federation(frame):
    with pytest.raises(DataError, match="id column 'id' is listed at party 'a'"):
        by_column(frame, {"a": ["id", "age"]}, id_column="id")
    with pytest.raises(DataError, match="no parties"):
        by_column(frame, {})
    with pytest.raises(DataError, match="unknown label column 'z'"):
        by_column(frame, {"a": ["age"]}, label=("a", "z"))


@given(st.integers(1, 6), st.integers(6, 33))
def test_strips_laid_side_by_side_are_the_image(count, width):
    images = np.random.default_rng(width).integers(0, 256, (4, 3, 5, width), dtype=np.uint8)
    parties = [f"p{number}" for number in range(count)]
    parts = by_strip(images, parties)
    assert np.array_equal(np.concatenate([parts[party].images for party in parties], axis=3), images)
    widths = [parts[party].images.shape[3] for party in parties]
    assert set(widths[:-1]) <= {width // count}
    assert widths[-1] >= width // count


def test_channels_last_is_said_of_the_images_that_were_given():
    with pytest.raises(DataError, match=r"images: images of shape \(2, 8, 8, 3\) seem to have their channels last"):
        by_strip(np.zeros((2, 8, 8, 3), np.uint8), ["left", "right"])


def test_by_strip_adds_a_label_only_party():
    label = pd.Series([0, 1])
    parts = by_strip(np.zeros((2, 3, 4, 4), np.uint8), ["left", "right"], label=("server", label), ids=pd.Index([5, 6]))
    assert list(parts) == ["left", "right", "server"]
    assert not parts["server"].has_features
    assert all(part.ids.tolist() == [5, 6] for part in parts.values())


@pytest.mark.parametrize(
    ("images", "parties", "message"),
    [
        (np.zeros((2, 4, 4), np.uint8), ["a"], "shape"),
        (np.zeros((2, 1, 4, 2), np.uint8), ["a", "b", "c"], "2 pixels"),
        (np.zeros((2, 1, 4, 4), np.uint8), [], "no parties"),
        (np.zeros((2, 1, 4, 4), np.uint8), ["a", "a"], "named twice: a"),
    ],
)
def test_impossible_strips_are_refused(images, parties, message):
    with pytest.raises(DataError, match=message):
        by_strip(images, parties)


def test_by_modality_takes_frames_arrays_and_images():
    parts = by_modality(
        {
            "voice": np.array([[1.0, 2.0], [3.0, 4.0]]),
            "face": np.zeros((2, 1, 4, 4), np.uint8),
            "chart": pd.DataFrame({"age": [1, 2]}),
        },
        label=("chart", pd.Series([0, 1])),
        ids=pd.Index(["u", "v"]),
    )
    assert parts["voice"].columns == ["voice_0", "voice_1"]
    assert parts["face"].images is not None
    assert parts["chart"].label.tolist() == [0, 1]
    assert all(part.ids.tolist() == ["u", "v"] for part in parts.values())


def test_a_label_and_blocks_in_another_order_go_by_their_ids():
    """By position, records would learn the labels of others."""
    voice = pd.DataFrame({"x": [1, 2, 3]}, index=["u", "v", "w"])
    label = pd.Series([30, 20, 10], index=["w", "v", "u"])
    assert by_modality({"voice": voice}, label=("voice", label))["voice"].label.to_dict() == {"u": 10, "v": 20, "w": 30}
    turned = by_modality({"voice": voice}, ids=pd.Index(["w", "v", "u"]))["voice"]
    assert turned.table["x"].to_dict() == {"w": 3, "v": 2, "u": 1}


def test_by_modality_keeps_the_ids_that_frames_bring():
    """Organisations rarely hold the same records."""
    parts = by_modality({"a": pd.DataFrame({"x": [1, 2]}, index=[4, 5]), "b": pd.DataFrame({"y": [1]}, index=[5])})
    assert parts["a"].ids.tolist() == [4, 5]
    assert parts["b"].ids.tolist() == [5]


@pytest.mark.parametrize("block", [np.zeros(3), np.zeros((3, 2)), pd.DataFrame({"x": [1, 2, 3]})])
def test_blocks_that_do_not_fit_the_ids_are_refused(block):
    with pytest.raises(DataError, match="a: block has"):
        by_modality({"a": block}, ids=pd.Index([1, 2]))


@given(st.integers(1, 30), st.integers(1, 10))
def test_evenly_deals_every_column_once(count, number):
    columns, parties = [f"c{i}" for i in range(count)], [f"p{i}" for i in range(number)]
    if count < number:
        with pytest.raises(DataError, match="cannot be dealt"):
            evenly(columns, parties)
        return
    dealt = evenly(columns, parties)
    assert [column for party in parties for column in dealt[party]] == columns
    sizes = [len(dealt[party]) for party in parties]
    assert max(sizes) - min(sizes) <= 1


def test_thin_keeps_the_share_and_smaller_shares_lie_in_larger_ones():
    records = Records(pd.RangeIndex(1000), table=pd.DataFrame({"x": range(1000)}))
    kept = {share: thin(records, share, seed=3) for share in (0.1, 0.25, 0.5, 1.0)}
    assert [len(part) for part in kept.values()] == [100, 250, 500, 1000]
    assert set(kept[0.1].ids) < set(kept[0.25].ids) < set(kept[0.5].ids)
    assert kept[0.5].ids.is_monotonic_increasing
    assert (kept[0.1].table["x"] == kept[0.1].ids).all()
    other = thin(records, 0.5, seed=4)
    assert 180 < len(set(other.ids) & set(kept[0.5].ids)) < 320


def test_thin_is_independent_of_the_split():
    """Otherwise a study of overlap would thin the test part only."""
    from colonnade.data import assign_split

    kept = thin(Records(pd.RangeIndex(20_000)), 0.2, seed=0)
    split = assign_split(kept.ids, 0.5, 0.25, 0.25, seed=0)
    assert np.bincount(split) / len(kept) == pytest.approx([0.5, 0.25, 0.25], abs=0.03)


@pytest.mark.parametrize("overlap", [0, -0.5, 1.5])
def test_thin_refuses_what_is_no_share(overlap):
    with pytest.raises(ConfigError, match="no share"):
        thin(Records(pd.RangeIndex(3)), overlap, seed=0)
