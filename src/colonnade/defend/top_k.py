"""Only the largest entries of a representation are uploaded."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.defend.compression import FLOAT_BYTES, Compression
from colonnade.defend.prune import pruned
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share


@DEFENSES.register("top_k")
class TopK(Compression):
    """Top-k compression: each record uploads its entries of largest magnitude, and zeros elsewhere.

    The compression of C-VFL, taken as a privacy baseline: what `prune` does, named by the share that is kept. At least
    one entry always is; gradients reach only what was sent. C-VFL keeps the same entries for a whole batch, those
    whose gradient was largest before, and as many as fill the bits of its quantiser with 4, 8 or 16 levels, which are
    2, 3 or 4 bits of 32. Here every record keeps its own largest, so the places tell of the record too.

    Args:
        kept: share of the entries that is uploaded.
        feedback: send what is left out later, see `Compression`.
    """

    name: ClassVar[str] = "top_k"
    knob: ClassVar[str | None] = "kept"
    published_strengths: ClassVar[tuple[float, ...]] = (4 / 32, 3 / 32, 2 / 32)

    def __init__(self, kept: float = 0.1, feedback: bool = False) -> None:
        super().__init__(feedback)
        self.kept = share("top_k.kept", kept)

    def compressed(self, h: Tensor, generator: torch.Generator) -> Tensor:
        """Return the largest entries."""
        return pruned(h, self._count(h[0].numel()))

    def message_bytes(self, entries: int) -> int:
        """Return the size of a record's message: its values, and their places in whichever way is shorter.

        k values of 4 bytes; then k numbers of ⌈log2 D⌉ bits each, or one bit for each of the D entries. The published
        counts leave the places out.

        >>> TopK(kept=0.1).message_bytes(100), TopK(kept=0.5).message_bytes(100)
        (49, 213)
        """
        count = self._count(entries)
        place_bits = min(entries, count * math.ceil(math.log2(entries)))
        return FLOAT_BYTES * count + math.ceil(place_bits / 8)

    def _count(self, entries: int) -> int:
        # Just below, because 0.07 of 100 is 7.000...1 in floats.
        return max(1, math.ceil(self.kept * entries - 1e-9))
