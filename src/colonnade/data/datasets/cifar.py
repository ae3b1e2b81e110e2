"""CIFAR-10 and CIFAR-100: small photographs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.data.datasets.cifar_batches import Batch, read_binary_batch, read_python_batch, read_python_names
from colonnade.data.datasets.dataset import Dataset, of_images
from colonnade.data.datasets.files import home_of, need, read_lines
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.npz import read_images_npz

_LICENCE = "no licence stated; cite Krizhevsky 2009"


@dataclass(frozen=True)
class _Layout:
    """Names of one edition's folders and files; the last kind of label is the label, others are attributes."""

    python: str
    binary: str
    train: tuple[str, ...]
    test: str
    kinds: tuple[str, ...]
    meta: tuple[str, str]
    names: str
    packed: tuple[str, ...]


_CIFAR10 = _Layout(
    python="cifar-10-batches-py",
    binary="cifar-10-batches-bin",
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    kinds=("labels",),
    meta=("batches.meta", "label_names"),
    names="batches.meta.txt",
    packed=("cifar10.npz",),
)
_CIFAR100 = _Layout(
    python="cifar-100-python",
    binary="cifar-100-binary",
    train=("train",),
    test="test",
    kinds=("coarse_labels", "fine_labels"),
    meta=("meta", "fine_label_names"),
    names="fine_label_names.txt",
    packed=("cifar100.npz", "cifar100_500.npz"),
)


@dataset("cifar10", Source("the CIFAR page of Alex Krizhevsky, University of Toronto", _LICENCE))
def cifar10(folder: Path) -> Dataset:
    """Photographs, 32 x 32 in colour, 10 classes (python or binary batches, or cifar10.npz)."""
    return _load(folder, _CIFAR10)


@dataset("cifar100", Source("the CIFAR page of Alex Krizhevsky, University of Toronto", _LICENCE))
def cifar100(folder: Path) -> Dataset:
    """Photographs, 32 x 32 in colour, 100 fine classes in 20 coarse ones (python or binary batches, or .npz)."""
    return _load(folder, _CIFAR100)


def _load(folder: Path, layout: _Layout) -> Dataset:
    python, binary = home_of(folder, layout.python), home_of(folder, layout.binary)
    files = (*layout.train, layout.test)
    if (python / files[0]).is_file():
        names = read_python_names(need(python, layout.meta[0]), layout.meta[1])
        return _joined([read_python_batch(need(python, file), layout.kinds) for file in files], names, layout)
    if (binary / f"{files[0]}.bin").is_file():
        names = [line.strip() for line in read_lines(need(binary, layout.names))]
        return _joined([read_binary_batch(need(binary, f"{file}.bin"), layout.kinds) for file in files], names, layout)
    published = f"{layout.python}/{files[0]}", f"{layout.binary}/{files[0]}.bin"
    return read_images_npz(need(folder, *published, *layout.packed))


def _joined(batches: list[Batch], names: list[str], layout: _Layout) -> Dataset:
    images = np.concatenate([batch.images for batch in batches])
    labels = np.concatenate([batch.labels for batch in batches])
    tests = len(batches[-1].labels)
    ids = pd.RangeIndex(len(images), name="id")
    others = {kind.removesuffix("_labels"): labels[:, at] for at, kind in enumerate(layout.kinds[:-1])}
    return of_images(
        images,
        labels[:, -1],
        ["train"] * (len(images) - tests) + ["test"] * tests,
        names,
        ids=ids,
        attributes=pd.DataFrame(others, index=ids) if others else None,
    )
