"""The pictures of the reconstruction benches: who trains on which, and which are held out to be attacked."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.data.datasets import Dataset, load_dataset
from colonnade.errors import ConfigError
from colonnade.federation.federation import Federation

STRIPS = ("left", "right")
"""The passive parties: each holds one half of every picture. A third party holds the labels alone."""


@dataclass(frozen=True)
class Source:
    """Where pictures come from.

    Attributes:
        loader: the data set's name in the registry.
        options: of its loader.
        note: what a reader must know where it stands in for another set, or where `count` of `whole` are at hand.
        whole: training pictures of the published set; None where no part of it could be taken for it.
    """

    loader: str
    options: tuple[tuple[str, Any], ...] = ()
    note: str | None = None
    whole: int | None = None


_PART = "{count:,} of its {whole:,} training pictures are at hand"
SOURCES = {
    "cifar10": Source("cifar10", note=f"CIFAR-10: {_PART}", whole=50000),
    "mnist": Source("mnist", note=f"MNIST: {_PART}", whole=60000),
    "emnist": Source("emnist", (("part", "digits"),), note="EMNIST: digits only, {count:,} training pictures"),
    "cifar100": Source(
        "tiny_imagenet",
        (("classes", 100), ("size", 32)),
        note="in place of CIFAR-100: 100 classes of Tiny ImageNet, scaled to 32 x 32",
    ),
    "imagenet": Source(
        "tiny_imagenet", (("classes", 20),), note="in place of ImageNet: 20 classes of Tiny ImageNet, 64 x 64"
    ),
}
"""Data sets of the paper, by our names."""


def data_folder() -> Path:
    """Return the folder of pictures: in COLONNADE_DATA, or in `shared/data` beside the repository."""
    beside = Path(__file__).resolve().parents[5] / "shared" / "data"
    folder = Path(os.environ.get("COLONNADE_DATA") or beside) / "images"
    if not folder.is_dir():
        raise ConfigError(
            "the picture data sets are not here", remedy="set COLONNADE_DATA to the folder above 'images'"
        )
    return folder


def note_of(name: str) -> str | None:
    """Return what a reader must know of these pictures; None where they are all of the published set."""
    source, count = SOURCES[name], int((~_loaded(name)[2]).sum())
    whole = source.whole is not None and count >= source.whole
    return None if source.note is None or whole else source.note.format(count=count, whole=source.whole)


def fingerprint(name: str) -> str:
    """Return what tells these pictures from others of the same name: how many, all labels, some pictures.

    What is at hand may be a part of a set, and the whole another time: rows of one are no rows of the other.
    """
    images, labels, tested = _loaded(name)
    digest = hashlib.sha256(repr(images.shape).encode())
    for part in (images[:: max(len(images) // 100, 1)], labels, tested):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:16]


def pictures(
    name: str, private: int | None, held_out: int | None, *, watched: int = 0, overlap: float = 1.0
) -> Federation:
    """Return a federation of two halves and a label-only active party.

    The test records of the federation are those that nobody trains on: the published test pictures and as many of the
    training ones. An attacker's auxiliary records are taken from them.

    Args:
        name: one of `SOURCES`.
        private: how many pictures are trained on; None takes all that are not held out.
        held_out: how many are not; None takes twice the published test pictures.
        watched: how many of those held out are scored after every epoch.
        overlap: share of the training records that the right half's owner holds too; the others it lacks.
    """
    images, labels, tested = _loaded(name)
    rng = np.random.default_rng(0)  # the same records in every seed: seeds tell of training, not of luck in the draw
    test, train = rng.permutation(np.flatnonzero(tested)), rng.permutation(np.flatnonzero(~tested))
    wanted = 2 * len(test) if held_out is None else held_out
    spare = max(wanted - len(test), 0)
    outside = np.concatenate([test[:wanted], train[:spare]])
    inside = train[spare:] if private is None else _every_class_first(train[spare:], labels)[:private]
    rows = np.concatenate([inside, outside])
    split = np.repeat(["train", "validation", "test"], [len(inside), watched, len(outside) - watched])
    federation = Federation.from_images(images[rows], labels[rows], list(STRIPS), split=split)
    return federation if overlap == 1 else _partly(federation, overlap, len(inside), rng)


def _every_class_first(rows: npt.NDArray[np.intp], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the rows with one of each class in front: of a hundred classes a few rows would lack some."""
    first = np.sort(np.unique(labels[rows], return_index=True)[1])
    return np.concatenate([rows[first], np.delete(rows, first)])


def _partly(federation: Federation, overlap: float, private: int, rng: np.random.Generator) -> Federation:
    """Take a share of the training records from one party: where it lacks one, its row is -1."""
    lacked = rng.permutation(private)[: round((1 - overlap) * private)]
    rows = {party: held.copy() for party, held in (federation.rows or {}).items()}
    rows[STRIPS[1]][lacked] = -1
    return federation.aligned(rows)


@cache
def _loaded(name: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    source = SOURCES[name]
    data: Dataset = load_dataset(source.loader, data_folder(), **dict(source.options))
    assert data.images is not None and data.label is not None and data.split is not None
    return data.images, data.label.to_numpy(np.int64), data.split.to_numpy() == "test"
