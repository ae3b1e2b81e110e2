"""Between the wire's arrays and the networks' tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.wire.channel import Channel
from colonnade.wire.message import Array


def to_array(tensor: Tensor, channel: Channel) -> Array:
    """Return `tensor` as the array that travels: on the host, float32, detached; no copy where none is needed.

    Between parties of one process a tensor on a GPU stays where it is: the way over the host took 40 % of a step.
    """
    if tensor.is_cuda and channel.hands_over:
        handed: Any = tensor.detach().float()
        return handed  # type: ignore[no-any-return]
    array: Array = tensor.detach().to("cpu", torch.float32 if tensor.is_floating_point() else None).numpy()
    return array


def to_tensor(array: Array, device: torch.device) -> Tensor:
    """Return a received array as a tensor on `device`."""
    if isinstance(array, Tensor):
        return array.to(device)
    writable = array if array.flags.writeable else np.array(array)
    return torch.from_numpy(writable).to(device)
