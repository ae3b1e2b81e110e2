"""Representations rounded to a few levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.strength import number


@DEFENSES.register("quantise")
class Quantise(Defense):
    """Dithered quantisation: each record's entries are rounded to a few levels between its smallest and its largest.

    Random dither is added before rounding and taken off again afterwards, as a receiver that shares the dither's seed
    would do: the error is then uniform, at most half a step, and independent of the entry. Each record's own smallest
    and largest entry set its range, so signs are kept. Gradients pass unchanged. The upload travels as floats: this
    measures privacy, it saves no bytes.

    Args:
        levels: how many values an entry can take; fewer is stronger.
    """

    name: ClassVar[str] = "quantise"
    knob: ClassVar[str | None] = "levels"
    published_strengths: ClassVar[tuple[float, ...]] = (4, 8, 16)

    def __init__(self, levels: int = 8) -> None:
        super().__init__()
        self.levels = int(number("quantise.levels", levels, at_least=2, whole=True))

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the rounded representation."""
        return self._quantised(h, self.generator)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the same rounding with a dither of its own."""
        generator = torch.Generator().manual_seed(0)
        return lambda h: self._quantised(h, generator)

    def describe(self) -> dict[str, Any]:
        """Return the name and the number of levels."""
        return {"name": self.name, "levels": self.levels}

    def _quantised(self, h: Tensor, generator: torch.Generator) -> Tensor:
        values = h.detach().float()
        axes = tuple(range(1, h.dim()))
        low, high = values.amin(axes, keepdim=True), values.amax(axes, keepdim=True)
        step = (high - low) / (self.levels - 1)
        dither = torch.rand(h.shape, generator=generator, device=generator.device).to(values) - 0.5
        # A record whose entries are all alike has steps of zero, and must not be divided by them.
        level = ((values - low) / torch.where(step > 0, step, 1.0) + dither).round()
        rounded = (low + step * (level - dither)).to(h)
        # h minus itself is zero: the value is the rounded one, the gradient that of h.
        return rounded + (h - h.detach())
