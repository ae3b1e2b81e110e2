"""The two modules that PyTorch lacks: a linear layer that takes maps, and the basic residual block."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


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
