"""Optimisers whose learning rate is a function of the step and whose state is plain tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from colonnade.federation.task import OptimizerSettings

STEP_DROPS = (0.5, 0.75)  # schedule "step": divide by ten after these shares of the training


def learning_rate(settings: OptimizerSettings, step: int, steps_per_epoch: int, epochs: int) -> float:
    """Return the learning rate of `step`; no scheduler object, so nothing to save and nothing to lose.

    >>> learning_rate(OptimizerSettings(learning_rate=0.1, schedule="cosine"), 100, 10, 10)
    0.0
    """
    total, warmup = steps_per_epoch * epochs, steps_per_epoch * settings.warmup
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(total - warmup, 1)
    if settings.schedule == "cosine":
        return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
    if settings.schedule == "step":
        return float(settings.learning_rate * 0.1 ** sum(progress >= drop for drop in STEP_DROPS))
    return settings.learning_rate


class Optimizer:
    """One party's optimiser over its own weights."""

    def __init__(self, parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> None:
        kept = self._parameters = list(parameters)
        rate, decay = settings.learning_rate, settings.weight_decay
        self._inner: torch.optim.Optimizer
        if settings.name == "sgd":
            self._inner = torch.optim.SGD(kept, lr=rate, momentum=settings.momentum, weight_decay=decay, fused=True)
        elif settings.name == "adam":
            self._inner = torch.optim.Adam(kept, lr=rate, weight_decay=decay, fused=True)
        else:
            self._inner = torch.optim.AdamW(kept, lr=rate, weight_decay=decay, fused=True)

    def zero_grad(self) -> None:
        """Forget the gradients of the step before."""
        for parameter in self._parameters:  # what zero_grad does, without its bookkeeping: this runs at every step
            parameter.grad = None

    def step(self, rate: float) -> None:
        """Move the weights at learning rate `rate`."""
        for group in self._inner.param_groups:
            group["lr"] = rate
        self._inner.step()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the moments as named tensors."""
        state = self._inner.state_dict()["state"]
        return {
            f"{index}/{name}": value
            for index, entry in state.items()
            for name, value in entry.items()
            if value is not None
        }

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            index, name = key.split("/", 1)
            parameter = self._parameters[int(index)]
            # Moments must lie in memory as their weights do, which files do not tell.
            laid = (
                torch.empty_like(parameter, dtype=value.dtype).copy_(value) if value.shape == parameter.shape else value
            )
            state.setdefault(int(index), {})[name] = laid
        self._inner.load_state_dict({"state": state, "param_groups": self._inner.state_dict()["param_groups"]})
