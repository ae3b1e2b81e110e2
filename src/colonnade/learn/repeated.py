"""The same step over and over: on a GPU it is recorded once as a CUDA graph and then replayed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from colonnade.federation.task import OptimizerSettings

WARM_UP = 3
"""Steps before recording, in which libraries choose their algorithms; their traces are wiped out."""
Batch = tuple[Tensor, ...]


class RepeatedStep:
    """A step of Adam down `loss`, for small networks: a GPU waits for Python most of the time, unless it replays.

    Args:
        network: whose weights move; all of it learns.
        loss: of a batch; it must neither look at values nor draw random numbers.
        settings: Adam or AdamW, and its weight decay.
    """

    def __init__(self, network: nn.Module, loss: Callable[..., Tensor], settings: OptimizerSettings) -> None:
        if settings.name == "sgd":
            raise ValueError("a repeated step is one of adam or adamw, not of sgd")
        self._network, self._loss = network, loss
        parameters = list(network.parameters())
        on_gpu = parameters[0].is_cuda
        rate = torch.tensor(settings.learning_rate, device=parameters[0].device) if on_gpu else settings.learning_rate
        kind = torch.optim.Adam if settings.name == "adam" else torch.optim.AdamW
        self._optimizer = kind(parameters, lr=rate, weight_decay=settings.weight_decay, fused=True, capturable=on_gpu)
        self._can_record = on_gpu
        self._given: Batch | None = None
        self._graph: Any = None

    def __call__(self, batch: Batch, rate: float) -> None:
        """Take a step on `batch` at learning rate `rate`."""
        self._set(rate)
        if self._can_record and self._graph is None:
            self._record(batch)
        if self._given is None or any(one.shape != two.shape for one, two in zip(self._given, batch, strict=True)):
            self._step(*batch)
            return
        for given, wanted in zip(self._given, batch, strict=True):
            given.copy_(wanted)
        self._graph.replay()

    def _step(self, *batch: Tensor) -> None:
        self._optimizer.zero_grad()
        self._loss(*batch).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def _set(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _record(self, batch: Batch) -> None:
        learned = list(chain(self._network.parameters(), self._network.buffers()))
        before = [tensor.detach().clone() for tensor in learned]
        self._given = tuple(tensor.clone() for tensor in batch)
        stream = torch.cuda.Stream(batch[0].device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(batch[0].device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._step(*self._given)
        torch.cuda.current_stream(batch[0].device).wait_stream(stream)
        self._optimizer.zero_grad()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._loss(*self._given).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        with torch.no_grad():
            for tensor, kept in zip(learned, before, strict=True):
                tensor.copy_(kept)
            for state in self._optimizer.state.values():
                for moment in state.values():
                    moment.zero_()
