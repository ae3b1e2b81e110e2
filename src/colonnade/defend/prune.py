"""Small entries of a representation stay at home."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share


def keep_largest(scores: Tensor, kept: int) -> Tensor:
    """Return a mask of the `kept` largest scores of each record, shaped like `scores`.

    >>> keep_largest(torch.tensor([[3.0, 1.0, 2.0]]), 2)
    tensor([[ True, False,  True]])
    """
    flat = scores.detach().flatten(1)
    mask = torch.zeros_like(flat, dtype=torch.bool)
    return mask.scatter_(1, flat.topk(kept, dim=1, sorted=False).indices, True).view_as(scores)


def pruned(h: Tensor, kept: int) -> Tensor:
    """Return `h` with all but the `kept` entries of largest magnitude of each record set to zero, unscaled."""
    return h * keep_largest(h.abs(), kept)


@DEFENSES.register("prune")
class Prune(Defense):
    """Pruning: the entries of smallest magnitude of each representation are set to zero, in training and prediction.

    What is kept is sent as it is, and gradients reach only what was sent. The positions that survive are themselves
    a code of the record, so a high rate hides less than it seems to.

    Args:
        rate: share of the entries that is set to zero.
    """

    name: ClassVar[str] = "prune"
    knob: ClassVar[str | None] = "rate"
    published_strengths: ClassVar[tuple[float, ...]] = (0.90, 0.95, 0.99)
    cost: ClassVar[str] = "1.1 x an undefended step: finding the largest entries"

    def __init__(self, rate: float = 0.9) -> None:
        super().__init__()
        self.rate = share("prune.rate", rate)

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the pruned representation."""
        return self._pruned(h)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the pruning: it has no secrets."""
        return self._pruned

    def describe(self) -> dict[str, Any]:
        """Return the name and the rate."""
        return {"name": self.name, "rate": self.rate}

    def _pruned(self, h: Tensor) -> Tensor:
        entries = h[0].numel()
        # Just above, because 0.29 of 100 is 28.999... in floats.
        return pruned(h, entries - math.floor(self.rate * entries + 1e-9))
