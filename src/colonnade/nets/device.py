"""Where a network lives, how its weights lie there, and in which numbers it computes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn

from colonnade.errors import ConfigError

Network = TypeVar("Network", bound=nn.Module)


def require_device(
    device: torch.device | str,
    where: str = "device",
    remedy: str = "use cpu, or install a torch that knows your GPU",
) -> torch.device:
    """Return the device of that name; one that is not here is an error.

    Ask before anything is read: torch finds out when the first weights are moved, and then the weights get the blame.
    """
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"'{device}' is no device", where=where, remedy="write cpu, cuda or cuda:0") from error
    if found.type == "cuda" and (not torch.cuda.is_available() or (found.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"no device '{device}' here", where=where, remedy=remedy)
    return found


def on_device(network: Network, device: torch.device | str) -> Network:
    """Move `network` to `device`.

    On a GPU the weights of convolutions lie with channels last, as its tensor cores read them. The weights are the
    same, their sums are rounded in another order. One look at a step of a ResNet-18 in bfloat16 on an H200, batches of
    128: 4.1 ms instead of 6.7 for pictures of 32 pixels, 9.6 instead of 19.6 for 64.
    """
    if torch.device(device).type == "cuda":
        return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    return network.to(device)


def precision(device: torch.device, mixed: bool) -> AbstractContextManager[Any]:
    """Return the context to compute in: bfloat16 where asked for and where the device gains from it."""
    return torch.autocast(device.type, torch.bfloat16) if mixed and gains_from_half(device.type) else nullcontext()


@cache
def gains_from_half(device: str) -> bool:
    """Return whether products of bfloat16 are quicker there: on CUDA, and on processors with instructions for them.

    A training step of a ResNet-18 took .40 to .55 of the time on one core of such a processor. Any other would convert
    every number and gain nothing; a release of torch that can't tell counts as one.
    """
    if device != "cpu":
        return device == "cuda"
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(known.get(name, False) for name in ("avx512_bf16", "amx_bf16"))
