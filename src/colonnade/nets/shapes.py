"""What shape a network gives, found without computing anything."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

Shape = tuple[int, ...]
"""Shape of one record, without the batch: `(features,)` or `(channels, height, width)`."""


def upload_shape(bottom: nn.Module, input_shape: Sequence[int]) -> Shape:
    """Return the shape of what `bottom` makes of one record of `input_shape`.

    >>> upload_shape(nn.Conv2d(3, 8, kernel_size=3), (3, 32, 16))
    (8, 30, 14)
    """
    ghosts = {name: tensor.to("meta") for name, tensor in (*bottom.named_parameters(), *bottom.named_buffers())}
    # Two records, because batch normalisation in training mode refuses a single one.
    batch = torch.empty((2, *input_shape), device="meta")
    with torch.no_grad():
        output = torch.func.functional_call(bottom, ghosts, (batch,))
    return tuple(output.shape[1:])
