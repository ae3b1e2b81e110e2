"""A veil before a network: what records have in common most is taken away before anything is learned from them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from colonnade.errors import ConfigError
from colonnade.nets.blocks import BasicBlock, Dense, RunningNorm, unit_norm
from colonnade.nets.shapes import Shape

FITTED_ON = 4096
"""Principal components are found from so many records: more change little, and take long."""
FLOOR = 0.2
"""A record's contrast is divided by no less than this share of the usual one, or flat pictures would become noise."""
LEAST = 1e-3
"""The usual contrast, where pictures of deviation 1 have next to none left: rounding errors must stay what they are."""
SMALL = 8
"""Maps are brought down to this height and width before places are averaged."""
WIDEST = 256
MEMORY = 0.05
"""How much of what earlier batches were like a new batch replaces."""


class Veil(nn.Module):
    """Takes the first principal components of a party's own records away, and of pictures their contrast.

    Light and shade over the whole picture, the large patches of colour: nine tenths of the variance lie in a few dozen
    components, and next to nothing of what tells a cat from a ship. What is taken away here is in no upload, however
    often the record is uploaded and however the network learns; it can only be guessed from what is left.

    Before `fit` nothing is taken away.

    Args:
        shape: of a record.
        components: how many are taken away.
    """

    mean: Tensor
    directions: Tensor
    usual: Tensor

    def __init__(self, shape: Shape, components: int) -> None:
        super().__init__()
        size = torch.Size(shape).numel()
        self._levels = len(shape) == 3
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("directions", torch.zeros(size, components))
        self.register_buffer("usual", torch.ones(()))

    def fit(self, data: Tensor) -> None:
        """Find mean, components and usual contrast of records `data`."""
        flat = data.detach().flatten(1).float()
        components = self.directions.shape[1]
        self.mean.copy_(flat.mean(0))
        some = flat[:: -(-len(flat) // FITTED_ON)] - self.mean
        if components >= min(some.shape):
            raise ConfigError(
                f"{len(some)} records of {some.shape[1]} numbers have no {components} components to take away",
                where="keystone.veil",
                remedy=f"give at most {min(some.shape) - 1}",
            )
        # Fewer records than numbers or the other way round, the smaller product has all there is to know.
        if len(some) < some.shape[1]:
            _, vectors = torch.linalg.eigh(some @ some.mT)
            found = some.mT @ vectors[:, len(some) - components :]
        else:
            _, vectors = torch.linalg.eigh(some.mT @ some)
            found = vectors[:, some.shape[1] - components :]
        # Where records repeat themselves, the last of the components are rounding errors and lie askew to the first.
        # What is taken away twice is not away: all must be at right angles.
        self.directions.copy_(torch.linalg.qr(found)[0])
        self.usual.copy_((some - (some @ self.directions) @ self.directions.mT).std().clamp_min(LEAST))

    def forward(self, x: Tensor) -> Tensor:
        """Return what is left of records `x`."""
        with torch.autocast(x.device.type if not x.is_meta else "cpu", enabled=False):
            rest = self.rest(x)
            if self._levels:
                rest = rest / (rest.std(1, keepdim=True) + FLOOR * self.usual)
            return rest.view_as(x)

    def rest(self, x: Tensor) -> Tensor:
        """Return flat records without mean and components, at their own contrast."""
        rest = x.float().flatten(1) - self.mean
        return rest - (rest @ self.directions) @ self.directions.mT


def keystone(wide: Shape, channels: int, grid: int) -> nn.Sequential:
    """Return the layers that make of a representation of shape `wide` a few numbers of deviation 1.

    Maps pass residual blocks, twice as wide and half as large each, then all that falls into one of a few places is
    averaged: little room is left for what lies where. What is uploaded is a vector: convolutions have nothing to find
    in two places, and learned far worse from them than a perceptron does. Vectors pass a linear layer alone, and a norm
    by earlier batches: with one over the batch less was learned from a party that knows little of the label
    (Diabetes-130), and more where it knows much (Adult).

    Args:
        wide: shape of the representation.
        channels: numbers for each place.
        grid: places along the longer side of a map.
    """
    if len(wide) == 1:
        return nn.Sequential(Dense(wide[0], channels, bias=False), RunningNorm(channels, MEMORY))
    layers: list[nn.Module] = []
    width, height, breadth = wide
    while max(height, breadth) > SMALL:
        wider = min(2 * width, max(width, WIDEST))
        layers.append(BasicBlock(width, wider, stride=2))
        width, height, breadth = wider, -(-height // 2), -(-breadth // 2)
    places = _places((height, breadth), grid)
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(places),
        nn.Conv2d(width, channels, 1, bias=False),
        unit_norm((channels, *places)),
        nn.Flatten(),
    )


def _places(sides: Sequence[int], grid: int) -> tuple[int, int]:
    """Return how many places there are along each side: in proportion, and at least one.

    >>> _places((8, 4), 2), _places((8, 8), 2), _places((4, 1), 8)
    ((2, 1), (2, 2), (4, 1))
    """
    longest = max(sides)
    height, width = (max(1, round(min(grid, longest) * side / longest)) for side in sides)
    return height, width
