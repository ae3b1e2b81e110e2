"""The trivial guesses that stand beside every table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.measure.reconstruct import Floats


def mean_record(known: npt.ArrayLike) -> Floats:
    """The mean of the records (or images) that an attacker knows: the guess of one who saw no upload.

    >>> mean_record([[0.0, 1.0], [1.0, 1.0]]).tolist()
    [0.5, 1.0]
    """
    mean: Floats = np.asarray(known, dtype=np.float64).mean(axis=0)
    return mean


def constant_grey(shape: tuple[int, ...]) -> Floats:
    """A picture of `shape` that is grey (0.5) everywhere.

    >>> constant_grey((1, 1, 2)).tolist()
    [[[0.5, 0.5]]]
    """
    return np.full(shape, 0.5)


def random_other(records: npt.ArrayLike, seed: int) -> Floats:
    """For each record another one of the same set, at random, never itself.

    >>> sorted(random_other([[1.0], [2.0], [3.0]], seed=0).ravel().tolist())
    [1.0, 2.0, 3.0]
    """
    all_records = np.asarray(records, dtype=np.float64)
    if len(all_records) < 2:
        raise DataError("there is no other record to guess", where="measure", remedy="give at least two records")
    # Each takes its successor in one random circle through all records: nobody is its own successor.
    circle = np.random.default_rng(seed).permutation(len(all_records))
    others = np.empty_like(all_records)
    others[circle] = all_records[np.roll(circle, -1)]
    return others


def per_record_mean(records: npt.ArrayLike) -> Floats:
    """Each record flattened to its own mean: an image to its mean colour, a vector to its mean value.

    This guess knows something about the record; an attack that loses to it has found less than the colour.

    >>> per_record_mean([[0.0, 1.0], [2.0, 4.0]]).tolist()
    [[0.5, 0.5], [3.0, 3.0]]
    """
    all_records = np.asarray(records, dtype=np.float64)
    axes = tuple(range(2, all_records.ndim)) or 1
    return np.broadcast_to(all_records.mean(axis=axes, keepdims=True), all_records.shape).copy()


def majority_class(labels: npt.ArrayLike) -> int:
    """The commonest class, the smallest number among equals: what a model that learned nothing should answer.

    >>> majority_class([0, 1, 1, 2])
    1
    """
    classes, counts = np.unique(np.asarray(labels), return_counts=True)
    return int(classes[counts.argmax()])


def class_shares(labels: npt.ArrayLike, classes: int) -> Floats:
    """The share of each class: the best constant probabilities.

    >>> class_shares([0, 1, 1, 1], classes=2).tolist()
    [0.25, 0.75]
    """
    counts = np.bincount(np.asarray(labels, dtype=np.int64), minlength=classes)
    shares: Floats = counts / counts.sum()
    return shares
