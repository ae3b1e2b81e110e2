"""Between the wire's arrays and the networks' tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from colonnade.wire.message import Array


def to_array(tensor: Tensor) -> Array:
    """Return `tensor` as the array that travels: on the host, float32, detached; no copy where none is needed."""
    array: Array = tensor.detach().to("cpu", torch.float32 if tensor.is_floating_point() else None).numpy()
    return array


def to_tensor(array: Array, device: torch.device) -> Tensor:
    """Return a received array as a tensor on `device`."""
    writable = array if array.flags.writeable else np.array(array)
    return torch.from_numpy(writable).to(device)
