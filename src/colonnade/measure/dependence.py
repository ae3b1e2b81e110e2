"""How strongly do two things depend on each other, of whatever shape and by whatever curve?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

# Below this a squared distance or a share counts as zero: the square root is too steep there to be differentiated.
_SMALLEST = 1e-10


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Distance correlation of the rows of `x` and `y`: 1 for the same up to scale and rotation; differentiable.

    Székely's statistic as the published defenses use it, from distances between flattened rows. It is 0 for independent
    variables only as the number of rows grows without end: with few rows and many entries it is large even for
    independent ones (64 rows of 1,000 normal entries each: 0.99). Hold it against the same rows out of step,
    `distance_correlation(x, y.roll(1, 0))`.

    Args:
        x: one row a record, of any shape.
        y: one row for each row of `x`, of any shape.

    Returns:
        One number from 0 to 1; 0 where all rows of `x` or of `y` are alike.
    """
    import torch

    if len(x) != len(y) or len(x) < 2:
        remedy = "give two rows or more, and as many of one as of the other"
        raise DataError(f"{len(x)} rows and {len(y)} rows do not pair", where="distance correlation", remedy=remedy)
    a, b = _centred_distances(x), _centred_distances(y)
    covariance, variances = (a * b).mean(), (a * a).mean() * (b * b).mean()
    if variances == 0:
        return covariance * 0
    return (covariance / torch.sqrt(variances)).clamp_min(_SMALLEST).sqrt()


def _centred_distances(x: Tensor) -> Tensor:
    """Return the Euclidean distances between rows, less the means of rows and columns."""
    import torch

    flat = x.flatten(1)
    flat = flat - flat.mean(0)
    lengths = (flat * flat).sum(1)
    squares = lengths[:, None] + lengths - 2 * flat @ flat.T
    distinct = ~torch.eye(len(flat), dtype=torch.bool, device=flat.device)
    # Rounding can leave equal rows a little apart or below zero; the diagonal is zero and stays out of the gradient.
    distances = torch.where(distinct & (squares > _SMALLEST), squares, 1.0).sqrt()
    distances = torch.where(distinct & (squares > _SMALLEST), distances, 0.0)
    return distances - distances.mean(0) - distances.mean(1, keepdim=True) + distances.mean()
