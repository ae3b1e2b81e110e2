"""Images from files: an `.npz` archive, or a folder with one picture a record."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.errors import DataError, nearest

Images = npt.NDArray[np.generic]

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
_CHANNELS = (1, 3)
_DEEP = ("I", "F")


def read_image_archive(
    file: Path, id_key: str, columns: Sequence[str] = ()
) -> tuple[npt.NDArray[np.generic], Images, pd.DataFrame]:
    """Return ids, images and further columns from an `.npz` with `images` (or `x`), `ids` and the columns' arrays."""
    if not file.is_file():
        raise DataError("there is no such file", where=str(file), remedy="check the path")
    try:
        with np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            images = archive[_key(names, file, "images", "x")]
            ids = archive[_key(names, file, id_key, "ids")]
            found = {name: archive[_key(names, file, name)] for name in columns}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"this is no archive of plain arrays: {error}", where=str(file)) from None
    for name, values in {id_key: ids, **found}.items():
        if values.ndim != 1 or len(values) != len(images):
            what = f"'{name}' has shape {values.shape} for {len(images)} images"
            raise DataError(what, where=str(file), remedy="give one value for each image")
    return ids, channels_first(images), pd.DataFrame(found)


def read_image_folder(folder: Path) -> tuple[pd.Series, Images]:
    """Return the ids (file names without their ending) and the images of a folder, in order of file name."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in _SUFFIXES and file.is_file())
    if not files:
        raise DataError("the folder holds no images", where=str(folder), remedy="name each <id>.png or <id>.jpg")
    pictures = [_picture(file) for file in files]
    grey = all(picture.shape[2] == 1 for picture in pictures)
    if not grey:
        pictures = [np.repeat(p, 3, axis=2) if p.shape[2] == 1 else p for p in pictures]
    for file, picture in zip(files, pictures, strict=True):
        if picture.shape != pictures[0].shape:
            (height, width), (first_height, first_width) = picture.shape[:2], pictures[0].shape[:2]
            raise DataError(
                f"{file.name} is {width} x {height} pixels, {files[0].name} is {first_width} x {first_height}",
                where=str(folder),
                remedy="bring all images to one size",
            )
    return pd.Series([file.stem for file in files], dtype=str), np.stack(pictures).transpose(0, 3, 1, 2)


def channels_first(images: Images) -> Images:
    """Return images as (records, channels, height, width): grey ones get a channel, channels-last ones are turned."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[-1] in _CHANNELS and images.shape[1] not in _CHANNELS:
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images


def _picture(file: Path) -> npt.NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(file) as picture:
            _require_eight_bits(picture.mode, file)
            grey = picture.mode in ("1", "L")
            pixels = np.asarray(picture.convert("L" if grey else "RGB"), dtype=np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"this is no readable image: {error}", where=str(file)) from None
    return pixels[:, :, None] if grey else pixels


def _require_eight_bits(mode: str, file: Path) -> None:
    """Refuse grey of more than 256 levels, in any of Pillow's modes for it: turned into 8 bits it is cut off at white.

    What its range is, nobody here knows: 12 bits of a scanner lie in 16 bits of a file.
    """
    if mode.startswith(_DEEP):
        remedy = "scale all to 8 bits, or give an .npz with images of float32 between 0 and 1"
        raise DataError(f"a picture of mode '{mode}' has more than 8 bits a pixel", where=str(file), remedy=remedy)


def _key(names: list[str], file: Path, *wanted: str) -> str:
    for name in wanted:
        if name in names:
            return name
    raise DataError(f"there is no array '{wanted[0]}' ({nearest(wanted[0], names)})", where=str(file))
