"""Representations rounded to a few levels."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.defend.compression import FLOAT_BYTES, Compression
from colonnade.defend.registry import DEFENSES
from colonnade.strength import number


@DEFENSES.register("quantise")
class Quantise(Compression):
    """Dithered quantisation: each record's entries are rounded to a few levels between its smallest and its largest.

    The scalar quantiser of C-VFL, with 2, 3 or 4 bits an entry. Random dither is added before rounding and taken off
    again afterwards, as a receiver that shares the dither's seed would do: the error is then uniform, at most half a
    step, and independent of the entry. C-VFL divides by the largest entry and expects none below zero; here each
    record's own smallest and largest entry set its range, so signs are kept. Gradients pass unchanged. The second
    quantiser of C-VFL, which rounds pairs of entries to a hexagonal lattice, is not built.

    Args:
        levels: how many values an entry can take; fewer is stronger.
        feedback: send what is left out later, see `Compression`.
    """

    name: ClassVar[str] = "quantise"
    knob: ClassVar[str | None] = "levels"
    published_strengths: ClassVar[tuple[float, ...]] = (4, 8, 16)

    def __init__(self, levels: int = 8, feedback: bool = False) -> None:
        super().__init__(feedback)
        self.levels = int(number("quantise.levels", levels, at_least=2, whole=True))

    def compressed(self, h: Tensor, generator: torch.Generator) -> Tensor:
        """Return the rounded representation, with the gradient of the representation."""
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

    def message_bytes(self, entries: int) -> int:
        """Return the size of a record's message: ⌈log2 levels⌉ bits an entry, and both ends of the range as floats.

        The dither's seed is agreed on once and not counted.

        >>> Quantise(levels=4).message_bytes(100)
        33
        """
        return math.ceil(entries * math.ceil(math.log2(self.levels)) / 8) + 2 * FLOAT_BYTES
