"""A network's tensors in checkpoints and saved models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from colonnade import checkpoint
from colonnade.checkpoint import Array, named, read_arrays, under, write_arrays

__all__ = ["Checkpoints", "named", "read_tensors", "under", "write_tensors"]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write `tensors` and JSON `meta` to `path` atomically and durably."""
    write_arrays(path, _arrays(tensors), meta)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote."""
    arrays, meta = read_arrays(path)
    return _tensors(arrays), meta


class Checkpoints:
    """The checkpoints of one party in one run; without a folder only the best weights are kept, in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._steps = checkpoint.Checkpoints(folder)
        self._best: dict[str, Tensor] = {}
        self.steps, self.forget = self._steps.steps, self._steps.forget

    def save(self, step: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
        """Keep the state that `step` starts from, and forget the oldest."""
        if self._steps.folder is not None:
            self._steps.save(step, _arrays(tensors), meta)

    def load(self, step: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the state that `step` starts from."""
        arrays, meta = self._steps.load(step)
        return _tensors(arrays), meta

    def save_best(self, tensors: Mapping[str, Tensor]) -> None:
        """Keep the best weights so far."""
        folder = self._steps.folder
        if folder is None:
            self._best = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        else:
            write_tensors(folder / "best.safetensors", tensors, {})

    def load_best(self) -> dict[str, Tensor]:
        """Return the best weights."""
        folder = self._steps.folder
        return self._best if folder is None else read_tensors(folder / "best.safetensors")[0]


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
