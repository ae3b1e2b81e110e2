"""Modules that PyTorch lacks: a linear layer that takes maps, the basic residual block, a norm for any batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm


class Dense(nn.Linear):
    """A linear layer that flattens what it is given; so flattening never counts as a module."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for maps or vectors `x`."""
        return super().forward(x.flatten(1))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al. 2016), counted as one module."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for maps `x`."""
        h = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(h)) + self.shortcut(x))


class UnitNorm(_BatchNorm):
    """A batch norm that takes a single value too, by its running statistics: a batch may overlap in one record."""

    def forward(self, x: Tensor) -> Tensor:
        """Return entries of mean 0 and deviation 1."""
        if self.training and x.numel() == x.shape[1]:
            return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(x)

    def _check_input_dim(self, input: Tensor) -> None:
        """Vectors and maps are alike to it."""


class RunningNorm(UnitNorm):
    """A norm of vectors by what batches so far were like, in training too; gradients do not flow through it.

    So a record's number hangs on the others of its batch no more than `momentum` allows.

    Args:
        features: numbers of a vector.
        momentum: how much of what earlier batches were like a new one replaces.
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, features: int, momentum: float) -> None:
        super().__init__(features, affine=False)
        self._momentum = momentum

    def forward(self, x: Tensor) -> Tensor:
        """Return entries of mean 0 and deviation 1, as far as this batch is like those before it.

        Who took its memory away, as an attacker does with a clone, has a norm by the batch alone.
        """
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return functional.batch_norm(x, None, None, training=True, eps=self.eps)
        if self.training and len(x) > 1:
            with torch.no_grad():
                # The function, not the module: every step of a small network waits for what a module does around it.
                functional.batch_norm(
                    x, self.running_mean, self.running_var, training=True, momentum=self._momentum, eps=self.eps
                )
                self.num_batches_tracked.add_(1)
        # A fresh factor: the next batch may come before this one's gradients are back.
        return (x - self.running_mean) * torch.rsqrt(self.running_var + self.eps)


def unit_norm(shape: Sequence[int]) -> nn.Module:
    """Return a batch norm without weights of its own for representations of `shape`: vectors or maps."""
    return UnitNorm(shape[0], affine=False)
