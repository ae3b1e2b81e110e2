"""Inf2Guard: uploads that share little information with records, as a local critic estimates it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.defend.adversary import LearnedDefense, Learner, slope
from colonnade.defend.noise import NoiseSource
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share
from colonnade.nets.blocks import Dense
from colonnade.nets.shapes import Shape, upload_shape
from colonnade.nets.weights import initialised
from colonnade.strength import number

LEARNING_RATE = 1e-3
CRITIC_STEPS = 3
MOMENTUM = 0.1
"""Share of the newest batch in the running scale of the representation."""


@DEFENSES.register("inf2guard")
class Inf2Guard(LearnedDefense):
    """Inf2Guard (Noorbakhsh et al. 2024), against reconstruction: noise, and less mutual information with records.

    A local critic learns to tell a record's own upload from another's; how well it can is an estimate of their mutual
    information. The bottom learns `task` x task + (1 - `task`) x information. (The released code lets the bottom
    *raise* the information together with the critic; here it lowers it, as the paper's text says.)
    The noise is fresh for every upload, in training and in prediction, so it averages out over many of them.

    Args:
        task: share of the task in what the bottom learns (lambda); less is more protection.
        sigma: standard deviation of the noise, in standard deviations of the representation.
    """

    name: ClassVar[str] = "inf2guard"
    knob: ClassVar[str | None] = "task"
    published_strengths: ClassVar[tuple[float, ...]] = (0.4, 0.6, 0.75)
    cost: ClassVar[str] = "3.1 x an undefended step: three steps of a small critic"

    def __init__(self, task: float = 0.6, sigma: float = 0.5) -> None:
        super().__init__()
        self.task = share("inf2guard.task", task)
        self.sigma = number("inf2guard.sigma", sigma, at_least=0)
        self._noise = NoiseSource("gaussian", memoise=False)
        self._scale = torch.zeros(())
        self._sum, self._count = torch.zeros(()), 0

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Make the critic; the bottom stays as it is."""
        shape, device = upload_shape(bottom, input_shape), self.generator.device
        network = initialised(lambda: _Critic(input_shape, math.prod(shape)), self.new_seed())
        self.learners["critic"] = Learner(network, device, LEARNING_RATE)
        self._scale, self._sum = torch.zeros((), device=device), torch.zeros((), device=device)
        return bottom

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation plus noise in proportion to its scale."""
        if train:
            scale = h.detach().float().std()
            self._scale = torch.where(self._scale > 0, torch.lerp(self._scale, scale, MOMENTUM), scale)
        return h + (self.sigma * self._scale).to(h) * self._noise.draw(x, h, self.generator)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Let the critic raise its estimate of the information, then the bottom lower it."""
        if len(x) < 2:  # one record has no other to be told from
            upload.backward(self.task * grad)  # type: ignore[no-untyped-call]
            return
        critic, seen = self.learners["critic"], upload.detach()
        for _ in range(CRITIC_STEPS):
            information = _information(critic, x, seen)
            critic.descend(-information)
        self._sum, self._count = self._sum + information.detach(), self._count + 1
        local = slope(lambda upload: _information(critic, x, upload), upload)
        upload.backward(self.task * grad + (1 - self.task) * local)  # type: ignore[no-untyped-call]

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return noise of the same kind, in proportion to the scale of what it is given."""
        generator = self.imitators_stream()
        return lambda h: h + self.sigma * h.std() * self._noise.draw(h, h, generator)

    def meters(self) -> dict[str, float]:
        """Return the critic's estimate of the information: -2 ln 2 where it finds none, 0 where uploads tell all."""
        if not self._count:
            return {}
        mean = (self._sum / self._count).item()
        self._sum, self._count = torch.zeros_like(self._sum), 0
        return {"information": mean}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the stream, the critic, the scale of the representation and what the meter has added up."""
        meter = torch.stack([self._sum, torch.full_like(self._sum, self._count)])
        return {**super().state_dict(), "scale": self._scale, "meter": meter}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._scale = state["scale"].to(self._scale)
        if "meter" in state:  # an older version kept none
            self._sum, self._count = state["meter"][0].to(self._sum), int(state["meter"][1])

    def describe(self) -> dict[str, Any]:
        """Return the name, the task's share and the noise."""
        return {"name": self.name, "task": self.task, "sigma": self.sigma}


def _information(critic: Learner, x: Tensor, upload: Tensor) -> Tensor:
    """Return the Jensen-Shannon estimate; a record with another's upload stands for independence."""
    together = critic(x, upload, train=True)
    apart = critic(x, upload.roll(1, dims=0), train=True)
    return -functional.softplus(-together).mean() - functional.softplus(apart).mean()


class _Critic(nn.Module):
    """Reads a record (images through five channels of a convolution) and an upload; returns one number."""

    def __init__(self, record: Shape, upload_size: int) -> None:
        super().__init__()
        self.eye: nn.Module = nn.Identity()
        size = math.prod(record)
        if len(record) == 3:
            self.eye, size = nn.Sequential(nn.Conv2d(record[0], 5, 3, padding=1), nn.ReLU()), 5 * record[1] * record[2]
        self.judge = nn.Sequential(Dense(size + upload_size, 64), nn.ReLU(), Dense(64, 1))

    def forward(self, x: Tensor, upload: Tensor) -> Tensor:
        output: Tensor = self.judge(torch.cat([self.eye(x).flatten(1), upload.flatten(1)], dim=1))
        return output
