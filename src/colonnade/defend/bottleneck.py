"""Colonnade's own: a narrow, normalised, noisy upload, and a bottom that evades a local decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from colonnade.checkpoint import named, under
from colonnade.defend.adversary import LearnedDefense, slope
from colonnade.defend.noise import NoiseSource
from colonnade.defend.registry import DEFENSES
from colonnade.errors import ConfigError
from colonnade.nets.blocks import Dense, unit_norm
from colonnade.nets.shapes import Shape, upload_shape
from colonnade.nets.weights import initialised
from colonnade.strength import number, yes_or_no

LEARNING_RATE = 1e-3
OFF_DIAGONAL = 0.005
"""Weight of correlations between different channels in the invariance loss, as in CIRL."""


@DEFENSES.register("bottleneck")
class Bottleneck(LearnedDefense):
    """Ours: few channels, each normalised, under noise that bottom and top learn with, trained against a decoder.

    Behind the bottom come a linear map to `channels` channels and a batch norm without weights of its own, so that the
    network can't outgrow the noise. Noise of deviation `sigma` is added in training, so that bottom and top learn to
    work with it, and in prediction. Fresh noise averages out over the epochs for whoever keeps all
    uploads of a record. With `memoise` a record gets the same noise each time, but the top model learns records by
    their noise: on CIFAR-10 halves (8,000 records, 12 epochs, sigma 2, one seed) accuracy fell to 37 %, with fresh
    noise to 56 %, from 61 % undefended. And the difference of two uploads shows how a representation moved in between.

    A local decoder learns from each batch, and the bottom's loss gets - `adversary` x its squared error, capped at
    that of the mean guess. Keep the weight light: under a heavy one the bottom may outrun its own decoder, and a fresh
    attacker sees more. With `causal`, and `surrogates` given, channels also learn to agree between a record and
    its surrogate. A batch norm is no bound on one record: no differential privacy is claimed.

    Args:
        channels: width of the upload.
        sigma: deviation of the noise; each channel's own deviation is 1.
        memoise: whether a record's noise is the same each time it is uploaded.
        adversary: weight of the local decoder's error; 0 trains none.
        causal: weight of the agreement between records and surrogates; 0 asks for none.

    Attributes:
        surrogates: makes other records that mean the same, a batch from a batch; set it before training.
    """

    name: ClassVar[str] = "bottleneck"
    knob: ClassVar[str | None] = "sigma"
    published_strengths: ClassVar[tuple[float, ...]] = (1.0, 2.0, 3.0)  # by nobody but us
    cost: ClassVar[str] = (
        "2.5 x an undefended step: a step of a decoder and a pass through it; with causal, one more pass of the bottom"
    )

    def __init__(
        self,
        channels: int = 8,
        sigma: float = 2.0,
        memoise: bool = False,
        adversary: float = 2.0,
        causal: float = 0.0,
    ) -> None:
        super().__init__()
        self.channels = int(number("bottleneck.channels", channels, at_least=1, whole=True))
        self.sigma = number("bottleneck.sigma", sigma, at_least=0)
        self.memoise = yes_or_no("bottleneck.memoise", memoise)
        self.adversary_weight = number("bottleneck.adversary", adversary, at_least=0)
        self.causal = number("bottleneck.causal", causal, at_least=0)
        self.surrogates: Callable[[Tensor], Tensor] | None = None
        self._noise = NoiseSource("gaussian", self.memoise)
        self._bottom: nn.Module | None = None

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Append the narrow layer and make the local decoder."""
        wide = upload_shape(bottom, input_shape)
        self._bottom = nn.Sequential(bottom, initialised(lambda: _narrow(wide, self.channels), self.new_seed()))
        if self.adversary_weight > 0:
            self.hire_adversary(upload_shape(self._bottom, input_shape), input_shape, LEARNING_RATE)
        return self._bottom

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Measure the error of the mean guess."""
        if self.causal > 0 and self.surrogates is None:
            raise ConfigError(
                "the causal weight needs surrogates",
                where="bottleneck.causal",
                remedy="set the defense's attribute 'surrogates', or the weight to 0",
            )
        self._noise.renew()
        super().prepare(bottom, data)

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the narrow representation plus noise."""
        return h + self.sigma * self._noise.draw(x, h, self.generator)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Teach the decoder; then the bottom: the task, against the decoder, and alike for surrogates."""
        if self.adversary_weight > 0:
            # Fresh noise, as an attacker meets it on other records: from noise that comes again with its record, the
            # decoder would learn the records by heart.
            seen = self._fresh(h.detach().float(), self.generator)
            self.adversary.learn(seen, x)
            leak = slope(lambda seen: self.adversary.capped_error(seen, x), seen)
            grad = grad - self.adversary_weight * leak
        if self.causal > 0:
            loss = self.causal * self._disagreement(x, h)
            torch.autograd.backward([upload, loss], [grad, torch.ones_like(loss)])
        else:
            upload.backward(grad)  # type: ignore[no-untyped-call]

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return fresh noise of the same scale."""
        generator = self.imitators_stream()
        return lambda h: self._fresh(h, generator)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the stream, the noise's key and the local decoder."""
        return {**super().state_dict(), **named("noise", self._noise.state_dict())}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._noise.load_state_dict(under("noise", state))

    def describe(self) -> dict[str, Any]:
        """Return the name and the five arguments."""
        return {
            "name": self.name,
            "channels": self.channels,
            "sigma": self.sigma,
            "memoise": self.memoise,
            "adversary": self.adversary_weight,
            "causal": self.causal,
        }

    def _fresh(self, h: Tensor, generator: torch.Generator) -> Tensor:
        return h + self.sigma * NoiseSource("gaussian", memoise=False).draw(h, h, generator)

    def _disagreement(self, x: Tensor, h: Tensor) -> Tensor:
        """Return how far the channels of records and of their surrogates are from one-to-one correlation."""
        assert self._bottom is not None and self.surrogates is not None
        with _untracked(self._bottom):
            other = self._bottom(self.surrogates(x))
        correlation = _cross_correlation(_samples(h.float()), _samples(other.float()))
        same = torch.diagonal(correlation)
        loss = (same - 1).square().mean()
        if len(same) > 1:
            off = correlation.square().sum() - same.square().sum()
            loss = loss + OFF_DIAGONAL * off / (correlation.numel() - len(same))
        return loss


def _samples(h: Tensor) -> Tensor:
    """Return channels as columns; every place of a map is a sample, since surrogates keep places."""
    return h.movedim(1, -1).reshape(-1, h.shape[1])


def _cross_correlation(first: Tensor, second: Tensor) -> Tensor:
    """Return the correlation of each column of `first` with each of `second`."""
    first, second = ((part - part.mean(0)) / (part.std(0, correction=0) + 1e-6) for part in (first, second))
    return first.mT @ second / len(first)


@contextmanager
def _untracked(bottom: nn.Module) -> Iterator[None]:
    """Keep running statistics as they are: what is uploaded later are records, not surrogates."""
    norms = {norm: norm.momentum for norm in bottom.modules() if isinstance(norm, _BatchNorm)}
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in norms.items():
            norm.momentum = momentum


def _narrow(wide: Shape, channels: int) -> nn.Sequential:
    if len(wide) == 3:
        return nn.Sequential(nn.Conv2d(wide[0], channels, 1, bias=False), unit_norm((channels, *wide[1:])))
    return nn.Sequential(Dense(wide[0], channels, bias=False), unit_norm((channels,)))
