"""DISCO: a learned pruner drops the channels from which a local decoder learns most."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.defend.adversary import LearnedDefense, Learner, slope
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share
from colonnade.nets.blocks import Dense
from colonnade.nets.shapes import Shape, upload_shape
from colonnade.nets.weights import initialised

LEARNING_RATE = 3e-4
TEMPERATURE = 1 / 30
WIDTH = 64


@DEFENSES.register("disco")
class Disco(LearnedDefense):
    """DISCO (Singh et al. 2021): a pruner network turns down, record by record, the channels that tell most.

    For each batch: a local decoder learns to guess records from uploads; the bottom learns the task alone; the pruner
    learns (1 - `weight`) x task - `weight` x decoder's error. The pruner reads the representation and gives each
    channel (each feature of a vector) a score; what scores below the record's own threshold fades to zero.

    Args:
        weight: share of the adversary in what the pruner learns (rho).
        ratio: share of channels that are pruned (R).
    """

    name: ClassVar[str] = "disco"
    knob: ClassVar[str | None] = "weight"
    published_strengths: ClassVar[tuple[float, ...]] = (0.3, 0.6)
    cost: ClassVar[str] = "3.1 x an undefended step: a step of a decoder and of a pruner"

    def __init__(self, weight: float = 0.5, ratio: float = 0.6) -> None:
        super().__init__()
        self.weight = share("disco.weight", weight)
        self.ratio = share("disco.ratio", ratio)

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Make the pruner and the local decoder; the bottom stays as it is."""
        shape = upload_shape(bottom, input_shape)
        network = initialised(lambda: _pruner(shape), self.new_seed())
        self.learners["pruner"] = Learner(network, self.generator.device, LEARNING_RATE)
        self.hire_adversary(shape, input_shape, LEARNING_RATE)
        return bottom

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation with the pruned channels turned down."""
        # Detached: the pruner's reading of the representation must not teach the bottom.
        scores = self.learners["pruner"](h.detach().float(), train=train)
        return h * _mask(scores.float(), self.ratio).view(*scores.shape, *[1] * (h.dim() - 2)).to(h)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Teach the decoder, then the pruner (task against decoder), then the bottom (task alone)."""
        self.adversary.learn(upload, x)
        leak = slope(lambda upload: self.adversary.error(upload, x), upload)
        (to_bottom,) = torch.autograd.grad(upload, h, grad, retain_graph=True)
        self.learners["pruner"].descend(upload, (1 - self.weight) * grad - self.weight * leak)
        h.backward(to_bottom)  # type: ignore[no-untyped-call]

    def describe(self) -> dict[str, Any]:
        """Return the name, the adversary's share and the pruned share."""
        return {"name": self.name, "weight": self.weight, "ratio": self.ratio}


def _mask(scores: Tensor, ratio: float) -> Tensor:
    """Return each channel's factor: a steep sigmoid around the score at place `ratio` of the record's sorted scores."""
    channels = scores.shape[1]
    place = min(int(ratio * channels), channels - 1)
    threshold = scores.sort(dim=1).values[:, place, None]
    return torch.sigmoid((scores - threshold) / TEMPERATURE)


def _pruner(shape: Shape) -> nn.Sequential:
    channels = shape[0]
    if len(shape) != 3:
        return nn.Sequential(Dense(channels, WIDTH), nn.ReLU(), Dense(WIDTH, channels))
    return nn.Sequential(
        *(nn.Conv2d(channels, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU()),
        *(nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), Dense(WIDTH, channels)),
    )
