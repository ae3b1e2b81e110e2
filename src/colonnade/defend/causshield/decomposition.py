"""The decomposition loss (Eq. 11-14): each dimension follows its own surrogate and no other one's."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor
from torch.nn import functional

DecompositionMode = Literal["cirl", "frobenius"]
Dimensions = Literal["local", "gap", "flat"]
DECOMPOSITION_MODES: tuple[str, ...] = get_args(DecompositionMode)
DIMENSIONS: tuple[str, ...] = get_args(Dimensions)

OFF_DIAGONAL_WEIGHT = 0.005
"""CIRL's weight of the cross terms."""
_EPSILON = 1e-6


def as_samples(representations: Tensor, dimensions: str) -> Tensor:
    """Return (samples, dimensions) of vectors (B, F) or maps (B, C, H, W).

    A dimension of a map is a channel: `local` takes every position for a sample of its own, because a surrogate shows
    the same thing at the same place; `gap` averages over positions. `flat` takes every value for a dimension; its
    correlations have rank B - 1 at most, so it is for narrow maps. Vectors are what they are.

    >>> import torch
    >>> as_samples(torch.zeros(8, 3, 4, 2), "local").shape, as_samples(torch.zeros(8, 3, 4, 2), "gap").shape
    (torch.Size([64, 3]), torch.Size([8, 3]))
    """
    if representations.dim() == 2 or dimensions == "flat":
        return representations.flatten(1)
    if dimensions == "gap":
        return representations.flatten(2).mean(2)
    return representations.transpose(1, -1).flatten(0, -2)


def correlation(raw: Tensor, altered: Tensor) -> Tensor:
    """Return C (Eq. 13): entry (j, k) is the correlation of dimension j of `raw` with dimension k of `altered`.

    Both are (samples, dimensions). A dimension that never changes correlates with nothing.
    """
    # Batch normalisation without weights is the z-score of Eq. 11, in one pass forward and one back.
    first = functional.batch_norm(raw, None, None, training=True, eps=_EPSILON)
    second = functional.batch_norm(altered, None, None, training=True, eps=_EPSILON)
    return first.T @ second / len(raw)


def decomposition_loss(raw: Tensor, altered: Tensor, mode: str) -> Tensor:
    """Return l_Dec of the representations of records and of their surrogates, both (samples, dimensions).

    `cirl` is the mean squared distance of the diagonal from 1 plus a small weight times the mean square of the rest.
    `frobenius` is Eq. 14 divided by the number J of dimensions; its J (J - 1) cross terms rule the sum, and neither
    form can reach 0 with fewer samples than dimensions: the rank of C leaves at least J - samples + 1 in Eq. 14's norm.
    """
    matrix = correlation(raw, altered)
    count = len(matrix)
    diagonal = matrix.diagonal()
    missing = (1 - diagonal).square()
    cross = matrix.square().sum() - diagonal.square().sum()
    if mode == "frobenius":
        return 0.5 * (missing.sum() + cross) / count
    return missing.mean() + OFF_DIAGONAL_WEIGHT * cross / max(count * (count - 1), 1)
