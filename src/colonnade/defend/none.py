"""No defense: what every table needs as its first row."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES


@DEFENSES.register("none")
class NoDefense(Defense):
    """No protection: the representation itself is uploaded."""

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return what anybody can do to a representation here: nothing."""
        return lambda representation: representation
