"""MNIST and its siblings: handwritten digits, clothes, letters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from colonnade.data.datasets.dataset import Dataset, of_images
from colonnade.data.datasets.files import find, home_of, need, read_lines, reading
from colonnade.data.datasets.idx import read_idx
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.npz import read_images_npz
from colonnade.errors import ConfigError, nearest

DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
EMNIST_CLASSES = {"digits": 10, "mnist": 10, "letters": 26, "balanced": 47, "bymerge": 47, "byclass": 62}


@dataset("mnist", Source("the MNIST database of handwritten digits (LeCun, Cortes, Burges)", "CC BY-SA 3.0"))
def mnist(folder: Path) -> Dataset:
    """Handwritten digits, 28 x 28, 10 classes (idx files, plain or gzip, or mnist.npz)."""
    return _idx_or_npz(folder, "mnist.npz", classes=DIGITS)


@dataset("fashion_mnist", Source("the Fashion-MNIST repository of Zalando Research", "MIT"))
def fashion_mnist(folder: Path) -> Dataset:
    """Pictures of clothes, 28 x 28, 10 classes (idx files, plain or gzip, or fashion_mnist.npz)."""
    return _idx_or_npz(folder, "fashion_mnist.npz", classes=CLOTHES)


@dataset("emnist", Source("the EMNIST page of NIST (idx archive, 'gzip.zip')", "derived from NIST Special Database 19"))
def emnist(folder: Path, part: str = "digits") -> Dataset:
    """Handwritten digits and letters, 28 x 28 (idx files, plain or gzip); part is digits, letters, balanced, ...

    The published pictures are transposed and the letters numbered from 1; here they stand upright and count from 0.
    """
    if part not in EMNIST_CLASSES:
        raise ConfigError(f"EMNIST has no part '{part}'", remedy=nearest(part, EMNIST_CLASSES))
    home = home_of(folder, "gzip")
    return _idx_or_npz(
        home,
        f"emnist_{part}.npz",
        classes=_emnist_names(home, part),
        prefix=f"emnist-{part}-",
        transposed=True,
        first_label=1 if part == "letters" else 0,
    )


def _idx_or_npz(
    folder: Path,
    packed: str,
    *,
    classes: tuple[str, ...],
    prefix: str = "",
    transposed: bool = False,
    first_label: int = 0,
) -> Dataset:
    archive = find(folder, packed)
    if archive is not None and find(folder, *_names(f"{prefix}train-images", 3)) is None:
        return read_images_npz(archive)
    tests = "test" if prefix else "t10k"
    images, labels, splits = [], [], []
    for split, stem in (("train", f"{prefix}train"), ("test", f"{prefix}{tests}")):
        pictures = read_idx(need(folder, *_names(f"{stem}-images", 3)), 3)
        images.append(pictures.transpose(0, 2, 1) if transposed else pictures)
        labels.append(read_idx(need(folder, *_names(f"{stem}-labels", 1)), 1).astype(np.int64) - first_label)
        splits += [split] * len(pictures)
    return of_images(np.concatenate(images)[:, None], np.concatenate(labels), splits, classes)


def _names(stem: str, dimensions: int) -> list[str]:
    """Return the file names in use for one idx file: with '-' or '.' before idx, plain or gzip."""
    return [f"{stem}{mark}idx{dimensions}-ubyte{packed}" for mark in "-." for packed in ("", ".gz")]


def _emnist_names(folder: Path, part: str) -> tuple[str, ...]:
    mapping = find(folder, f"emnist-{part}-mapping.txt")
    if mapping is not None:
        # "<label> <character code> [<code of the other case>]" a line
        with reading(mapping):
            return tuple(chr(int(line.split()[1])) for line in read_lines(mapping))
    if part == "letters":
        return tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return tuple(str(label) for label in range(EMNIST_CLASSES[part]))
