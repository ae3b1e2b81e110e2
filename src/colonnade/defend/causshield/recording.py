"""One adaptation step recorded as a CUDA graph: M steps cost M launches, not M times some hundred."""

from __future__ import annotations

import torch
from torch import Tensor

from colonnade.defend.causshield.generator import Generator, Loss

WARM_UP = 3
"""Steps before recording, in which libraries choose their algorithms."""


class Recording:
    """The step of `generator` on `loss` for batches of one shape; recording it moves the weights, so restart after it.

    Args:
        generator: whose step it is.
        loss: what the step minimises; it must neither draw random numbers nor look at values.
        x: a batch of records.
        surrogate: a batch of their surrogates.

    Raises:
        RuntimeError: the step can't be recorded on this device.
    """

    def __init__(self, generator: Generator, loss: Loss, x: Tensor, surrogate: Tensor) -> None:
        self._x, self._surrogate = x.clone(), surrogate.clone()
        stream = torch.cuda.Stream(x.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                generator.adapt(self._x, self._surrogate, loss)
        torch.cuda.current_stream(x.device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._output = generator.adapt(self._x, self._surrogate, loss)

    def fits(self, x: Tensor) -> bool:
        """Return whether `x` has the shape that was recorded."""
        return x.shape == self._x.shape

    def load(self, x: Tensor, surrogate: Tensor) -> None:
        """Give the batch that the next steps are for."""
        self._x.copy_(x)
        self._surrogate.copy_(surrogate)

    def step(self) -> tuple[Tensor, Tensor]:
        """Take one step; return the representations that it was computed from."""
        self._graph.replay()
        return self._output
