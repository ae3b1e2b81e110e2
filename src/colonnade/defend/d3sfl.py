"""Inspired by D3SFL: each record is uploaded through a random, sparse choice of channels of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.defend.adversary import LearnedDefense, Learner, slope
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share
from colonnade.nets.blocks import Dense
from colonnade.nets.shapes import upload_shape
from colonnade.nets.weights import initialised
from colonnade.strength import number

LEARNING_RATE = 1e-3
WIDTH = 64


@DEFENSES.register("d3sfl")
class D3SFL(LearnedDefense):
    """Inspired by D3SFL (2025), of which only the abstract could be read: channels are kept or dropped at random.

    A gate reads the representation and gives every channel (every feature of a vector) of every record a chance to be
    kept; the dice fall anew for each upload, in training and in prediction. Bottom and gate learn the task against a
    local decoder (`weight` x its squared error, capped at that of the mean guess); the gate also keeps the mean share
    of dropped channels at `sparsity`. No claim of the original is claimed for this.

    Args:
        weight: of the local decoder (beta).
        sparsity: share of channels that are dropped.
    """

    name: ClassVar[str] = "d3sfl"
    knob: ClassVar[str | None] = "weight"
    published_strengths: ClassVar[tuple[float, ...]] = ()
    cost: ClassVar[str] = "2.8 x an undefended step: a step of a decoder, a pass through it, a step of a small gate"

    def __init__(self, weight: float = 1.0, sparsity: float = 0.4) -> None:
        super().__init__()
        self.weight = number("d3sfl.weight", weight, at_least=0)
        self.sparsity = share("d3sfl.sparsity", sparsity)

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Make the gate and the local decoder; the bottom stays as it is."""
        shape = upload_shape(bottom, input_shape)
        network = initialised(
            lambda: nn.Sequential(Dense(shape[0], WIDTH), nn.ReLU(), Dense(WIDTH, shape[0])), self.new_seed()
        )
        self.learners["gate"] = Learner(network, self.generator.device, LEARNING_RATE)
        self.hire_adversary(shape, input_shape, LEARNING_RATE)
        return bottom

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation with some channels dropped."""
        chances = self._chances(h)
        dice = torch.rand(chances.shape, generator=self.generator, device=self.generator.device)
        kept = (dice < chances).float()
        # Straight through: 0 or 1 on the way out, the chance itself on the way back.
        kept = kept + chances - chances.detach()
        return h * kept.view(*kept.shape, *[1] * (h.dim() - 2)).to(h)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Teach the decoder, then bottom and gate: the task against the decoder, and sparsity."""
        self.adversary.learn(upload, x)
        total = grad - self.weight * slope(lambda upload: self.adversary.capped_error(upload, x), upload)
        (to_bottom,) = torch.autograd.grad(upload, h, total, retain_graph=True)
        excess = self._chances(h).mean() - (1 - self.sparsity)
        # One scalar whose gradient is that of the whole: `total` carried through the upload, and the gate's sparsity.
        self.learners["gate"].descend((upload * total).sum() + excess**2)
        h.backward(to_bottom)  # type: ignore[no-untyped-call]

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the same share of channels dropped at random, each with the same chance."""
        generator = self.imitators_stream()

        def drop(h: Tensor) -> Tensor:
            kept = (torch.rand(h.shape[:2], generator=generator) >= self.sparsity).to(h)
            return h * kept.view(*kept.shape, *[1] * (h.dim() - 2))

        return drop

    def describe(self) -> dict[str, Any]:
        """Return the name, the decoder's weight and the share of dropped channels."""
        return {"name": self.name, "weight": self.weight, "sparsity": self.sparsity}

    def _chances(self, h: Tensor) -> Tensor:
        """Return each channel's chance to be kept; the gate's reading does not teach the bottom."""
        seen = h.detach().float().flatten(2).mean(2) if h.dim() > 2 else h.detach().float()
        return torch.sigmoid(self.learners["gate"](seen, train=True).float())
