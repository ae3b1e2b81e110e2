"""Networks whose first weights come from a seed alone, whatever else runs in the process."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from colonnade.errors import ConfigError
from colonnade.stream import SHORT, stream

M = TypeVar("M", bound=nn.Module)


def initialised(build: Callable[[], M], seed: int, *path: int) -> M:
    """Return the module that `build` makes, with weights drawn from `seed` (and `path`, which part it is).

    Roles are threads that share torch's global random stream, so that stream is neither read nor moved:
    the module is built without memory and its weights are drawn from a generator of their own.
    The distributions are PyTorch's usual ones.

    Args:
        build: makes the module, e.g. ``lambda: nn.Linear(3, 2)``.
        seed: the same seed gives the same weights, in any thread.
        path: further whole numbers that tell apart parts made from one seed.
    """
    with torch.device("meta"):
        module = build()
    module = module.to_empty(device="cpu")
    generator = stream(mixed_seed(seed, *path))
    for part in module.modules():
        _fill(part, generator)
    return module


def mixed_seed(seed: int, *path: int) -> int:
    """Return a seed for one part of a whole that was given `seed`: a long one, if that is long.

    >>> mixed_seed(0, 1) == mixed_seed(0, 1), mixed_seed(0, 1) == mixed_seed(0, 2)
    (True, False)
    """
    words = 1 if seed.bit_length() <= SHORT else 4
    return int.from_bytes(np.random.SeedSequence([seed, *path]).generate_state(words, np.uint64).tobytes(), "little")


def _fill(part: nn.Module, generator: torch.Generator) -> None:
    if isinstance(part, nn.Linear | _ConvNd):
        nn.init.kaiming_uniform_(part.weight, a=math.sqrt(5), generator=generator)
        if part.bias is not None:
            fan_in = part.weight[0].numel()
            bound = 1 / math.sqrt(fan_in)
            nn.init.uniform_(part.bias, -bound, bound, generator=generator)
    elif isinstance(part, _BatchNorm | nn.GroupNorm | nn.LayerNorm):
        part.reset_parameters()  # ones and zeros: draws nothing
    elif next(part.parameters(recurse=False), None) is not None or next(part.buffers(recurse=False), None) is not None:
        raise ConfigError(
            f"'{type(part).__name__}' has weights that Colonnade can't draw from a seed",
            remedy="build the network from linear, convolution and normalisation layers",
        )
