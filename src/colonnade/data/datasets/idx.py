"""The idx format of MNIST: two zero bytes, element type, number of dimensions, big-endian sizes, raw bytes."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from colonnade.data.datasets.files import read_bytes
from colonnade.errors import DataError

UNSIGNED_BYTE = 0x08


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, plain or gzip, that has the given number of dimensions."""
    content = read_bytes(path)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]):
        raise DataError(f"the file is no idx file of unsigned bytes in {dimensions} dimensions", where=str(path))
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise DataError(
            f"the header promises {math.prod(shape)} bytes, the file holds {len(content) - header}", where=str(path)
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)
