"""Representations hashed to a few bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.nets.shapes import upload_shape
from colonnade.nets.weights import initialised
from colonnade.strength import number


@DEFENSES.register("hashvfl")
class HashVFL(Defense):
    """HashVFL: a linear layer to a few values, batch normalisation, and only their signs are uploaded.

    Gradients pass the sign as if it were not there. A feature map keeps its places, so that the top model still finds
    a map, and every place is hashed to `bits` bits; cut after the average pooling, this is the published form with one
    code a record. The published loss also draws the codes of each class towards a random target. A passive party has
    no labels for that; the active party could evaluate the term on the codes that it receives and return its gradient
    with the task's, but that is not built.

    Args:
        bits: length of the code; published with 4, and 2 to the power of it should not be below the number of classes.
    """

    name: ClassVar[str] = "hashvfl"
    knob: ClassVar[str | None] = "bits"
    published_strengths: ClassVar[tuple[float, ...]] = (4,)
    cost: ClassVar[str] = "one linear layer"

    def __init__(self, bits: int = 16) -> None:
        super().__init__()
        self.bits = int(number("hashvfl.bits", bits, at_least=1, whole=True))

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Append the layers whose signs are the code."""
        shape = upload_shape(bottom, input_shape)
        seed = int(torch.randint(2**62, (), generator=self.generator, device=self.generator.device))
        return nn.Sequential(bottom, initialised(lambda: _hash_layers(shape, self.bits), seed))

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the code, each bit -1 or 1."""
        return signs(h)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the signs: the layers before them belong to the bottom model."""
        return signs

    def describe(self) -> dict[str, Any]:
        """Return the name and the length of the code."""
        return {"name": self.name, "bits": self.bits}


def signs(h: Tensor) -> Tensor:
    """Return -1 or 1 for each entry, with the gradient of the entry itself.

    >>> signs(torch.tensor([-0.2, 0.0, 3.0]))
    tensor([-1.,  1.,  1.])
    """
    # h minus itself is exactly zero, so the bits are exact.
    return torch.where(h >= 0, 1.0, -1.0).to(h) + (h - h.detach())


def _hash_layers(shape: tuple[int, ...], bits: int) -> nn.Sequential:
    if len(shape) == 3:
        return nn.Sequential(nn.Conv2d(shape[0], bits, kernel_size=1), nn.BatchNorm2d(bits))
    return nn.Sequential(nn.Linear(shape[0], bits), nn.BatchNorm1d(bits))
