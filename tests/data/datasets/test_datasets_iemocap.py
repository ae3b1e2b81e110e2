"""IEMOCAP feature files in the three layouts that are read."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from datasets_published import python2_pickle, write_text

from colonnade.data.datasets import load_dataset
from colonnade.data.datasets.iemocap import average_over_time
from colonnade.errors import DataError

_SPLITS = ("train", "validation", "test")
_PARTS = ("train", "valid", "test")
IDS = ["Ses01F_impro01_F000", "Ses01F_impro01_M000", "Ses05M_script03_1_F002"]


def _dialogues():
    first, second = "Ses01F_impro01", "Ses05M_script03_1"
    features = {first: [np.arange(3.0), np.arange(3.0) + 10], second: np.full((1, 3), 7.0)}
    return (
        {first: IDS[:2], second: IDS[2:]},
        {first: ["F", "M"], second: ["F"]},
        {first: [2, 5], second: [0]},
        features,
        {name: np.asarray(part) * 2 for name, part in features.items()},
        {name: np.asarray(part, dtype=np.float32)[:, :2] for name, part in features.items()},
        {first: ["Hello.", "Go."], second: ["Oh."]},
        {first},
        [second],
    )


@pytest.mark.parametrize("dump", [python2_pickle, lambda value: pickle.dumps(value, 2), pickle.dumps])
@pytest.mark.parametrize("name", ["IEMOCAP_features.pkl", "IEMOCAP_features_raw.pkl"])
def test_dialogue_features(tmp_path, dump, name):
    (tmp_path / name).write_bytes(dump(_dialogues()))
    loaded = load_dataset("iemocap", tmp_path)
    assert loaded.ids.tolist() == IDS
    assert [loaded.classes[label] for label in loaded.label] == ["neutral", "frustrated", "happy"]
    assert loaded.split.tolist() == ["train", "train", "test"]
    assert loaded.modalities["text"].to_numpy().tolist() == [[0, 1, 2], [10, 11, 12], [7, 7, 7]]
    assert loaded.modalities["audio"].to_numpy().tolist() == [[0, 2, 4], [20, 22, 24], [14, 14, 14]]
    assert loaded.modalities["video"].shape == (3, 2)
    assert loaded.attributes["gender"].tolist() == ["F", "M", "F"]
    assert loaded.secrets == ("gender",)


def test_a_dialogue_file_with_other_parts_is_refused(tmp_path):
    (tmp_path / "IEMOCAP_features.pkl").write_bytes(pickle.dumps(_dialogues()[:4]))
    with pytest.raises(DataError, match="nine parts"):
        load_dataset("iemocap", tmp_path)


class _Runs:
    def __reduce__(self):
        return print, ("it ran",)


def test_a_feature_file_that_calls_a_function_is_refused(tmp_path, capsys):
    (tmp_path / "iemocap_data.pkl").write_bytes(pickle.dumps({"train": _Runs()}))
    with pytest.raises(DataError, match=r"builtins\.print.* refused"):
        load_dataset("iemocap", tmp_path)
    assert capsys.readouterr().out == ""


def test_sequence_features_are_averaged_over_the_filled_time(tmp_path):
    def part(emotions, start):
        labels = np.zeros((len(emotions), 4, 2))
        labels[:, :, 0] = 1
        for record, emotion in enumerate(emotions):
            labels[record, emotion] = 0, 1
        features = np.zeros((len(emotions), 5, 2))
        features[:, 0], features[:, 1] = start, start + 2
        return {
            "text": features,
            "audio": np.where(features == 0, -np.inf, features),
            "vision": features,
            "labels": labels,
        }

    content = {"train": part([0, 3], 1), "valid": part([1], 5), "test": part([2], 9)}
    (tmp_path / "iemocap_data.pkl").write_bytes(pickle.dumps(content, 2))
    loaded = load_dataset("iemocap", tmp_path)
    assert [loaded.classes[label] for label in loaded.label] == ["neutral", "angry", "happy", "sad"]
    assert loaded.split.tolist() == ["train", "train", "validation", "test"]
    for modality in ("text", "audio", "video"):
        assert loaded.modalities[modality].iloc[:, 0].tolist() == [2, 2, 6, 10]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"train": {}}, "cannot be read: 'valid'"),
        ([1, 2], "cannot be read"),
        ({part: {} for part in _PARTS}, "'labels'"),
    ],
)
def test_a_sequence_file_of_another_build_is_refused(tmp_path, content, problem):
    (tmp_path / "iemocap_data.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=problem):
        load_dataset("iemocap", tmp_path)


def _write_labels(folder, extra=""):
    header = "id,label,split" + (",speaker" if extra else "")
    rows = [
        f"{key},{label},{split}{extra}" for key, label, split in zip(IDS, ("sad", "ang", "sad"), _SPLITS, strict=True)
    ]
    write_text(folder / "labels.csv", "\n".join([header, *rows]))


def test_plain_files_of_every_kind(tmp_path):
    _write_labels(tmp_path, extra=",S1")
    backwards = pd.DataFrame({"id": IDS[::-1], "pitch": [3.0, 2.0, 1.0]})
    backwards.to_csv(tmp_path / "audio.csv", index=False)
    np.save(tmp_path / "text.npy", np.arange(6.0).reshape(3, 2))
    (tmp_path / "video").mkdir()
    for number, key in enumerate(IDS):
        np.save(tmp_path / "video" / f"{key}.npy", np.full((4, 3), number + 1.0))
    loaded = load_dataset("iemocap", tmp_path)
    assert loaded.classes == ("ang", "sad")
    assert loaded.label.tolist() == [1, 0, 1]
    assert loaded.split.tolist() == list(_SPLITS)
    assert loaded.modalities["audio"]["audio_pitch"].tolist() == [1, 2, 3]
    assert loaded.modalities["text"].to_numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert loaded.modalities["video"].to_numpy().tolist() == [[1] * 3, [2] * 3, [3] * 3]
    assert loaded.attributes["gender"].tolist() == ["F", "M", "F"]
    assert loaded.attributes["session"].tolist() == ["Ses01", "Ses01", "Ses05"]
    assert loaded.attributes["speaker"].tolist() == ["S1"] * 3


def test_plain_parquet_features(tmp_path):
    _write_labels(tmp_path)
    pd.DataFrame({"id": IDS, "pitch": [1.0, 2.0, 3.0]}).to_parquet(tmp_path / "audio.parquet")
    assert load_dataset("iemocap", tmp_path).modalities["audio"]["audio_pitch"].tolist() == [1, 2, 3]


def test_plain_files_tell_what_is_missing(tmp_path):
    _write_labels(tmp_path)
    with pytest.raises(DataError, match=r"no 'audio\.csv'"):
        load_dataset("iemocap", tmp_path)
    pd.DataFrame({"id": IDS[:2], "pitch": [1.0, 2.0]}).to_csv(tmp_path / "audio.csv", index=False)
    with pytest.raises(DataError, match=r"1 utterances of labels\.csv are missing, e\.g\. 'Ses05M_script03_1_F002'"):
        load_dataset("iemocap", tmp_path)
    (tmp_path / "audio.csv").unlink()
    np.save(tmp_path / "audio.npy", np.zeros((2, 5)))
    with pytest.raises(DataError, match=r"shape \(2, 5\) do not fit 3 utterances"):
        load_dataset("iemocap", tmp_path)


def test_an_array_with_a_pickle_inside_is_refused(tmp_path):
    _write_labels(tmp_path)
    np.save(tmp_path / "audio.npy", np.array([{}, {}, {}]), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        load_dataset("iemocap", tmp_path)


def test_a_split_of_another_name_is_refused(tmp_path):
    write_text(tmp_path / "labels.csv", "id,label,split\na,sad,dev\n")
    np.save(tmp_path / "text.npy", np.zeros((1, 2)))
    with pytest.raises(DataError, match="'dev' is no split"):
        load_dataset("iemocap", tmp_path)


def test_utterances_of_nothing_but_padding_average_to_zero():
    assert average_over_time(np.zeros((2, 3, 4))).tolist() == [[0.0] * 4] * 2
