"""The generator: a copy of the bottom model that is adapted to a batch and its surrogates."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from colonnade.nets.device import half_precision

Loss = Callable[[Tensor, Tensor], Tensor]
"""From the representations of records and of their surrogates to what the generator minimises."""


class Generator:
    """One copy of the bottom, built once and given the bottom's weights again for every batch.

    Records and surrogates go through it in one pass, and every batch normalisation treats the two halves as two
    batches: the pass equals two separate ones, only quicker. Running statistics are those of the uploads alone: they
    move once a batch, when the adapted generator computes the upload, and are not reset with the weights.

    Attributes:
        network: the copy.
        weights: its weights, in the order of the bottom's.
        optimizer: Adam on these weights.
        half: the number type to compute in while adapting; None keeps float32.
    """

    def __init__(self, bottom: nn.Module, learning_rate: float) -> None:
        self.network = _with_paired_norms(copy.deepcopy(bottom)).requires_grad_(True)
        self.weights: list[Tensor] = list(self.network.parameters())
        # Capturable: a recorded step must not ask the processor how many steps there were.
        on_gpu = self.weights[0].is_cuda
        self.optimizer = torch.optim.Adam(self.weights, lr=learning_rate, fused=True, capturable=on_gpu)
        self.half: torch.dtype | None = None
        self._names = [name for name, _ in self.network.named_parameters()]
        self._norms = [part for part in self.network.modules() if isinstance(part, _PairedNorm)]

    def to(self, device: torch.device) -> None:
        """Move the network to `device`; it is not adapted there any more."""
        if self.weights[0].device != device:
            self.network.to(device)

    @torch.no_grad()
    def restart(self, weights: Sequence[Tensor], shift: Sequence[Tensor] | None = None) -> None:
        """Take the weights `weights`, moved by `shift` if there is one."""
        torch._foreach_copy_(self.weights, list(weights))
        if shift is not None:
            torch._foreach_add_(self.weights, list(shift))

    @torch.no_grad()
    def shift_from(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Return how far its weights are from `weights`."""
        return list(torch._foreach_sub(self.weights, list(weights)))

    def forget_steps(self) -> None:
        """Reset the optimiser: what it remembers belongs to another batch."""
        if kept := self._moments():
            torch._foreach_zero_(kept)

    def snapshot(self) -> list[Tensor]:
        """Return copies of the weights and of what the optimiser remembers."""
        return [tensor.detach().clone() for tensor in (*self.weights, *self._moments())]

    @torch.no_grad()
    def restore(self, snapshot: Sequence[Tensor]) -> None:
        """Go back to a snapshot, without moving a tensor in memory."""
        kept = self._moments()
        torch._foreach_copy_(self.weights, list(snapshot[: len(self.weights)]))
        if len(snapshot) > len(self.weights):
            torch._foreach_copy_(kept, list(snapshot[len(self.weights) :]))
        elif kept:
            torch._foreach_zero_(kept)

    def adapt(self, x: Tensor, surrogate: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
        """Take one step on `loss`; return the representations that it was computed from, detached."""
        raw, altered = self.pair(x, surrogate)
        value = loss(raw, altered)
        for weight in self.weights:
            weight.grad = None
        value.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return raw.detach(), altered.detach()

    def pair(self, x: Tensor, surrogate: Tensor) -> tuple[Tensor, Tensor]:
        """Return the training representations of records and of surrogates, each half normalised for itself."""
        self._set_mode(train=True)
        for norm in self._norms:
            norm.paired = True
        try:
            with self._precision(x.device):
                both: Tensor = self.network(torch.cat([x, surrogate]))
        finally:
            for norm in self._norms:
                norm.paired = False
        raw, altered = both.chunk(2)
        return raw, altered

    @torch.no_grad()
    def upload(self, x: Tensor, train: bool) -> Tensor:
        """Return the representations of records alone; running statistics move when training."""
        self._set_mode(train)
        with self._precision(x.device):
            representations: Tensor = self.network(x)
        return representations

    def upload_at(self, weights: Sequence[Tensor], x: Tensor) -> Tensor:
        """Return the training representations of `x` at `weights`, with a graph that leads to them."""
        self._set_mode(train=True)
        with self._precision(x.device):
            given = dict(zip(self._names, weights, strict=True))
            representations: Tensor = torch.func.functional_call(self.network, given, (x,))
        return representations

    @torch.no_grad()
    def calibrate(self, batches: Iterable[Tensor]) -> None:
        """Set the running statistics to the mean of those of `batches`."""
        if not self._norms:
            return
        usual = [norm.momentum for norm in self._norms]
        for norm in self._norms:
            norm.reset_running_stats()
            norm.momentum = None  # PyTorch's word for a plain mean over all batches
        for batch in batches:
            self.upload(batch, train=True)
        for norm, momentum in zip(self._norms, usual, strict=True):
            norm.momentum = momentum

    def _moments(self) -> list[Tensor]:
        return [tensor for state in self.optimizer.state.values() for tensor in state.values()]

    def _set_mode(self, train: bool) -> None:
        if self.network.training != train:  # walks through all modules: not for every pass
            self.network.train(train)

    def _precision(self, device: torch.device) -> AbstractContextManager[Any]:
        # The cache of cast weights must be off: it would serve the weights as they were before the first step.
        return nullcontext() if self.half is None else half_precision(device, self.half, cached=False)


class _PairedNorm(_BatchNorm):
    """Batch normalisation that can take its input for two batches, one behind the other, and then remembers neither."""

    paired = False

    def _check_input_dim(self, input: Tensor) -> None:
        """Take vectors and maps alike: the layer it stands for has checked them."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.paired:
            return super().forward(input)
        halves = [
            functional.batch_norm(half, None, None, self.weight, self.bias, training=True, eps=self.eps)
            for half in input.chunk(2)
        ]
        return torch.cat(halves)


def _with_paired_norms(network: nn.Module) -> nn.Module:
    """Replace every batch normalisation in `network`, in place; names stay, so that weights keep their order."""
    if isinstance(network, _BatchNorm):
        paired = _PairedNorm(network.num_features, network.eps, network.momentum, network.affine)
        paired.load_state_dict(network.state_dict())
        return paired.to(network.running_mean.device if network.running_mean is not None else "cpu")
    for name, part in network.named_children():
        setattr(network, name, _with_paired_norms(part))
    return network
