"""ImageNet and Tiny ImageNet: folders of photographs, one folder per class (WordNet id).

Their official test labels are not public, so that published numbers are taken on the validation pictures; these are
the 'test' split here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from colonnade.data.datasets.dataset import Dataset, first_of_each, of_images
from colonnade.data.datasets.files import check_files, find, home_of, need, read_lines, reading
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.npz import read_images_npz
from colonnade.data.datasets.pictures import decode
from colonnade.errors import DataError

_LICENCE = "ImageNet terms: non-commercial research and education"
PICTURE_ENDINGS = (".jpeg", ".jpg", ".png")


class _Picture(NamedTuple):
    path: Path
    wnid: str
    split: str


@dataset("imagenet", Source("image-net.org (ILSVRC 2012), validation pictures sorted into class folders", _LICENCE))
def imagenet(folder: Path, size: int = 64, limit: int | None = None) -> Dataset:
    """Photographs in 1,000 classes (train/<wnid>/*.JPEG, val/<wnid>/*.JPEG), scaled to size; limit is per class."""
    home = home_of(folder, "ILSVRC/Data/CLS-LOC")
    pictures = [
        *_in_class_folders(need(home, "train"), "train"),
        *_in_class_folders(need(home, "val"), "test"),
    ]
    wnids = sorted({picture.wnid for picture in pictures})
    return _load(pictures, wnids, wnids, size, limit)


@dataset("tiny_imagenet", Source("the Tiny ImageNet challenge of Stanford CS231n ('tiny-imagenet-200.zip')", _LICENCE))
def tiny_imagenet(
    folder: Path, classes: int | None = None, size: int | None = None, limit: int | None = None
) -> Dataset:
    """Photographs, 64 x 64, 200 classes (tiny-imagenet-200/, or tiny_imagenet<classes>.npz); limit is per class."""
    home = home_of(folder, "tiny-imagenet-200")
    if find(home, "wnids.txt") is None and (packed := _packed(folder, classes)) is not None:
        return read_images_npz(packed, size, limit)
    listed = need(home, "wnids.txt", *([f"tiny_imagenet{classes}.npz"] if classes else []))
    wnids = sorted(line.strip() for line in read_lines(listed))[:classes]
    pictures = [*_tiny_train(home, wnids), *_tiny_validation(home, wnids)]
    return _load(pictures, wnids, _words(home, wnids), size, limit)


def _load(
    pictures: Sequence[_Picture], wnids: Sequence[str], names: Sequence[str], size: int | None, limit: int | None
) -> Dataset:
    kept = [pictures[row] for row in first_of_each([(at.split, at.wnid) for at in pictures], limit)]
    check_files(picture.path for picture in kept)
    number = {wnid: label for label, wnid in enumerate(wnids)}
    return of_images(
        decode([picture.path for picture in kept], size),
        [number[picture.wnid] for picture in kept],
        [picture.split for picture in kept],
        names,
        ids=pd.Index([picture.path.stem for picture in kept], dtype="str", name="id"),
    )


def _in_class_folders(folder: Path, split: str) -> list[_Picture]:
    found = [
        _Picture(path, home.name, split)
        for home in sorted(folder.iterdir())
        if home.is_dir()
        for path in sorted(home.iterdir())
        if path.suffix.lower() in PICTURE_ENDINGS
    ]
    if not found:
        raise DataError("there are no pictures in class folders ('n01440764/*.JPEG', ...)", where=str(folder))
    return found


def _tiny_train(home: Path, wnids: Sequence[str]) -> list[_Picture]:
    folders = [(wnid, need(home, f"train/{wnid}/images")) for wnid in wnids]
    return [_Picture(path, wnid, "train") for wnid, images in folders for path in sorted(images.glob("*.JPEG"))]


def _tiny_validation(home: Path, wnids: Sequence[str]) -> list[_Picture]:
    # "<file> <wnid> <box>" a line, separated by tabs
    path = need(home, "val/val_annotations.txt")
    lines = [line.split("\t") for line in read_lines(path)]
    kept = set(wnids)
    with reading(path):
        return [_Picture(home / "val" / "images" / line[0], line[1], "test") for line in lines if line[1] in kept]


def _words(home: Path, wnids: Sequence[str]) -> list[str]:
    path = find(home, "words.txt")
    if path is None:
        return list(wnids)
    with reading(path):
        words = dict(line.split("\t", 1) for line in read_lines(path))
    return [words.get(wnid, wnid).split(",")[0].strip() for wnid in wnids]


def _packed(folder: Path, classes: int | None) -> Path | None:
    if classes is not None:
        return find(folder, f"tiny_imagenet{classes}.npz")
    # the longer number is the larger
    return max(folder.glob("tiny_imagenet*.npz"), key=lambda path: len(path.name), default=None)
