"""Plain Gaussian noise on the representation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.strength import number


@DEFENSES.register("gaussian")
class Gaussian(Defense):
    """Plain Gaussian noise of scale `sigma` on every upload, in training and in prediction.

    Plain noise claims nothing: without a bound on the representation it has no sensitivity, hence no privacy
    guarantee, and `spend` returns None. The noise is fresh for every upload, so it averages out over many uploads
    of one record. The gradient passes unchanged.

    Args:
        sigma: standard deviation of the noise, in units of the representation.
    """

    name: ClassVar[str] = "gaussian"

    def __init__(self, sigma: float = 1.0) -> None:
        super().__init__()
        self.sigma = number("gaussian.sigma", sigma, at_least=0)

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation plus noise."""
        return self._noisy(h, self.generator)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return fresh noise of the same scale."""
        generator = self.imitators_stream()
        return lambda h: self._noisy(h, generator)

    def describe(self) -> dict[str, Any]:
        """Return the name and the noise scale."""
        return {"name": self.name, "sigma": self.sigma}

    def _noisy(self, h: Tensor, generator: torch.Generator) -> Tensor:
        # Drawn where the stream lives: the same seed gives the same noise wherever the representation is.
        return h + self.sigma * torch.randn(h.shape, generator=generator, device=generator.device).to(h)
