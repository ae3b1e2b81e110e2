"""A filter that closes channels the task has no use for."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share
from colonnade.nets.shapes import upload_shape
from colonnade.strength import number


@DEFENSES.register("prifu")
class PriFU(Defense):
    """PriFU: normalised channels with a learned weight each; those whose weight falls behind the largest are closed.

    Every weight shrinks a little at each step unless the task's gradient holds it up. It protects only once weights
    have separated, late in training, and only as far as channels do close: watch `channels_open` in the log (after ten
    epochs on the handwritten digits, with Adam, all were still open). Published
    for whole networks and SGD with a learning rate of 0.1, inside every normalisation; here it is one filter behind the
    bottom model. An adaptive optimiser such as Adam makes the decay count for more than the published size of it.
    A closed channel gets no gradient any more and stays closed, also one that the task needs but whose weight was first
    pushed the wrong way: the rule loses such channels, as published.

    Args:
        threshold: a channel is open while its weight exceeds this share of the largest one.
        decay: share of the weight that is added to its gradient.
    """

    name: ClassVar[str] = "prifu"
    knob: ClassVar[str | None] = "threshold"
    published_strengths: ClassVar[tuple[float, ...]] = (0.1,)
    cost: ClassVar[str] = "1.1 x an undefended step: a normalisation and a filter"

    def __init__(self, threshold: float = 0.1, decay: float = 1e-3) -> None:
        super().__init__()
        self.threshold = share("prifu.threshold", threshold)
        self.decay = number("prifu.decay", decay, at_least=0)
        self._filter: ChannelFilter | None = None

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Append the normalisation and the filter."""
        shape = upload_shape(bottom, input_shape)
        self._filter = ChannelFilter(shape[0], self.threshold)
        norm = nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d
        return nn.Sequential(bottom, norm(shape[0], affine=False), self._filter)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Carry the gradient into the bottom model, and let the filter's weights decay."""
        super().backward(x, h, upload, grad)
        assert self._filter is not None and self._filter.weight.grad is not None
        self._filter.weight.grad += self.decay * self._filter.weight.detach()

    def meters(self) -> dict[str, float]:
        """Return the share of channels that is open now."""
        return {} if self._filter is None else {"channels_open": self._filter.open().float().mean().item()}

    def describe(self) -> dict[str, Any]:
        """Return the name, the threshold and the decay."""
        return {"name": self.name, "threshold": self.threshold, "decay": self.decay}


class ChannelFilter(nn.Module):
    """Scales and shifts each channel; closed channels upload their shift alone."""

    def __init__(self, channels: int, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        self.weight = nn.Parameter(torch.full((channels,), 0.1))
        self.bias = nn.Parameter(torch.zeros(channels))

    def open(self) -> Tensor:
        """Return which channels are open."""
        weight = self.weight.detach()
        return weight > self.threshold * weight.max()

    def forward(self, h: Tensor) -> Tensor:
        """Return the filtered representations."""
        each_channel = (1, -1, *[1] * (h.dim() - 2))
        weight = self.weight * self.open()
        return h * weight.view(each_channel) + self.bias.view(each_channel)
