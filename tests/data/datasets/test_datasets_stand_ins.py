"""The real files that lie beside the repository, and that they agree with the published formats."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from datasets_published import write_idx

from colonnade.data.datasets import load_dataset


@pytest.mark.parametrize(
    ("name", "options", "shape", "classes", "train"),
    [
        ("mnist", {}, (12000, 1, 28, 28), 10, 10000),
        ("fashion_mnist", {}, (12000, 1, 28, 28), 10, 10000),
        ("emnist", {"part": "digits"}, (10000, 1, 28, 28), 10, 8000),
        ("cifar10", {}, (12000, 3, 32, 32), 10, 10000),
        ("cifar100", {}, (500, 3, 32, 32), 100, 0),
        ("tiny_imagenet", {"classes": 20, "limit": 5}, (200, 3, 64, 64), 20, 100),
        ("tiny_imagenet", {"limit": 2, "size": 32}, (400, 3, 32, 32), 100, 200),
        ("fairface", {"limit": 100}, (200, 3, 64, 64), 2, 100),
    ],
)
def test_pictures(shared_data, name, options, shape, classes, train):
    loaded = load_dataset(name, shared_data / "images", **options)
    assert loaded.images.shape == shape
    assert loaded.images.dtype == np.uint8
    assert len(loaded.classes) == classes
    assert loaded.label.nunique() == classes
    assert (loaded.split == "train").sum() == train
    assert 20 < loaded.images.mean() < 200


@pytest.mark.parametrize(
    ("name", "shape", "positive"),
    [
        ("adult", (48842, 14), 0.239),
        ("diabetes130", (101766, 47), 0.112),
        ("german_credit", (1000, 20), 0.3),
        ("mimic3_demo", (129, 90), 0.31),
    ],
)
def test_tables(shared_data, name, shape, positive):
    loaded = load_dataset(name, shared_data / "tabular")
    assert loaded.table.shape == shape
    assert loaded.label.mean() == pytest.approx(positive, abs=0.005)
    assert set(loaded.secrets) <= set(loaded.table) | set(loaded.attributes if loaded.attributes is not None else ())


def test_crema_d(shared_data):
    loaded = load_dataset("crema_d", shared_data / "tabular")
    assert loaded.label.value_counts().to_dict() == dict.fromkeys((0, 1, 2, 3, 5), 1271) | {4: 1087}
    assert [frame.shape for frame in loaded.modalities.values()] == [(7442, 15)] * 3


def test_stays_are_measured_in_days(shared_data):
    loaded = load_dataset("mimic3_demo", shared_data / "tabular", target="length_of_stay")
    assert loaded.label.max() > 100
    assert not {"los_days", "icu_los_days", "hospital_expire_flag"} & set(loaded.table)


def test_causal_sets(shared_data):
    folder = shared_data / "causal"
    sachs = load_dataset("sachs", folder)
    assert sachs.table.shape == (853, 11)
    same = load_dataset("sachs", folder, edges="sachs_edges_17.csv").graph
    pd.testing.assert_frame_equal(sachs.graph, same)
    assert load_dataset("sachs", folder, conditions="all").table.shape == (7466, 11)
    edges = [load_dataset("syntren", folder, number=number).graph.to_numpy().sum() for number in range(1, 11)]
    assert (min(edges), max(edges)) == (19, 34)
    assert load_dataset("synthetic_anm", folder, nodes=15, edges=45, seed=4).graph.to_numpy().sum() == 45
    assert load_dataset("pima", folder).table.isna().sum().to_dict()["Insulin"] == 374


def test_adult_text_equals_the_parquet_file(shared_data, tmp_path):
    whole = load_dataset("adult", shared_data / "tabular")
    for split, name, stop in (("train", "adult.data", ""), ("test", "adult.test", ".")):
        rows = whole.table[whole.split == split].head(200).astype("str").fillna("?")
        income = whole.label[whole.split == split].head(200).map({0: "<=50K", 1: ">50K"}) + stop
        lines = [", ".join([*row, end]) for row, end in zip(rows.to_numpy(), income, strict=True)]
        (tmp_path / name).write_text("\n".join(lines) + "\n\n")
    text = load_dataset("adult", tmp_path)
    train = whole.table.head(200)
    pd.testing.assert_frame_equal(text.table.head(200), train)
    assert text.label.tolist()[:200] == whole.label.tolist()[:200]


def test_diabetes130_text_equals_the_parquet_file(shared_data, tmp_path):
    frame = pd.read_parquet(shared_data / "tabular/diabetes130.parquet").head(300)
    frame.drop(columns="label_readmit_lt30").fillna("?").to_csv(tmp_path / "diabetic_data.csv", index=False)
    text, whole = load_dataset("diabetes130", tmp_path), load_dataset("diabetes130", shared_data / "tabular")
    for part in ("table", "label", "attributes"):
        got, want = getattr(text, part), getattr(whole, part).head(300)
        pd.testing.assert_frame_equal(pd.DataFrame(got), pd.DataFrame(want), check_dtype=False)


def test_emnist_pictures_come_back_upright_from_the_transposed_format(shared_data, tmp_path):
    upright = load_dataset("emnist", shared_data / "images")
    for split, name in (("train", "train"), ("test", "test")):
        rows = np.flatnonzero(upright.split == split)[:20]
        write_idx(tmp_path / f"emnist-digits-{name}-images-idx3-ubyte", upright.images[rows, 0].transpose(0, 2, 1))
        write_idx(tmp_path / f"emnist-digits-{name}-labels-idx1-ubyte", upright.label.to_numpy()[rows])
    np.testing.assert_array_equal(load_dataset("emnist", tmp_path).images[:20], upright.images[:20])
