"""A bottom model at work: records in, uploads out, gradients back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from colonnade.defend.base import Defense
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.augment import Shifts
from colonnade.learn.checkpoint import named, under
from colonnade.learn.optimize import Optimizer
from colonnade.nets.device import on_device, precision
from colonnade.stream import Chain

Signal = Callable[[Tensor], Tensor]
"""What the task wants of an upload: its gradient there."""


@dataclass(frozen=True)
class _Pending:
    """What the way back needs: records, representation, upload."""

    x: Tensor
    h: Tensor
    upload: Tensor


class Bottom:
    """One party's bottom model, its defense and its optimiser. Whatever it returns from `upload` may leave the party.

    Args:
        network: the bottom network.
        features: all prepared records of the party, one row each.
        defense: turns representations into uploads.
        settings: how the weights move.
        device: where the network lives.
        mixed: compute in bfloat16 where the device gains from it.
        augment: changes records a little each time that they are trained on; None leaves them as they are.
        chain: what the defense draws begins anew with each gradient; None lets its stream flow on, as in a simulation.
    """

    def __init__(
        self,
        network: nn.Module,
        features: Tensor,
        defense: Defense,
        *,
        settings: OptimizerSettings,
        device: torch.device,
        mixed: bool = False,
        augment: Shifts | None = None,
        chain: Chain | None = None,
    ) -> None:
        self.network = on_device(network, device)
        self.features, self.defense, self.device = features.to(device), defense, device
        self.optimizer = Optimizer(self.network.parameters(), settings)
        self._mixed, self._augment, self._chain = mixed, augment, chain
        self._pending: _Pending | None = None

    def upload(self, rows: Tensor, train: bool) -> Tensor:
        """Return the upload for the records at `rows`; when training, remember how it came about."""
        rows = rows.to(self.device)
        x = self.features[rows]
        if train:
            self.defense.turn_to(rows)
            self.defense.announce(x)
        x = self.defense.disguise(x)
        if train and self._augment:
            x = self._augment(x)
        if self.network.training != train:  # walks through all modules: not for every batch
            self.network.train(train)
        with torch.set_grad_enabled(train), precision(self.device, self._mixed):
            h = self.network(x)
            upload = self.defense.protect(x, h, train).float()
        if train:
            self._pending = _Pending(x, h, upload)
        return upload.detach()

    def learn(self, signal: Tensor | Signal, rate: float, updates: int = 1) -> None:
        """Carry the gradient of the last training upload through defense and network, and step; `updates` times.

        Args:
            signal: the gradient, which further updates follow as it grows stale, at what the network makes of the
                records by then; or how to find the gradient of any upload of these records.
            rate: the learning rate.
            updates: how many steps.
        """
        if self._pending is None:
            raise RuntimeError("learn() needs a training upload before it")
        pending, self._pending = self._pending, None
        self._step(pending, signal, rate)
        for _ in range(updates - 1):
            self._step(self._again(pending), signal, rate)

    def _step(self, pending: _Pending, signal: Tensor | Signal, rate: float) -> None:
        gradient = signal if isinstance(signal, Tensor) else signal(pending.upload.detach())
        self.optimizer.zero_grad()
        self.defense.backward(pending.x, pending.h, pending.upload, gradient)
        self.optimizer.step(rate)
        if self._chain:
            self._chain.turn(self.defense.generator, gradient)

    def _again(self, pending: _Pending) -> _Pending:
        with precision(self.device, self._mixed):
            h = self.network(pending.x)
            upload = self.defense.rehearse(pending.x, h).float()
        return _Pending(pending.x, h, upload)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything a resumed run needs."""
        return {
            **named("network", self.network.state_dict()),
            **named("optimizer", self.optimizer.state_dict()),
            **named("defense", self.defense.state_dict()),
            **named("augment", self._augment.state_dict() if self._augment else {}),
            **named("chain", self._chain.state_dict() if self._chain else {}),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.network.load_state_dict(under("network", state))
        self.optimizer.load_state_dict(under("optimizer", state))
        self.defense.load_state_dict(under("defense", state))
        if self._augment:
            self._augment.load_state_dict(under("augment", state))
        if self._chain:
            self._chain.load_state_dict(under("chain", state))
