"""Structural similarity (Wang et al. 2004): do two pictures agree in local brightness, contrast and shape?

The window is the published one: Gaussian, 11 x 11, sigma 1.5. Pictures are mirrored at their borders without repeating
the border itself, as torchmetrics does, so that a strip narrower than the window has a score too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.ndimage import correlate1d

from colonnade.errors import DataError
from colonnade.measure.reconstruct import Floats

_RADIUS, _SIGMA = 5, 1.5
_BRIGHTNESS, _CONTRAST = 0.01**2, 0.03**2  # C1 and C2 for values from 0 to 1
_AT_ONCE = 256  # pictures: five blurred copies of each are in memory together


def ssim(guesses: npt.ArrayLike, images: npt.ArrayLike) -> Floats:
    """Structural similarity of each guess (n, channels, height, width) to its image: 1 for a perfect guess.

    Values are from 0 to 1; guesses are clamped to that range. One guess alone is held against every image. The mean
    image of CIFAR-10 gives about .19.

    >>> ssim(np.full((1, 1, 4, 4), 0.6), np.full((1, 1, 4, 4), 0.5)).round(4).tolist()
    [0.9836]
    """
    guess, truth = np.asarray(guesses, dtype=np.float64), np.asarray(images, dtype=np.float64)
    if truth.ndim != 4 or guess.shape not in (truth.shape, truth.shape[1:]) or not truth.size:
        remedy = "give images as (n, channels, height, width) and one guess for each, or one for all"
        raise DataError(f"guesses {guess.shape} do not fit images {truth.shape}", where="measure", remedy=remedy)
    guess = np.broadcast_to(np.clip(guess, 0, 1), truth.shape)
    scores: list[Floats] = []
    for start in range(0, len(truth), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        scores.append(similarity_map(guess[rows], truth[rows]).mean(axis=(1, 2, 3)))
    return np.concatenate(scores)


def similarity_map(left: Floats, right: Floats) -> Floats:
    """Return the similarity around each pixel of two sets of pictures with values from 0 to 1 (equation 13)."""
    mean_left, mean_right = _blur(left), _blur(right)
    product = mean_left * mean_right
    squares = mean_left**2 + mean_right**2
    # The variances together; rounding can leave them below zero where both pictures are flat.
    variances = np.maximum(_blur(left**2) + _blur(right**2) - squares, 0)
    covariance = _blur(left * right) - product
    similar: Floats = (2 * product + _BRIGHTNESS) / (squares + _BRIGHTNESS)
    similar *= (2 * covariance + _CONTRAST) / (variances + _CONTRAST)
    return similar


def _blur(pictures: Floats) -> Floats:
    """Return the mean around each pixel, weighted by the window, which is a product of two one-dimensional ones."""
    weights = np.exp(-0.5 * (np.arange(-_RADIUS, _RADIUS + 1) / _SIGMA) ** 2)
    weights /= weights.sum()
    blurred: Floats = correlate1d(
        correlate1d(pictures, weights, axis=-1, mode="mirror"), weights, axis=-2, mode="mirror"
    )
    return blurred
