"""A defense in a package of its own: every number of an upload is rounded."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from colonnade.defend import Defense
from colonnade.strength import number


class Rounding(Defense):
    """Uploads rounded to multiples of `step`."""

    name: ClassVar[str] = "rounding"

    def __init__(self, step: float = 0.5) -> None:
        super().__init__()
        self.step = number("rounding.step", step, at_least=1e-6)

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the rounded representation; for the gradient it counts as the representation itself."""
        rounded = torch.round(h / self.step) * self.step
        return rounded.detach() + (h - h.detach())

    def describe(self) -> dict[str, Any]:
        """Return the name and the step, from which the defense can be made again."""
        return {"name": self.name, "step": self.step}
