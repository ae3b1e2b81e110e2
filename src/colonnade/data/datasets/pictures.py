"""JPEG, PNG and WebP pictures as one array."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.data.datasets.dataset import Images
from colonnade.data.datasets.files import reading
from colonnade.errors import DataError


def decode(sources: Sequence[Path | bytes], size: int | None) -> Images:
    """Decode pictures one by one into N x 3 x height x width.

    Args:
        sources: files, or the bytes of files.
        size: cut each picture to the largest centred square and scale that to `size` x `size`; without it all
            pictures must have the same height and width.
    """
    if not sources:
        return np.empty((0, 3, size or 0, size or 0), dtype=np.uint8)
    first = _decode_one(sources[0], size)
    images = np.empty((len(sources), *first.shape), dtype=np.uint8)
    for row, source in enumerate(sources):
        image = _decode_one(source, size)
        if image.shape != first.shape:
            raise DataError(
                f"the pictures differ in size: {first.shape[1:]} and {image.shape[1:]} (height, width)",
                where=_place(source),
                remedy="give the option size, for instance size=64",
            )
        images[row] = image
    return images


def cut(blob: npt.NDArray[np.uint8], offsets: npt.NDArray[Any], rows: npt.NDArray[np.int64]) -> list[bytes]:
    """Return the encoded pictures `rows` out of one long byte array; picture i ends where picture i + 1 starts."""
    return [blob[offsets[row] : offsets[row + 1]].tobytes() for row in rows]


def channels_first(images: npt.NDArray[np.uint8]) -> Images:
    """Turn N x height x width (x channels) into N x channels x height x width."""
    with_channels = images[..., None] if images.ndim == 3 else images
    return np.ascontiguousarray(with_channels.transpose(0, 3, 1, 2))


def _decode_one(source: Path | bytes, size: int | None) -> Images:
    from PIL import Image, ImageOps

    with reading(Path(_place(source))), Image.open(BytesIO(source) if isinstance(source, bytes) else source) as opened:
        picture = opened.convert("RGB")
        if size is not None and picture.size != (size, size):
            picture = ImageOps.fit(picture, (size, size), Image.Resampling.LANCZOS)
        return np.asarray(picture).transpose(2, 0, 1)


def _place(source: Path | bytes) -> str:
    return str(source) if isinstance(source, Path) else "a picture inside an archive"
