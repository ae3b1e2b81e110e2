"""The two formats in which CIFAR is published: python batches (pickled dictionaries) and binary batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from colonnade.data.datasets.dataset import Images
from colonnade.data.datasets.files import read_bytes
from colonnade.data.datasets.plain_pickle import load_plain_pickle
from colonnade.errors import DataError

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32


class Batch(NamedTuple):
    """Pictures and their labels, one column per kind of label."""

    images: Images
    labels: npt.NDArray[np.int64]


def read_python_batch(path: Path, kinds: Sequence[str]) -> Batch:
    """Read one pickled batch; `kinds` are the keys of its labels ('labels', or 'coarse_labels', 'fine_labels')."""
    content = _entries(path, ["data", *kinds])
    data = np.asarray(content["data"])
    labels = np.stack([np.asarray(content[kind], dtype=np.int64) for kind in kinds], axis=1)
    if data.dtype != np.uint8 or data.shape != (len(labels), PIXELS):
        raise DataError(f"the batch holds {data.shape} {data.dtype} values for {len(labels)} labels", where=str(path))
    return Batch(data.reshape(-1, *SHAPE), labels)


def read_python_names(path: Path, key: str) -> list[str]:
    """Read the class names out of a pickled meta file."""
    return [name.decode() if isinstance(name, bytes) else str(name) for name in _entries(path, [key])[key]]


def read_binary_batch(path: Path, kinds: Sequence[str]) -> Batch:
    """Read one binary batch: records of one label byte per kind and 3,072 pixels, red before green before blue."""
    content = np.frombuffer(read_bytes(path), dtype=np.uint8)
    width = len(kinds) + PIXELS
    if len(content) % width:
        raise DataError(f"{len(content)} bytes are no whole number of records of {width} bytes", where=str(path))
    records = content.reshape(-1, width)
    return Batch(records[:, len(kinds) :].reshape(-1, *SHAPE), records[:, : len(kinds)].astype(np.int64))


def _entries(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    content = load_plain_pickle(path, encoding="bytes")
    if not isinstance(content, dict):
        raise DataError("the file is no CIFAR batch", where=str(path))
    named = {key.decode() if isinstance(key, bytes) else str(key): value for key, value in content.items()}
    if missing := [key for key in keys if key not in named]:
        raise DataError(f"the batch has no entry '{missing[0]}'", where=str(path))
    return named
