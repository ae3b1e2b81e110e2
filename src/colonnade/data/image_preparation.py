"""Images turned into standardised float32, with the channel statistics of the training records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.data.records import Records
from colonnade.data.statistics import ImageStatistics
from colonnade.errors import DataError

_WHERE = "image preparation"
_CHUNK = 1024


class ImagePreparation:
    """Images scaled to [0, 1], then standardised by each channel's mean and deviation."""

    def __init__(self) -> None:
        self._statistics: ImageStatistics | None = None

    def fit(self, records: Records) -> ImagePreparation:
        """Learn mean and deviation of each channel from training records; returns itself."""
        images = records.images
        if images is None or not len(images):
            raise DataError("there are no images to learn from", where=_WHERE)
        mean, variance = _channel_moments(images)
        scale = np.sqrt(variance)
        scale[scale < 1e-8] = 1.0  # a channel of one colour
        channels, height, width = images.shape[1:]
        self._statistics = ImageStatistics(shape=(channels, height, width), mean=mean.tolist(), scale=scale.tolist())
        return self

    def transform(self, records: Records) -> npt.NDArray[np.float32]:
        """Return standardised images."""
        images = records.images
        if images is None or images.shape[1:] != self.shape:
            found = "no images" if images is None else f"images of shape {images.shape[1:]}"
            raise DataError(f"found {found}, training had {self.shape}", where=_WHERE)
        mean = np.array(self.statistics.mean, np.float32)[:, None, None]
        scale = np.array(self.statistics.scale, np.float32)[:, None, None]
        prepared = _scaled(images)
        prepared -= mean
        prepared /= scale
        return prepared

    def absent(self) -> npt.NDArray[np.float32]:
        """Return what a record becomes of which this party knows nothing: the mean colour."""
        return np.zeros(self.shape, np.float32)

    @property
    def statistics(self) -> ImageStatistics:
        """What was learned from the training records."""
        if self._statistics is None:
            raise DataError("this preparation has not been fitted", where=_WHERE, remedy="call fit first")
        return self._statistics

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one prepared record: channels, height, width."""
        return self.statistics.shape

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned as pure JSON types."""
        return self.statistics.to_dict()

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ImagePreparation:
        """Rebuild a fitted preparation."""
        preparation = cls()
        preparation._statistics = ImageStatistics.from_dict(stored)
        return preparation

    def __repr__(self) -> str:
        return "ImagePreparation: " + ("not fitted" if self._statistics is None else " x ".join(map(str, self.shape)))


def _scaled(images: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    scaled = images.astype(np.float32)
    if images.dtype == np.uint8:
        scaled /= np.float32(255)
    return scaled


def _channel_moments(images: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return mean and variance of each channel in float64, in chunks: a float64 copy of all images would not fit."""
    unit = 255.0 if images.dtype == np.uint8 else 1.0
    chunks = [slice(start, start + _CHUNK) for start in range(0, len(images), _CHUNK)]
    count = images.size / images.shape[1]
    mean = np.sum([images[c].sum(axis=(0, 2, 3), dtype=np.float64) for c in chunks], axis=0) / count / unit
    spread = [np.square(images[c].astype(np.float64) / unit - mean[:, None, None]).sum(axis=(0, 2, 3)) for c in chunks]
    return mean, np.sum(spread, axis=0) / count
