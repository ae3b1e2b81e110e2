"""U-Net-S: the small network that guesses one part of an image (colour, brightness) from another, pixel by pixel."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.nets.weights import initialised

WIDTHS = (32, 64, 128)


class UNetSmall(nn.Module):
    """Two strides down, two steps up with skip connections, one output vector for each pixel.

    Maps of any size will do: on the way up a map grows to the size that it had on the way down.

    Args:
        channels_in: channels of the input.
        channels_out: channels of the output.
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        first, second, third = WIDTHS
        self.enter = _conv(channels_in, first)
        self.down1 = _conv(first, second, stride=2)
        self.down2 = nn.Sequential(_conv(second, third, stride=2), _conv(third, third))
        self.up1 = _conv(third + second, second)
        self.up2 = _conv(second + first, first)
        self.leave = nn.Conv2d(first, channels_out, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for maps `x`, of the same height and width."""
        whole = self.enter(x)
        half = self.down1(whole)
        quarter = self.down2(half)
        half = self.up1(torch.cat([_grown(quarter, half), half], dim=1))
        whole = self.up2(torch.cat([_grown(half, whole), whole], dim=1))
        output: Tensor = self.leave(whole)
        return output


def build_surrogate(channels_in: int, channels_out: int, *, seed: int) -> UNetSmall:
    """Return a U-Net-S whose weights are drawn from `seed`.

    >>> build_surrogate(1, 5, seed=0)(torch.zeros(2, 1, 28, 14)).shape
    torch.Size([2, 5, 28, 14])
    """
    return initialised(lambda: UNetSmall(channels_in, channels_out), seed)


def _conv(channels_in: int, channels: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
    )


def _grown(small: Tensor, like: Tensor) -> Tensor:
    return functional.interpolate(small, size=like.shape[-2:], mode="nearest")
