"""Gaussian noise on the representation, with or without a guarantee."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

from colonnade.defend.accounting import gaussian_multiplier
from colonnade.defend.noise import NoiseKind
from colonnade.defend.private_release import PrivateRelease
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share
from colonnade.errors import ConfigError


@DEFENSES.register("dp_gaussian")
class GaussianPrivacy(PrivateRelease):
    """Gaussian noise: (ε, δ)-differential privacy of each upload against whoever receives it, or the published noise.

    `calibrated` clips each representation to the L2 norm C and adds the least noise that makes one release
    (ε, δ)-private at a sensitivity of 2C. The guarantee is for the whole record; at ε = 1 each single entry gets noise
    of seven times the norm of a typical representation. On the handwritten digits (perceptron, ten epochs, one seed)
    ε = 3 leaves an accuracy of 0.13 and ε = 100, which ten epochs add up to 699, leaves 0.96; undefended 0.95.
    `paper` adds noise of deviation sqrt(2 ln(1.25/δ))/ε to the representation as it is, as published comparisons do.
    Nothing bounds a representation, so this claims nothing, whatever its ε is called.

    Args:
        epsilon: ε of one release; the account adds up over epochs.
        delta: δ of one release, and of the account.
        mode: `calibrated` or `paper`.
        memoise: the same noise each time a record is uploaded; averaging no longer helps, and no guarantee is claimed.
    """

    name: ClassVar[str] = "dp_gaussian"
    kind: ClassVar[NoiseKind] = "gaussian"
    order: ClassVar[int] = 2
    cost: ClassVar[str] = "1.7 x an undefended step calibrated, which clips first; 1.1 x as paper"

    def __init__(
        self, epsilon: float = 1.0, delta: float = 1e-5, mode: str = "calibrated", memoise: bool = False
    ) -> None:
        super().__init__(epsilon, mode, memoise)
        self.delta = share("dp_gaussian.delta", delta)
        if not 0 < self.delta < 1:
            remedy = "give a number between 0 and 1, such as 1e-5"
            raise ConfigError(f"{delta!r} is not allowed", where="dp_gaussian.delta", remedy=remedy)

    def multiplier(self) -> float:
        """Return the noise's deviation at a sensitivity of 1."""
        return self._multiplier

    def describe(self) -> dict[str, Any]:
        """Return the name, ε, δ and how the noise is drawn."""
        return {**super().describe(), "delta": self.delta}

    @cached_property
    def _multiplier(self) -> float:
        if self.mode == "calibrated":
            return gaussian_multiplier(self.epsilon, self.delta)
        return math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon
