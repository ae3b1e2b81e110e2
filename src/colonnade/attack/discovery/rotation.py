"""Choosing a rotation: by independence of the columns, or by edge strengths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import expm
from scipy.optimize import least_squares

from colonnade.discover.exchange import Floats

_RESTARTS = 3
_ROUNDS = 300
_RIDGES = (1e-3, 1e-2, 1e-1, 0.3, 1.0, 10.0)
_TOLERANCE = 0.1


def independent_rotation(points: Floats, random: np.random.Generator) -> Floats:
    """Return the rotation after which the columns of `points` are least like normal noise, each by itself."""
    size = points.shape[1]
    candidates = [_climb(points, _nearest_rotation(random.normal(size=(size, size)))) for _ in range(_RESTARTS)]
    return max(candidates, key=lambda candidate: candidate[1])[0]


def _climb(points: Floats, rotation: Floats) -> tuple[Floats, float]:
    """Fixed-point steps on the sum of squared excess kurtoses."""
    score = 0.0
    for _ in range(_ROUNDS):
        columns = points @ rotation
        scale = np.sqrt(np.square(columns).mean(axis=0))
        columns = columns / scale
        excess = (columns**4).mean(axis=0) - 3
        slope = (
            2 * excess * 4 * (points.T @ (columns**3) / len(points) - (excess + 3) * (points.T @ columns) / len(points))
        )
        slope /= scale
        turned = _nearest_rotation(rotation + 0.1 * slope / max(np.abs(slope).max(), 1e-12))
        if np.abs(turned - rotation).max() < 1e-6:
            break
        rotation, score = turned, float(np.square(excess).sum())
    return rotation, score


def rotation_by_strength(
    units: npt.NDArray[np.float64], strengths: Floats, starts: npt.NDArray[np.int64]
) -> tuple[Floats, float]:
    """Return the rotation that gives the encoders the right strengths, and how badly it does.

    Args:
        units: (equations, size, size), Y Yᵀ of an effect's hidden units Y at a look, before the rotation.
        strengths: (equations, causes), what ‖rᵀ Y‖ over the columns r of a cause should be.
        starts: the first column of each cause.
    """
    first = [_nearest_rotation(strength_vectors(units, strengths, starts, ridge)) for ridge in _RIDGES]
    # The ways from different starts end in different valleys; the deepest is found by looking at all.
    return min((_descend(start, units, strengths, starts) for start in first), key=lambda found: found[1])


def _descend(
    first: Floats, units: npt.NDArray[np.float64], strengths: Floats, starts: npt.NDArray[np.int64]
) -> tuple[Floats, float]:
    size = len(first)
    above = np.triu_indices(size, 1)

    def turned(angles: Floats) -> Floats:
        skew = np.zeros((size, size))
        skew[above] = angles
        return np.asarray(first @ expm(skew - skew.T), np.float64)

    def misfit(angles: Floats) -> Floats:
        rotation = turned(angles)
        squares = np.einsum("pi,qpi->qi", rotation, units @ rotation)
        found = np.sqrt(np.maximum(np.add.reduceat(squares, starts, axis=1), 1e-12))
        return np.asarray(((found - strengths) / (strengths + 0.05)).ravel(), np.float64)

    fitted = least_squares(misfit, np.zeros(len(above[0])), loss="soft_l1", f_scale=_TOLERANCE, max_nfev=60)
    return turned(fitted.x), float(fitted.cost)


def strength_vectors(
    units: npt.NDArray[np.float64], strengths: Floats, starts: npt.NDArray[np.int64], ridge: float = 0.0
) -> Floats:
    """Return, as columns, the vectors r with rᵀ Y Yᵀ r = strength²: linear in r rᵀ, of which the largest part is kept.

    `ridge` pulls r rᵀ towards the mean over all rotations, where there are too few equations.
    """
    size = units.shape[1]
    upper = np.triu_indices(size)
    twice = np.where(upper[0] == upper[1], 1.0, 2.0)
    weights = 1 / np.maximum(np.trace(units, axis1=1, axis2=2), 1e-12)
    left = units[:, upper[0], upper[1]] * twice * weights[:, None]
    right = np.square(strengths) * weights[:, None]
    widths = np.diff([*starts, size])
    if ridge:
        pull = ridge * np.linalg.norm(left) / np.sqrt(len(twice)) * np.sqrt(twice)
        left = np.vstack([left, np.diag(pull)])
        right = np.vstack([right, np.outer(pull * (np.eye(size) / size)[upper], widths)])
    solved = np.linalg.lstsq(left, right, rcond=1e-12)[0]
    vectors = []
    for cause, width in enumerate(widths):
        product = np.zeros((size, size))
        product[upper] = solved[:, cause]
        values, directions = np.linalg.eigh(product + product.T - np.diag(product.diagonal()))
        vectors.append(directions[:, -width:] * np.sqrt(np.maximum(values[-width:], 1e-9)))
    return np.hstack(vectors)


def _nearest_rotation(matrix: Floats) -> Floats:
    left, _, right = np.linalg.svd(matrix)
    rotation: Floats = left @ right
    return rotation
