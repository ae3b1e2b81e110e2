"""Only the largest entries of a representation are uploaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor

from colonnade.defend.base import Defense
from colonnade.defend.prune import pruned
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share


@DEFENSES.register("top_k")
class TopK(Defense):
    """Top-k compression: each record uploads its entries of largest magnitude, and zeros elsewhere.

    The compression of communication-efficient training, taken as a privacy baseline: what `prune` does, named by the
    share that is kept. At least one entry always is. No error feedback, which would send the rest later. The upload
    travels as a full tensor: this measures privacy, it saves no bytes.

    Args:
        kept: share of the entries that is uploaded.
    """

    name: ClassVar[str] = "top_k"
    knob: ClassVar[str | None] = "kept"
    published_strengths: ClassVar[tuple[float, ...]] = (0.5, 0.25, 0.1, 0.05)

    def __init__(self, kept: float = 0.1) -> None:
        super().__init__()
        self.kept = share("top_k.kept", kept)

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the largest entries."""
        return self._compressed(h)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the compression: it has no secrets."""
        return self._compressed

    def describe(self) -> dict[str, Any]:
        """Return the name and the share that is kept."""
        return {"name": self.name, "kept": self.kept}

    def _compressed(self, h: Tensor) -> Tensor:
        # Just below, because 0.07 of 100 is 7.000...1 in floats.
        return pruned(h, max(1, math.ceil(self.kept * h[0].numel() - 1e-9)))
