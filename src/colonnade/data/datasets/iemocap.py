"""IEMOCAP: acted dialogues as features of voice, words and face, one row per utterance.

The recordings need a licence and are large; what circulates are feature files. Three layouts are read:

* `IEMOCAP_features.pkl` or `IEMOCAP_features_raw.pkl` (DialogueRNN, MMGCN and their kin): nine parts, of which
  ids, speakers, labels, text, audio, visual and the train and test dialogues are used; six emotions.
* `iemocap_data.pkl` or `iemocap_data_noalign.pkl` (Multimodal Transformer): train, valid and test, each with text,
  audio and vision over time, averaged here over the time that is filled; four emotions.
* plain files: `labels.csv` with columns id and label (and split, if any; other columns become attributes), and for
  each of audio, text, video a table `audio.csv` or `audio.parquet` with a column id, an array `audio.npy` in the
  order of labels.csv, or a folder `audio/` with one `<id>.npy` per utterance (an array over time is averaged).

Pickles are read with `plain_pickle`, which runs nothing that they ask for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.datasets.dataset import SPLITS, Dataset, column
from colonnade.data.datasets.files import check_files, find, need, reading
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.plain_pickle import load_plain_pickle
from colonnade.data.datasets.tables import read_table
from colonnade.errors import DataError

MODALITIES = ("audio", "text", "video")
SIX_EMOTIONS = ("happy", "sad", "neutral", "angry", "excited", "frustrated")
FOUR_EMOTIONS = ("neutral", "happy", "sad", "angry")
_UTTERANCE = re.compile(r"(Ses\d+)[FM]_.+_([FM])\w*\d+")  # session, dialogue, and who speaks: F or M

Features = npt.NDArray[np.floating[Any]]


@dataset(
    "iemocap",
    Source(
        "the SAIL laboratory, University of Southern California (features: conv-emotion of DeCLaRe Lab)", "research"
    ),
)
def iemocap(folder: Path) -> Dataset:
    """Emotions in dialogues by voice, words and face (public feature pickles, or labels.csv and a file a modality)."""
    if path := find(folder, "IEMOCAP_features.pkl", "IEMOCAP_features_raw.pkl"):
        with reading(path):
            return _from_dialogues(load_plain_pickle(path, encoding="latin1"), path)
    if path := find(folder, "iemocap_data.pkl", "iemocap_data_noalign.pkl"):
        with reading(path):
            return _from_sequences(load_plain_pickle(path, encoding="latin1"))
    return _from_files(folder)


def average_over_time(features: npt.NDArray[Any]) -> Features:
    """Average (records x) time x features over the steps that hold anything; padding is all zero."""
    filled = np.nan_to_num(np.asarray(features, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    steps = (filled != 0).any(axis=-1).sum(axis=-1, keepdims=True)
    return np.asarray(filled.sum(axis=-2) / np.maximum(steps, 1))


def _from_dialogues(content: Any, path: Path) -> Dataset:
    if not isinstance(content, tuple | list) or len(content) != 9:
        raise DataError("the file does not hold the nine parts of a dialogue feature file", where=str(path))
    names, speakers, labels, text, audio, video, _, train, test = content
    dialogues = [(name, "train") for name in sorted(train)] + [(name, "test") for name in sorted(test)]
    ids = pd.Index([str(key) for name, _ in dialogues for key in names[name]], dtype="str", name="id")
    features = {"audio": audio, "text": text, "video": video}
    said_by = [str(speaker) for name, _ in dialogues for speaker in speakers[name]]
    return Dataset(
        ids=ids,
        modalities={
            modality: _frame(np.concatenate([np.asarray(parts[name]) for name, _ in dialogues]), ids, modality)
            for modality, parts in features.items()
        },
        label=column([int(label) for name, _ in dialogues for label in labels[name]], ids, "label"),
        classes=SIX_EMOTIONS,
        split=column([split for name, split in dialogues for _ in names[name]], ids, "split"),
        attributes=pd.DataFrame({"session": [key[:5] for key in ids], "gender": said_by}, index=ids),
        secrets=("gender",),
    )


def _from_sequences(content: Mapping[str, Mapping[str, npt.NDArray[Any]]]) -> Dataset:
    parts = {"train": content["train"], "validation": content["valid"], "test": content["test"]}
    labels = np.concatenate([np.asarray(part["labels"]) for part in parts.values()])
    ids = pd.RangeIndex(len(labels), name="id")
    keys = {"audio": "audio", "text": "text", "video": "vision"}
    return Dataset(
        ids=ids,
        modalities={
            modality: _frame(np.concatenate([average_over_time(part[key]) for part in parts.values()]), ids, modality)
            for modality, key in keys.items()
        },
        # labels: records x emotions x (absent, present), exactly one emotion present
        label=column(labels[:, :, 1].argmax(axis=1), ids, "label"),
        classes=FOUR_EMOTIONS,
        split=column([split for split, part in parts.items() for _ in part["labels"]], ids, "split"),
    )


def _from_files(folder: Path) -> Dataset:
    listed = need(folder, "labels.csv", "IEMOCAP_features.pkl", "iemocap_data.pkl")
    table = read_table(listed, ["id", "label"], dtype={"id": "str", "label": "str"}).set_index("id")
    features = {modality: _modality(folder, modality, table.index) for modality in MODALITIES}
    modalities = {modality: frame for modality, frame in features.items() if frame is not None}
    if not modalities:
        need(
            folder, *(f"{modality}{ending}" for modality in MODALITIES for ending in (".csv", ".parquet", ".npy", "/"))
        )
    classes = sorted(table["label"].unique())
    if "split" in table and (unknown := set(table["split"]) - set(SPLITS)):
        raise DataError(f"'{min(map(str, unknown))}' is no split ({', '.join(SPLITS)})", where=str(listed))
    told = table.drop(columns=["label", "split"], errors="ignore")
    attributes = _speakers(table.index).drop(columns=told.columns, errors="ignore").join(told)
    return Dataset(
        ids=table.index,
        modalities=modalities,
        label=column(table["label"].map(classes.index), table.index, "label"),
        classes=tuple(classes),
        split=table.get("split"),
        attributes=attributes,
        secrets=("gender",) if "gender" in attributes else (),
    )


def _modality(folder: Path, modality: str, ids: pd.Index) -> pd.DataFrame | None:
    path = find(folder, f"{modality}.csv", f"{modality}.parquet", f"{modality}.npy", modality)
    if path is None:
        return None
    if path.is_dir():
        files = [path / f"{key}.npy" for key in ids]
        check_files(files)
        return _frame(np.stack([_one_utterance(file) for file in files]), ids, modality)
    if path.suffix == ".npy":
        with reading(path):
            return _frame(np.load(path, allow_pickle=False), ids, modality)
    table = read_table(path, ["id"]).astype({"id": "str"}).set_index("id")
    if missing := list(ids.difference(table.index)):
        raise DataError(f"{len(missing)} utterances of labels.csv are missing, e.g. '{missing[0]}'", where=str(path))
    return table.loc[ids].add_prefix(f"{modality}_")


def _one_utterance(path: Path) -> Features:
    with reading(path):
        features = np.load(path, allow_pickle=False)
    return average_over_time(features) if features.ndim == 2 else features.ravel()


def _frame(features: npt.NDArray[Any], ids: pd.Index, modality: str) -> pd.DataFrame:
    values = average_over_time(features) if features.ndim == 3 else np.asarray(features)
    if values.ndim != 2 or len(values) != len(ids):
        raise DataError(f"{modality} features of shape {values.shape} do not fit {len(ids)} utterances")
    names = [f"{modality}_{number}" for number in range(values.shape[1])]
    return pd.DataFrame(values.astype(np.float32), index=ids, columns=pd.Index(names))


def _speakers(ids: pd.Index) -> pd.DataFrame:
    """Return session and gender where the ids are IEMOCAP's own ('Ses01F_impro01_M003')."""
    matches = [_UTTERANCE.fullmatch(str(key)) for key in ids]
    if not all(matches):
        return pd.DataFrame(index=ids)
    return pd.DataFrame([match.groups() for match in matches if match], index=ids, columns=["session", "gender"])
