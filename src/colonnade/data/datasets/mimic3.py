"""MIMIC-III in the form of the public benchmark (Harutyunyan et al. 2019): one CSV of measurements per stay.

A stay becomes one record: of each of the 17 channels mean, minimum, maximum, standard deviation, last value and
number of measurements up to the end of the observed period.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.datasets.dataset import Dataset, first_of_each
from colonnade.data.datasets.files import check_files, find, home_of, need
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.tables import read_table
from colonnade.errors import DataError

CHANNELS = (
    "Capillary refill rate",
    "Diastolic blood pressure",
    "Fraction inspired oxygen",
    "Glascow coma scale eye opening",
    "Glascow coma scale motor response",
    "Glascow coma scale total",
    "Glascow coma scale verbal response",
    "Glucose",
    "Heart Rate",
    "Height",
    "Mean blood pressure",
    "Oxygen saturation",
    "Respiratory rate",
    "Systolic blood pressure",
    "Temperature",
    "Weight",
    "pH",
)
"""As the benchmark spells them."""

STATISTICS = ("mean", "min", "max", "std", "last", "count")

COMA_WORDS = {
    "none": 0,
    "no response": 1,
    "no response-ett": 1,
    "to pain": 2,
    "to speech": 3,
    "spontaneously": 4,
    "incomprehensible sounds": 2,
    "inappropriate words": 3,
    "confused": 4,
    "oriented": 5,
    "abnormal extension": 2,
    "abnormal flexion": 3,
    "flex-withdraws": 4,
    "localizes pain": 5,
    "obeys commands": 6,
}
"""Coma scale words without a number of their own ('4 Confused' has one), with the benchmark's values."""

_SOURCE = Source(
    "PhysioNet, 'MIMIC-III Clinical Database', prepared with the mimic3-benchmarks scripts of YerevaNN",
    "PhysioNet Credentialed Health Data License",
)
_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)")
_MOMENT = 1e-6  # hours; the benchmark's own tolerance at the end of a period


@dataset("mimic3_mortality", _SOURCE)
def mimic3_mortality(folder: Path, limit: int | None = None) -> Dataset:
    """Intensive-care stays, died in hospital or not, by the first 48 hours (in-hospital-mortality/)."""
    home = home_of(folder, "in-hospital-mortality", "data/in-hospital-mortality")
    samples = _samples(home, ["stay", "y_true"], limit).assign(period_length=np.inf)
    ids = pd.Index([_stay(name) for name in samples["stay"]], dtype="str", name="id")
    return _summarised(home, samples, ids, label=samples["y_true"].astype(np.int64), classes=("survived", "died"))


@dataset("mimic3_los", _SOURCE)
def mimic3_los(folder: Path, period: float | None = None, limit: int | None = None) -> Dataset:
    """Intensive-care stays, remaining length in hours (length-of-stay/); limit per split.

    The benchmark asks again at every hour of a stay, which makes millions of records; `period` keeps the question
    after that many hours only, one record a stay.
    """
    home = home_of(folder, "length-of-stay", "data/length-of-stay")
    samples = _samples(home, ["stay", "period_length", "y_true"], limit, period)
    moments = zip(samples["stay"], samples["period_length"], strict=True)
    ids = pd.Index([f"{_stay(name)}@{hours:g}" for name, hours in moments], dtype="str", name="id")
    return _summarised(home, samples, ids, label=samples["y_true"].astype(np.float64))


def summarise(
    hours: npt.NDArray[np.float64], values: npt.NDArray[np.float64], ends: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Summarise measurements (rows x channels, nan where not measured) up to each of several moments.

    Returns:
        len(ends) x (channels * statistics); all statistics of the first channel come first.
    """
    known = ~np.isnan(values)
    count = known.cumsum(axis=0)
    # Values are counted from their channel's mean, else the running spread would lose its digits.
    centre = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    offset = np.where(known, values - centre, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = offset.cumsum(axis=0) / count
        spread = np.sqrt(np.maximum((offset**2).cumsum(axis=0) / count - mean**2, 0.0))
    latest = np.maximum.accumulate(np.where(known, np.arange(len(values))[:, None], 0), axis=0)
    running = {
        "mean": mean + centre,
        "min": np.fmin.accumulate(values, axis=0),
        "max": np.fmax.accumulate(values, axis=0),
        "std": spread,
        "last": np.take_along_axis(values, latest, axis=0),
        "count": count.astype(np.float64),
    }
    nothing = np.where(np.array(STATISTICS) == "count", 0.0, np.nan)
    stacked = np.stack([running[statistic] for statistic in STATISTICS], axis=2)
    before_all = np.broadcast_to(nothing, (1, *stacked.shape[1:]))
    rows = np.searchsorted(hours, ends + _MOMENT, side="right")
    return np.concatenate([before_all, stacked])[rows].reshape(len(ends), -1)


def _samples(home: Path, needs: list[str], limit: int | None, period: float | None = None) -> pd.DataFrame:
    lists = {"train": "train_listfile.csv", "validation": "val_listfile.csv", "test": "test_listfile.csv"}
    if find(home, lists["validation"]) is None:
        # Without the benchmark's optional validation step the lists lie beside the stays.
        lists = {"train": "train/listfile.csv", "test": "test/listfile.csv"}
    parts = [read_table(need(home, name), needs)[needs].assign(split=split) for split, name in lists.items()]
    samples = pd.concat(parts, ignore_index=True)
    if period is not None:
        samples = samples[np.isclose(samples["period_length"], period)]
    return samples.iloc[first_of_each(samples["split"].tolist(), limit)].reset_index(drop=True)


def _summarised(
    home: Path, samples: pd.DataFrame, ids: pd.Index, label: pd.Series, classes: tuple[str, ...] = ()
) -> Dataset:
    # Validation stays lie in the training folder.
    folder = samples["split"].map({"train": "train", "validation": "train", "test": "test"})
    paths = [home / part / stay for part, stay in zip(folder, samples["stay"], strict=True)]
    check_files(dict.fromkeys(paths))
    rows = np.empty((len(samples), len(CHANNELS) * len(STATISTICS)))
    ends = samples["period_length"].to_numpy(dtype=np.float64)
    for path, at in samples.groupby(np.array([str(path) for path in paths])).indices.items():
        hours, values = _measurements(Path(str(path)))
        rows[at] = summarise(hours, values, ends[at])
    names = [f"{channel} {statistic}" for channel in CHANNELS for statistic in STATISTICS]
    return Dataset(
        ids=ids,
        table=pd.DataFrame(rows, index=ids, columns=pd.Index(names)),
        label=label.set_axis(ids).rename("label"),
        classes=classes,
        split=samples["split"].set_axis(ids),
    )


def _measurements(path: Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    frame = read_table(path, ["Hours", *CHANNELS]).sort_values("Hours", kind="stable")
    values = np.column_stack([_numbers(frame[channel], path) for channel in CHANNELS])
    return frame["Hours"].to_numpy(dtype=np.float64), values


def _numbers(channel: pd.Series, path: Path) -> npt.NDArray[np.float64]:
    if pd.api.types.is_numeric_dtype(channel):
        return channel.to_numpy(dtype=np.float64)
    return np.array([np.nan if pd.isna(word) else _number(str(word), str(channel.name), path) for word in channel])


def _number(word: str, channel: str, path: Path) -> float:
    if match := _NUMBER.match(word):
        return float(match.group(1))
    if word.strip().casefold() not in COMA_WORDS:
        raise DataError(f"'{word}' is no known value of '{channel}'", where=str(path))
    return COMA_WORDS[word.strip().casefold()]


def _stay(name: str) -> str:
    return name.removesuffix(".csv").removesuffix("_timeseries")
