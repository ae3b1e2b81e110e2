"""MIMIC-III benchmark folders: measurements over time become one row a stay."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from datasets_published import write_text
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.datasets import load_dataset
from colonnade.data.datasets.mimic3 import CHANNELS, STATISTICS, summarise
from colonnade.errors import DataError

HEADER = ",".join(["Hours", *CHANNELS]) + "\n"


def _line(hours, **channels):
    values = {name.replace("_", " "): value for name, value in channels.items()}
    assert set(values) <= set(CHANNELS)
    return ",".join([str(hours), *(str(values.get(channel, "")) for channel in CHANNELS)]) + "\n"


def _write_stay(path, hours=(0.5, 10.0, 30.0), first=80):
    words = ["4 Spontaneously", "None", "To Pain"]
    lines = [
        _line(
            hour,
            Heart_Rate=first + 10 * at,
            Glascow_coma_scale_eye_opening=words[at],
            Glascow_coma_scale_verbal_response=["1.0 ET/Trach", "", "Oriented"][at],
            Glascow_coma_scale_motor_response=["6 Obeys Commands", "Abnormal extension", "No response"][at],
        )
        for at, hour in enumerate(hours)
    ]
    write_text(path, HEADER + "".join(lines))


def _write_mortality(home, validation):
    for split, stays in (("train", (1, 2)), ("test", (3,))):
        for stay in stays:
            _write_stay(home / split / f"{stay}_episode1_timeseries.csv", first=80 + stay)
    rows = {stay: f"{stay}_episode1_timeseries.csv,{stay % 2}\n" for stay in (1, 2, 3)}
    if validation:
        for name, stay in (("train", 1), ("val", 2), ("test", 3)):
            write_text(home / f"{name}_listfile.csv", "stay,y_true\n" + rows[stay])
    else:
        write_text(home / "train/listfile.csv", "stay,y_true\n" + rows[1] + rows[2])
        write_text(home / "test/listfile.csv", "stay,y_true\n" + rows[3])


@pytest.mark.parametrize("home", ["", "in-hospital-mortality"])
@pytest.mark.parametrize("validation", [True, False])
def test_mortality_with_and_without_validation_lists(tmp_path, validation, home):
    _write_mortality(tmp_path / home, validation)
    loaded = load_dataset("mimic3_mortality", tmp_path)
    assert loaded.ids.tolist() == ["1_episode1", "2_episode1", "3_episode1"]
    assert loaded.label.tolist() == [1, 0, 1]
    assert loaded.split.tolist() == ["train", "validation" if validation else "train", "test"]
    assert loaded.table.shape == (3, 17 * 6)
    heart = loaded.table[[f"Heart Rate {statistic}" for statistic in STATISTICS]]
    np.testing.assert_allclose(heart.loc["1_episode1"], [91, 81, 101, np.std([81, 91, 101]), 101, 3])


def test_words_of_the_coma_scale_get_the_values_of_the_benchmark(tmp_path):
    _write_mortality(tmp_path, validation=False)
    row = load_dataset("mimic3_mortality", tmp_path).table.loc["1_episode1"]
    eyes, voice, motion = (
        f"Glascow coma scale {part}" for part in ("eye opening", "verbal response", "motor response")
    )
    assert (row[f"{eyes} max"], row[f"{eyes} min"], row[f"{eyes} last"]) == (4, 0, 2)
    assert (row[f"{voice} min"], row[f"{voice} last"], row[f"{voice} count"]) == (1, 5, 2)
    assert (row[f"{motion} max"], row[f"{motion} mean"]) == (6, 3)


def test_a_channel_never_measured_is_missing_with_count_zero(tmp_path):
    _write_mortality(tmp_path, validation=False)
    row = load_dataset("mimic3_mortality", tmp_path).table.loc["1_episode1"]
    assert row["pH count"] == 0
    assert all(np.isnan(row[f"pH {statistic}"]) for statistic in STATISTICS if statistic != "count")


def test_an_unknown_word_is_named_with_its_channel(tmp_path):
    _write_mortality(tmp_path, validation=False)
    path = tmp_path / "train/2_episode1_timeseries.csv"
    path.write_text(path.read_text().replace("To Pain", "To Music"))
    with pytest.raises(DataError, match="'To Music' is no known value of 'Glascow coma scale eye opening'") as caught:
        load_dataset("mimic3_mortality", tmp_path)
    assert caught.value.where == str(path)


def test_a_listed_stay_without_its_file_is_named(tmp_path):
    _write_mortality(tmp_path, validation=False)
    (tmp_path / "test/3_episode1_timeseries.csv").unlink()
    with pytest.raises(DataError, match=r"the first is '3_episode1_timeseries\.csv'"):
        load_dataset("mimic3_mortality", tmp_path)
    assert len(load_dataset("mimic3_mortality", _with_test(tmp_path), limit=1)) == 2


def _with_test(folder):
    _write_stay(folder / "test/3_episode1_timeseries.csv")
    return folder


def test_a_series_without_a_channel_is_refused(tmp_path):
    _write_mortality(tmp_path, validation=False)
    write_text(tmp_path / "train/1_episode1_timeseries.csv", "Hours,Heart Rate\n1,80\n")
    with pytest.raises(DataError, match="no column 'Capillary refill rate'"):
        load_dataset("mimic3_mortality", tmp_path)


def _write_length_of_stay(home):
    for split, stay in (("train", 1), ("test", 2)):
        name = f"{stay}_episode1_timeseries.csv"
        _write_stay(home / split / name)
        rows = [f"{name},{hours:.6f},{50 - hours:.6f}\n" for hours in (5, 10, 24)]
        write_text(home / split / "listfile.csv", "stay,period_length,y_true\n" + "".join(rows))


def test_length_of_stay_sees_only_what_was_measured_in_the_period(tmp_path):
    """A measurement from after the question was asked would give the answer away."""
    _write_length_of_stay(tmp_path / "length-of-stay")
    loaded = load_dataset("mimic3_los", tmp_path)
    assert loaded.ids.tolist()[:3] == ["1_episode1@5", "1_episode1@10", "1_episode1@24"]
    assert loaded.label.tolist()[:3] == [45, 40, 26]
    assert loaded.table["Heart Rate last"].tolist()[:3] == [80, 90, 90]
    assert loaded.table["Heart Rate count"].tolist()[:3] == [1, 2, 2]
    assert loaded.classes == ()


def test_length_of_stay_at_one_moment_is_one_record_a_stay(tmp_path):
    _write_length_of_stay(tmp_path)
    assert load_dataset("mimic3_los", tmp_path, period=24).ids.tolist() == ["1_episode1@24", "2_episode1@24"]
    assert len(load_dataset("mimic3_los", tmp_path, limit=2)) == 4


@given(
    st.lists(st.lists(st.none() | st.floats(-1e3, 1e3), min_size=2, max_size=2), min_size=1, max_size=8),
    st.lists(st.integers(-1, 9), min_size=1, max_size=5),
)
def test_running_summaries_equal_those_of_each_prefix(rows, ends):
    values = np.array(rows, dtype=np.float64)
    hours = np.arange(len(values), dtype=np.float64)
    got = summarise(hours, values, np.array(ends, dtype=np.float64)).reshape(len(ends), 2, len(STATISTICS))
    for at, end in enumerate(ends):
        for channel in range(2):
            seen = pd.Series(values[hours <= end, channel]).dropna()
            want = [seen.mean(), seen.min(), seen.max(), seen.std(ddof=0)]
            np.testing.assert_allclose(got[at, channel, :4], want, atol=1e-5)
            assert got[at, channel, 5] == len(seen)
            if len(seen):
                assert got[at, channel, 4] == seen.iloc[-1]
