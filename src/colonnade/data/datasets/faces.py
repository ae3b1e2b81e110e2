"""CelebA and FairFace: faces with attributes, of which one is the label and others are secrets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.data.datasets.dataset import Dataset, first_of_each, of_images
from colonnade.data.datasets.files import check_files, find, need, reading
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.npz import images_of, read_arrays
from colonnade.data.datasets.pictures import decode
from colonnade.data.datasets.tables import read_table
from colonnade.errors import ConfigError, DataError, nearest

CELEBA_SPLITS = {0: "train", 1: "validation", 2: "test"}
FAIRFACE_CLASSES = {
    "gender": ("Female", "Male"),
    "race": ("White", "Black", "Latino_Hispanic", "East Asian", "Southeast Asian", "Indian", "Middle Eastern"),
    "age": ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70"),
}


@dataset(
    "celeba",
    Source("the CelebA page of the Multimedia Laboratory, Chinese University of Hong Kong", "non-commercial research"),
)
def celeba(
    folder: Path,
    target: str = "Smiling",
    secrets: Sequence[str] = ("Male", "Young"),
    size: int = 64,
    limit: int | None = None,
) -> Dataset:
    """Faces with 40 yes/no attributes (img_align_celeba/*.jpg, list_attr_celeba.txt); limit is per split.

    Files may lie in one folder or in the published Img, Anno and Eval folders; without list_eval_partition.txt
    there is no split.
    """
    listed = need(folder, "list_attr_celeba.txt", "Anno/list_attr_celeba.txt")
    images = need(folder, "img_align_celeba", "Img/img_align_celeba")
    # The first line counts the pictures, the second names the attributes, the others begin with the file's name.
    attributes = read_table(listed, [target], sep=r"\s+", skiprows=1, index_col=0).eq(1).astype(np.int64)
    attributes.index.name = "id"
    _check_secrets(secrets, attributes.columns)
    partition = find(folder, "list_eval_partition.txt", "Eval/list_eval_partition.txt")
    split = None if partition is None else _celeba_split(partition, attributes.index)
    rows = first_of_each(split or ["all"] * len(attributes), limit)
    kept = attributes.iloc[rows]
    files = [images / str(name) for name in kept.index]
    check_files(files)
    return of_images(
        decode(files, size),
        kept[target].to_numpy(),
        split and [split[row] for row in rows],
        [f"not {target}", target],
        ids=kept.index,
        attributes=kept,
        secrets=[secret for secret in secrets if secret != target],
    )


@dataset("fairface", Source("the FairFace repository of Karkkainen and Joo (images with margin 0.25)", "CC BY 4.0"))
def fairface(
    folder: Path,
    target: str = "gender",
    secrets: Sequence[str] = ("race", "age"),
    size: int = 64,
    limit: int | None = None,
) -> Dataset:
    """Faces with gender, race and age (fairface_label_*.csv, train/, val/, or fairface64.npz); limit is per split.

    Test labels are not public; the validation pictures are the 'test' split here.
    """
    _check_secrets([target, *secrets], FAIRFACE_CLASSES)
    packed = find(folder, "fairface64.npz")
    if packed is not None and find(folder, "fairface_label_train.csv") is None:
        table, images = _packed_fairface(packed, size, limit)
    else:
        table = _listed_fairface(folder, limit)
        files = [folder / name for name in table.index]
        check_files(files)
        images = decode(files, size)
    classes = FAIRFACE_CLASSES[target]
    if unknown := set(table[target]) - set(classes):
        raise DataError(f"{min(map(repr, unknown))} is no {target} that FairFace knows", where=str(folder))
    return of_images(
        images,
        table[target].map(classes.index).to_numpy(),
        table["split"].to_numpy(),
        classes,
        ids=table.index,
        attributes=table.drop(columns="split"),
        secrets=[secret for secret in secrets if secret != target],
    )


def _celeba_split(path: Path, files: pd.Index) -> list[str]:
    numbers = read_table(path, sep=r"\s+", header=None, index_col=0)[1]
    with reading(path):
        return [CELEBA_SPLITS[number] for number in numbers.loc[files]]


def _listed_fairface(folder: Path, limit: int | None) -> pd.DataFrame:
    parts = []
    for split, name in (("train", "fairface_label_train.csv"), ("test", "fairface_label_val.csv")):
        table = read_table(need(folder, name), ["file", *FAIRFACE_CLASSES]).set_index("file")[list(FAIRFACE_CLASSES)]
        parts.append(table.rename_axis("id").assign(split=split).iloc[:limit])
    return pd.concat(parts)


def _packed_fairface(path: Path, size: int | None, limit: int | None) -> tuple[pd.DataFrame, np.ndarray]:
    arrays = read_arrays(path)
    parts, images = [], []
    with reading(path):
        for split in ("train", "test"):
            rows = np.arange(len(arrays[f"file_{split}"]))[:limit]
            named = {kind: arrays[f"{kind}_names"][arrays[f"{kind}_{split}"][rows]] for kind in FAIRFACE_CLASSES}
            ids = pd.Index(arrays[f"file_{split}"][rows], dtype="str", name="id")
            parts.append(pd.DataFrame(named, index=ids).assign(split=split))
            images.append(images_of(arrays, split, rows, size))
    return pd.concat(parts), np.concatenate(images)


def _check_secrets(secrets: Sequence[str], known: Sequence[str] | pd.Index | dict[str, tuple[str, ...]]) -> None:
    for secret in secrets:
        if secret not in known:
            raise ConfigError(f"the data set has no attribute '{secret}'", remedy=nearest(secret, known))
