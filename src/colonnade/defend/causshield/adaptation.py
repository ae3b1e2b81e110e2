"""The causal module: generator and masker at work on one batch and its surrogates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from colonnade.checkpoint import named, under
from colonnade.defend.causshield.decomposition import as_samples, decomposition_loss
from colonnade.defend.causshield.generator import Generator
from colonnade.defend.causshield.masker import Masker
from colonnade.defend.causshield.moments import load_moments, moments
from colonnade.defend.causshield.recording import Recording
from colonnade.nets.shapes import Shape

GRADIENT_MEMORY = 0.9
"""How much of the mean gradient so far a new batch leaves."""


@dataclass(frozen=True)
class AdaptationSettings:
    """What the generator minimises and how; the arguments of `CausShield` of the same names."""

    learning_rate: float
    share: float
    dec_mode: str
    dec_weight: float
    dimensions: str
    mask_source: str
    mask_weight: float
    mask_share: float
    faithful: bool
    cuda_graph: bool


class Adaptation:
    """Adapts a copy of the bottom to batches (Eq. 11-19).

    Args:
        bottom: the bottom model, which is only read.
        shape: shape of one representation.
        settings: what is minimised.
        seed: the masker's first weights come from it.

    Attributes:
        generator: the copy.
        shift: how far the last adaptation took its weights from the bottom's.
        decomposition: l_Dec at the last step.
    """

    def __init__(self, bottom: nn.Module, shape: Shape, settings: AdaptationSettings, seed: int) -> None:
        self.settings = settings
        self.bottom_weights = list(bottom.parameters())
        self.generator = Generator(bottom, settings.learning_rate)
        self.shift: list[Tensor] = [torch.zeros_like(weight) for weight in self.bottom_weights]
        device = self.bottom_weights[0].device
        self.decomposition = torch.zeros((), device=device)
        self._masker = None
        if settings.mask_source != "none":
            self._masker = Masker(shape, settings.mask_share, seed, device)
        self._gradient: Tensor | None = None
        self._recording: Recording | None = None
        self._can_record = settings.cuda_graph and device.type == "cuda"

    def start(self, shift: Sequence[Tensor] | None = None) -> None:
        """Give the generator the bottom's weights and a fresh optimiser; with a `shift`, go on from there instead."""
        self.generator.restart(self.bottom_weights, shift)
        if shift is None:
            self.generator.forget_steps()

    def take_steps(self, x: Tensor, surrogate: Tensor, rounds: int, noise: torch.Generator) -> None:
        """Take `rounds` steps for records `x` and their surrogates; the masker draws from `noise`."""
        count = max(2, math.ceil(self.settings.share * len(x)))
        x, surrogate = x[:count], surrogate[:count]
        if len(x) < 2:  # a single record correlates with nothing
            return
        if self._masker is not None:
            self._masker.freeze(True)
        step = self._step_for(x, surrogate)
        for number in range(rounds):
            raw, altered = step()
            if self._masker is not None and (self.settings.faithful or number == rounds - 1):
                self._teach(self._masker, raw, altered, noise)

    def keep_shift(self) -> None:
        """Note where the generator now stands, seen from the bottom."""
        self.shift = self.generator.shift_from(self.bottom_weights)

    def note_gradient(self, grad: Tensor) -> None:
        """Add a batch to the mean size of the task's gradient in each dimension."""
        size = grad.detach().abs().transpose(0, 1).flatten(1).mean(1)
        if self._gradient is None:
            self._gradient = size
        else:
            self._gradient = GRADIENT_MEMORY * self._gradient + (1 - GRADIENT_MEMORY) * size

    def loss(self, raw: Tensor, altered: Tensor) -> Tensor:
        """Return what the generator minimises (Eq. 19): lambda l_Dec plus the weighted shortfall of the scores."""
        raw, altered = raw.float(), altered.float()
        dimensions = self.settings.dimensions
        decomposition = decomposition_loss(
            as_samples(raw, dimensions), as_samples(altered, dimensions), self.settings.dec_mode
        )
        self.decomposition = decomposition.detach()
        loss = self.settings.dec_weight * decomposition
        if self._masker is None or self.settings.mask_weight == 0:
            return loss
        return loss + self.settings.mask_weight * self._masker.shortfall(raw)

    def state_dict(self) -> dict[str, Tensor]:
        """Return shift, running statistics and moments of the generator, the masker and the mean gradient."""
        state = {
            **named("shift", {str(place): tensor for place, tensor in enumerate(self.shift)}),
            **named("buffers", dict(self.generator.network.named_buffers())),
            **named("moments", moments(self.generator.optimizer)),
        }
        if self._masker is not None:
            state |= named("masker", self._masker.state_dict())
        if self._gradient is not None:
            state["gradient"] = self._gradient
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        shift = under("shift", state)
        self.shift = [shift[str(place)].to(old) for place, old in enumerate(self.shift)]
        self.generator.network.load_state_dict(under("buffers", state), strict=False)
        load_moments(self.generator.optimizer, under("moments", state))
        if self._masker is not None:
            self._masker.load_state_dict(under("masker", state))
        self._gradient = state["gradient"].to(self.shift[0].device) if "gradient" in state else None
        self._recording = None  # it would write to the moments that were just replaced

    def _teach(self, masker: Masker, raw: Tensor, altered: Tensor, noise: torch.Generator) -> None:
        upper = None
        if self.settings.mask_source == "grad":
            if self._gradient is None:  # nothing is known before the first answer
                return
            upper = torch.zeros_like(self._gradient)
            upper[self._gradient.topk(masker.count).indices] = 1.0
        masker.learn(raw.float(), altered.float(), noise, upper)
        masker.freeze(True)

    def _step_for(self, x: Tensor, surrogate: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
        """Return one adaptation step for this batch: a recorded one where that was asked for and can be done."""
        if self._can_record and self._recording is None:
            before = self.generator.snapshot()
            try:
                self._recording = Recording(self.generator, self.loss, x, surrogate)
                self._recorded_decomposition = self.decomposition
            except RuntimeError:
                self._can_record = False
            self.generator.restore(before)
        if self._recording is not None and self._recording.fits(x):
            self._recording.load(x, surrogate)
            self.decomposition = self._recorded_decomposition
            return self._recording.step
        return lambda: self.generator.adapt(x, surrogate, self.loss)
