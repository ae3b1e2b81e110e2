"""Where a network lives, how its weights lie there, and in which numbers it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from colonnade.errors import ConfigError

Network = TypeVar("Network", bound=nn.Module)

_CONVOLUTIONS = (functional.conv2d, functional.conv_transpose2d)
_OPERANDS, _STRIDE = 3, 3
"""Both take input, weight and bias, and then the stride."""


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
    return half_precision(device) if mixed and gains_from_half(device.type) else nullcontext()


@contextmanager
def half_precision(device: torch.device, half: torch.dtype = torch.bfloat16, *, cached: bool = True) -> Iterator[None]:
    """Compute in `half` what may be; `cached` casts a weight once for as long as the context lasts."""
    with torch.autocast(device.type, half, cache_enabled=cached):
        if device.type == "cpu":
            with _WholeStrides():
                yield
        else:
            yield


class _WholeStrides(TorchFunctionMode):
    """Computes convolutions with strides in full and rounds what they give: processors with AMX get some of them wrong.

    In bfloat16 such kernels read memory that nobody has written: where a stride leaves one place of a map's width, the
    result or the gradient of the weights may be anything, no number included, and is another one each time. Of 6,800
    convolutions that were tried (torch 2.13, maps from 1 to 32 places, kernels from 1 to 7) only those were wrong, and
    none without a stride. Releases differ in which ones are, so all of them are spared.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = keywords or {}
        if function in _CONVOLUTIONS and _concerned(arguments, keywords) and torch.is_autocast_enabled("cpu"):
            whole = [_whole(one) for one in arguments[:_OPERANDS]]
            named = {name: _whole(one) for name, one in keywords.items()}
            with torch.autocast("cpu", enabled=False):
                found = function(*whole, *arguments[_OPERANDS:], **named)
            return found.to(torch.get_autocast_dtype("cpu"))
        return function(*arguments, **keywords)


def _concerned(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Return whether there is a stride; doubles are left alone, as autocast leaves them."""
    stride = arguments[_STRIDE] if len(arguments) > _STRIDE else keywords.get("stride", 1)
    operands = (*arguments[:_OPERANDS], *keywords.values())
    double = any(isinstance(one, Tensor) and one.dtype == torch.float64 for one in operands)
    return not double and (stride if isinstance(stride, int) else max(stride)) > 1


def _whole(one: Any) -> Any:
    return one.float() if isinstance(one, Tensor) else one


@cache
def gains_from_half(device: str) -> bool:
    """Return whether products of bfloat16 are quicker there: on CUDA, and on processors with instructions for them.

    A training step of a ResNet-18 took .58 of the time on one core of such a processor, of one a quarter as wide .65
    (.48 and .53 with strides in bfloat16). Any other would convert every number and gain nothing; a release of torch
    that can't tell counts as one.
    """
    if device != "cpu":
        return device == "cuda"
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(known.get(name, False) for name in ("avx512_bf16", "amx_bf16"))
