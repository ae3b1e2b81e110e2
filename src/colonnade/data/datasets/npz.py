"""Picture sets that somebody packed into one .npz file (x_train, y_train, x_test, y_test, classes)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.data.datasets.dataset import Dataset, Images, first_of_each, of_images
from colonnade.data.datasets.files import reading
from colonnade.data.datasets.pictures import channels_first, cut, decode

Arrays = dict[str, npt.NDArray[Any]]
ENCODINGS = ("jpeg", "webp")


def read_arrays(path: Path) -> Arrays:
    """Read all arrays of an .npz file; objects (pickles) in it are refused."""
    with reading(path), np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def read_images_npz(path: Path, size: int | None = None, limit: int | None = None) -> Dataset:
    """Read a packed picture set: plain N x height x width (x channels) arrays, or encoded pictures with offsets.

    Args:
        path: the file; keys x_train, y_train and x_test, y_test (either may be absent), classes.
        size: scale encoded pictures to this height and width.
        limit: at most this many pictures of each class in each split.
    """
    arrays = read_arrays(path)
    with reading(path):
        splits = [split for split in ("train", "test") if f"y_{split}" in arrays]
        rows = {split: first_of_each(arrays[f"y_{split}"].tolist(), limit) for split in splits}
        label = np.concatenate([arrays[f"y_{split}"][rows[split]] for split in splits])
        images = np.concatenate([images_of(arrays, split, rows[split], size) for split in splits])
        classes = arrays["classes"].tolist() if "classes" in arrays else range(int(label.max()) + 1)
        names = [split for split in splits for _ in rows[split]]
        return of_images(images, label, names, [str(name) for name in classes])


def images_of(arrays: Arrays, split: str, rows: npt.NDArray[np.int64], size: int | None) -> Images:
    """Return the pictures `rows` of one split of an archive."""
    for encoding in ENCODINGS:
        if f"x_{split}_{encoding}" in arrays:
            return decode(cut(arrays[f"x_{split}_{encoding}"], arrays[f"x_{split}_offsets"], rows), size)
    return channels_first(arrays[f"x_{split}"][rows])
