"""Where a network lives, and how its weights lie there."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def on_device(network: Network, device: torch.device | str) -> Network:
    """Move `network` to `device`.

    On a GPU the weights of convolutions lie with channels last, as its tensor cores read them. The weights are the
    same, their sums are rounded in another order. One look at a step of a ResNet-18 in bfloat16 on an H200, batches of
    128: 4.1 ms instead of 6.7 for pictures of 32 pixels, 9.6 instead of 19.6 for 64.
    """
    if torch.device(device).type == "cuda":
        return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    return network.to(device)
