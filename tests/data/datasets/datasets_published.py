"""Writers of tiny files in the formats in which data sets are published; the tests read them back."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image


def write_idx(path: Path, array: np.ndarray) -> None:
    """Write an idx file of unsigned bytes; gzip if the name ends in .gz."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


class _Python2Pickler(pickle._Pickler):
    """Writes bytes and text as Python 2 wrote its `str`, as in the pickles that CIFAR and IEMOCAP are given away in."""

    dispatch = pickle._Pickler.dispatch.copy()

    def _save_string(self, value):
        content = value if isinstance(value, bytes) else value.encode("latin1")
        short = len(content) < 256
        opcode = pickle.SHORT_BINSTRING if short else pickle.BINSTRING
        self.write(opcode + struct.pack("<B" if short else "<i", len(content)) + content)
        self.memoize(value)

    dispatch[bytes] = _save_string
    dispatch[str] = _save_string


def python2_pickle(value) -> bytes:
    """Return `value` as Python 2 with an old numpy would have pickled it, protocol 2."""
    stream = io.BytesIO()
    _Python2Pickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"cnumpy._core.", b"cnumpy.core.")


def write_picture(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (64, 64)) -> None:
    """Write a picture of one colour, width x height `size`, as JPEG (or what the ending says)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, format="JPEG" if path.suffix == ".JPEG" else None, quality=95)


def write_text(path: Path, text: str) -> None:
    """Write a text file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
