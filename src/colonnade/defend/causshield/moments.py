"""An optimiser's state as named tensors, for checkpoints without pickle."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return everything that `optimizer` remembers of its steps."""
    state = optimizer.state_dict()["state"]
    return {f"{number}/{name}": value for number, entry in state.items() for name, value in entry.items()}


def load_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore what `moments` returned, as copies: the optimiser writes into what it remembers."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split("/", 1)
        state.setdefault(int(number), {})[name] = value.clone()
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
