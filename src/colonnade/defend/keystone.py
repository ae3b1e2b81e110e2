"""Keystone, Colonnade's own: an upload too small, and made of too little, for any attacker to invert."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.defend.base import Defense
from colonnade.defend.noise import NoiseSource
from colonnade.defend.registry import DEFENSES
from colonnade.errors import ConfigError
from colonnade.nets.shapes import upload_shape
from colonnade.nets.veil import Veil, keystone
from colonnade.nets.weights import initialised
from colonnade.strength import number

REACH = 2.0
"""Levels lie within so many deviations."""


@dataclass(frozen=True)
class Channel:
    """What an upload consists of: numbers for each place, their noise, and how many values they can have."""

    channels: int
    sigma: float
    levels: int

    def but(self, channels: int | None, sigma: float | None, levels: int | None) -> Channel:
        """Return the same with what was chosen."""
        return Channel(
            self.channels if channels is None else channels,
            self.sigma if sigma is None else sigma,
            self.levels if levels is None else levels,
        )


PICTURES, TABLES = Channel(32, 0.1, 0), Channel(1, 0.0, 8)


@DEFENSES.register("keystone")
class Keystone(Defense):
    """Ours: four steps, of which three leave nothing that many uploads of a record could bring back.

    1. A veil takes the first `veil` principal components of the party's own pictures away, and their contrast.
    2. A coin, thrown anew for each upload, decides whether the network sees a picture or its negative. Objects are the
       same in both; no number of uploads tells which one was the record.
    3. A few residual blocks, then averages over `grid` places: where something is, is not uploaded.
    4. `channels` numbers for each place, normalised over records, under Gaussian noise. They are a channel of known
       capacity, see `capacity_bits`.

    No labels are needed: the gradients that come back train all layers. A table's records have no brightness and no
    negative, so columns pass the fourth step alone: one number a record, rounded to `levels`, instead of 32. What a
    label needs of a party is often one sum. Left unrounded, that one number tells columns of few values apart almost
    as well as 32 do, and noise on it averages out; rounding does not.

    A norm over records is no bound on one record, so no differential privacy is claimed. What is left is for an audit
    to say.

    Args:
        veil: how many principal components are taken away from pictures.
        channels: numbers for each place; None for 32 on pictures, 1 on tables.
        grid: places along the longer side of a picture.
        sigma: deviation of the noise; each channel's own deviation is 1. None for 0.1 on pictures, 0 on tables.
        levels: how many values a number can have, 0 for any; None for any on pictures, 8 on tables.
        negatives: whether the coin is thrown.
    """

    name: ClassVar[str] = "keystone"
    knob: ClassVar[str | None] = "veil"
    published_strengths: ClassVar[tuple[float, ...]] = (8, 16, 32, 64, 128)  # by nobody but us
    cost: ClassVar[str] = "a residual block or two at the party, which the top is spared"

    def __init__(
        self,
        veil: int = 32,
        *,
        channels: int | None = None,
        grid: int = 2,
        sigma: float | None = None,
        levels: int | None = None,
        negatives: bool = True,
    ) -> None:
        super().__init__()
        self.veil = int(number("keystone.veil", veil, at_least=0, whole=True))
        self.channels = None if channels is None else int(number("keystone.channels", channels, at_least=1, whole=True))
        self.grid = int(number("keystone.grid", grid, at_least=1, whole=True))
        self.sigma = None if sigma is None else number("keystone.sigma", sigma, at_least=0)
        self.levels = None if levels is None else int(number("keystone.levels", levels, at_least=0, whole=True))
        if self.levels == 1:
            raise ConfigError("one level tells nothing", where="keystone.levels", remedy="give 0, or 2 and more")
        if not isinstance(negatives, bool):
            raise ConfigError(f"{negatives!r} is not allowed", where="keystone.negatives", remedy="give true or false")
        self.negatives = negatives
        self._noise = NoiseSource("gaussian", memoise=False)
        self._veil: Veil | None = None
        self._channel = PICTURES
        self._upload_size = 0

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Put the veil before the bottom and the narrow layers behind it."""
        pictures = len(input_shape) == 3
        self._channel = (PICTURES if pictures else TABLES).but(self.channels, self.sigma, self.levels)
        wide = upload_shape(bottom, input_shape)
        seed = int(torch.randint(2**31, (1,), generator=self.generator, device=self.generator.device))
        narrow = initialised(lambda: keystone(wide, self._channel.channels, self.grid), seed)
        self._veil = Veil(input_shape, self.veil) if pictures else None
        network = nn.Sequential(*([self._veil] if self._veil else []), bottom, narrow)
        self._upload_size = math.prod(upload_shape(network, input_shape))
        return network

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Find out what the party's records have in common."""
        if self._veil is not None:
            self._veil.fit(data)

    def disguise(self, x: Tensor) -> Tensor:
        """Return each picture or its negative: the mean picture minus what sets it apart from that."""
        if self._veil is None or not self.negatives:
            return x
        device = self.generator.device
        heads = torch.randint(2, (len(x), 1), generator=self.generator, device=device).bool().to(x.device)
        flat = x.flatten(1)
        return torch.where(heads, flat, 2 * self._veil.mean - flat).view_as(x)

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the narrow representation, rounded, under noise."""
        return self._sent(h, self.generator)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the same rounding, and fresh noise of the same scale."""
        generator = torch.Generator().manual_seed(0)
        return lambda h: self._sent(h, generator)

    def capacity_bits(self, uploads: int = 1) -> float:
        """Return the most bits that so many uploads of a record can tell about it, whatever the network learns.

        Gaussian channels whose signal has power 1 carry n/2 log2(1 + uploads / sigma^2) bits: noise averages out, so
        they grow with uploads, but slowly. Power is 1 over the records of a batch, not of each record. Rounded numbers
        carry log2(levels) each, and as many again each time that the network has learned something else meanwhile.
        """
        noisy = math.log2(1 + uploads / self._channel.sigma**2) / 2 if self._channel.sigma else math.inf
        rounded = uploads * math.log2(self._channel.levels) if self._channel.levels else math.inf
        return self._upload_size * min(noisy, rounded)

    def meters(self) -> dict[str, float]:
        """Return the capacity of one upload."""
        bits = self.capacity_bits()
        return {"capacity_bits": bits} if math.isfinite(bits) else {}

    def describe(self) -> dict[str, Any]:
        """Return the name and the six arguments."""
        return {
            "name": self.name,
            "veil": self.veil,
            "channels": self.channels,
            "grid": self.grid,
            "sigma": self.sigma,
            "levels": self.levels,
            "negatives": self.negatives,
        }

    def _sent(self, h: Tensor, generator: torch.Generator) -> Tensor:
        h = rounded(h, self._channel.levels) if self._channel.levels else h
        return h + self._channel.sigma * self._noise.draw(h, h, generator) if self._channel.sigma else h


def rounded(h: Tensor, levels: int) -> Tensor:
    """Return the nearest of so many values from -2 to 2; on the way back as if nothing had happened."""
    step = 2 * REACH / (levels - 1)
    nearest = ((h.clamp(-REACH, REACH) + REACH) / step).round() * step - REACH
    return h + (nearest - h).detach()
