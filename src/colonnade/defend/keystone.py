"""Keystone, Colonnade's own: an upload too small, and made of too little, for any attacker to invert."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
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
from colonnade.strength import number, yes_or_no

MOST_CHANNELS, MOST_GRID, MOST_LEVELS = 4096, 1024, 65_536


@dataclass(frozen=True)
class Channel:
    """What an upload consists of.

    Attributes:
        channels: numbers for each place.
        sigma: deviation of their noise.
        levels: how many values they can have, 0 for any.
        swing: deviations at which they are cut off, if they are not rounded: no norm over other records bounds one.
    """

    channels: int
    sigma: float
    levels: int
    swing: float

    def but(self, channels: int | None, sigma: float | None, levels: int | None) -> Channel:
        """Return the same with what was chosen."""
        return Channel(
            self.channels if channels is None else channels,
            self.sigma if sigma is None else sigma,
            self.levels if levels is None else levels,
            self.swing,
        )

    @property
    def bits(self) -> float:
        """The most bits that one number can carry, whatever it stands for."""
        swing = float(values_of(self.levels)[-1]) if self.levels else self.swing
        noisy = math.log2(math.hypot(1, swing / self.sigma)) if self.sigma else math.inf
        return min(noisy, math.log2(self.levels) if self.levels else math.inf)


PICTURES, TABLES = Channel(32, 0.1, 0, 4.0), Channel(1, 0.0, 8, 2.0)


@DEFENSES.register("keystone")
class Keystone(Defense):
    """Ours: four steps, of which the first two take away what no number of uploads of a record brings back.

    1. A veil takes the first `veil` principal components of the party's own pictures away, and their contrast.
    2. A coin, thrown anew for each upload, decides whether the network sees a picture or its negative. Objects are the
       same in both; no number of uploads tells which one was the record.
    3. A few residual blocks, then averages over `grid` places: there is little room for what lies where.
    4. `channels` numbers for each place, normalised over records, cut off at four deviations, under Gaussian noise.
       They are a channel of known capacity, see `capacity_bits`.

    No labels are needed: the gradients that come back train all layers. A table's records have no brightness and no
    negative, so columns pass the fourth step alone: one number a record, rounded to `levels`, instead of 32. What a
    label needs of a party is often one sum, and noise on it averages out; rounding does not.

    A record moves the norm of its batch, and so the other records' uploads, a little: no differential privacy is
    claimed, and what those tell is not counted. What is left is for an audit to say.

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
        self.channels = None if channels is None else _whole("channels", channels, 1, MOST_CHANNELS)
        self.grid = _whole("grid", grid, 1, MOST_GRID)
        self.sigma = None if sigma is None else number("keystone.sigma", sigma, at_least=0)
        self.levels = None if levels is None else _whole("levels", levels, 0, MOST_LEVELS)
        if self.levels == 1:
            raise ConfigError("one level tells nothing", where="keystone.levels", remedy="give 0, or 2 and more")
        self.negatives = yes_or_no("keystone.negatives", negatives)
        self._noise = NoiseSource("gaussian", memoise=False)
        self._veil: Veil | None = None
        self._channel = PICTURES
        self._upload_size = 0

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Put the veil before the bottom and the narrow layers behind it."""
        pictures = len(input_shape) == 3
        # A knob that moves nothing is none: tables have no veil.
        self.knob = Keystone.knob if pictures else "levels"  # type: ignore[misc]
        self._channel = (PICTURES if pictures else TABLES).but(self.channels, self.sigma, self.levels)
        if pictures and self.veil >= math.prod(input_shape):
            what = f"pictures of {math.prod(input_shape)} numbers have no {self.veil} components to take away"
            raise ConfigError(what, where="keystone.veil", remedy=f"give less than {math.prod(input_shape)}")
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
        """Return what the veil leaves of each picture, or its negative, around the mean picture.

        The network's own veil would come too late: in between pictures may be moved, and a component that was moved by
        a pixel is none any more.
        """
        if self._veil is None:
            return x
        rest = self._veil.rest(x)
        if self.negatives:
            place = self.generator.device
            coins = torch.randint(2, (len(x), 1), generator=self.generator, device=place, dtype=rest.dtype)
            # Heads 1, tails -1; a small step waits for each call, so that there are few.
            return torch.addcmul(self._veil.mean, rest, torch.rsub(coins, -1, alpha=-2).to(rest)).view_as(x)
        return (self._veil.mean + rest).view_as(x)

    def imitated_disguise(self, known: Tensor) -> Callable[[Tensor], Tensor] | None:
        """Return the same with a veil that is fitted on `known`, where these are enough, and coins of its own."""
        if self._veil is None:
            return None
        twin = Keystone(self.veil, negatives=self.negatives)
        twin.generator = self.imitators_stream()
        twin._veil = veil = Veil(tuple(known.shape[1:]), self.veil)
        if len(known) > self.veil:
            veil.fit(known)

        def disguise(x: Tensor) -> Tensor:
            veil.to(x.device)
            return twin.disguise(x)

        return disguise

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the narrow representation, rounded, under noise."""
        return self._sent(h, self.generator)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the same rounding, and fresh noise of the same scale."""
        generator = self.imitators_stream()
        return lambda h: self._sent(h, generator)

    def capacity_bits(self, uploads: int = 1) -> float:
        """Return the most bits that so many uploads of a record can tell about it, whatever the network learns.

        A Gaussian channel whose signal has power P carries log2(1 + P / sigma^2) / 2 bits. Numbers are cut off, so P is
        at most 16 on pictures and 4 on tables, whoever trains the network and whatever the record; over a batch of
        training pictures it is 1. Rounded numbers carry log2(levels), and no more than their largest value through the
        same noise. Every upload may carry as many again: the network may have learned to tell something else meanwhile.
        """
        return uploads * self._upload_size * self._channel.bits

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
        if self._channel.levels:
            h = rounded(h, self._channel.levels)
        else:
            h = h.clamp(-self._channel.swing, self._channel.swing)
        return h + self._channel.sigma * self._noise.draw(h, h, generator) if self._channel.sigma else h


def _whole(name: str, value: Any, least: int, most: int) -> int:
    checked = int(number(f"keystone.{name}", value, at_least=least, whole=True))
    if checked > most:
        raise ConfigError(f"{value!r} is not allowed", where=f"keystone.{name}", remedy=f"give at most {most}")
    return checked


def values_of(levels: int) -> Tensor:
    """Return the values that rounded numbers can have: of a normal law, every one stands for as many records.

    >>> values_of(4)
    tensor([-1.1503, -0.3186,  0.3186,  1.1503], dtype=torch.float64)
    """
    values: Tensor = torch.special.ndtri((torch.arange(levels, dtype=torch.float64) + 0.5) / levels)
    return values


@cache
def _values_and_bounds(levels: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the values, and the numbers between which each of them stands."""
    bounds = torch.special.ndtri(torch.arange(1, levels, dtype=torch.float64) / levels)
    return values_of(levels).to(device, dtype), bounds.to(device, dtype)


def rounded(h: Tensor, levels: int) -> Tensor:
    """Return one of so many values for each number; on the way back as if nothing had happened."""
    values, bounds = _values_and_bounds(levels, h.dtype, h.device)
    nearest: Tensor = values[torch.bucketize(h.detach(), bounds)]
    # h minus itself is zero: the value is exactly one of the few, the gradient that of h.
    return nearest + (h - h.detach())
