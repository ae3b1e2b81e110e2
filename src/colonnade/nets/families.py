"""The network families, each a list of modules counted one by one from 1, so that it can be cut anywhere.

`mnist_net` is the eleven-module network of UnSplit; `resnet18` and `resnet34` have the CIFAR stem (3x3 convolution,
no pooling) and count a residual block as one module; `resnet18_narrow` is the former with a quarter of its channels,
for machines without an accelerator; `mlp` alternates linear layers and ReLUs.
Flattening is no module: the linear layer after it does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from colonnade.errors import ConfigError, nearest
from colonnade.nets.blocks import BasicBlock, Dense
from colonnade.nets.shapes import Shape, upload_shape
from colonnade.nets.weights import initialised

Step = Callable[[Shape], nn.Module]
"""Makes one module for the shape that reaches it; sizes are computed, never written down."""

FAMILIES = ("mlp", "mnist_net", "resnet18", "resnet18_narrow", "resnet34")
_RESNETS = {"resnet18": (64, (2, 2, 2, 2)), "resnet18_narrow": (16, (2, 2, 2, 2)), "resnet34": (64, (3, 4, 6, 3))}
"""Channels of the first stage, which each later one doubles, and how many blocks each stage has."""


def modules(
    family: str, input_shape: Sequence[int], outputs: int, *, hidden: Sequence[int] = (64, 32, 32), seed: int = 0
) -> list[nn.Module]:
    """Return the whole, uncut network as its list of modules.

    >>> [type(module).__name__ for module in modules("mlp", (10,), 2, hidden=(8, 4))]
    ['Dense', 'ReLU', 'Dense', 'ReLU', 'Dense']
    >>> len(modules("mnist_net", (1, 28, 28), 10)), len(modules("resnet18", (3, 32, 32), 10))
    (11, 13)
    """
    return list(assemble(family, input_shape, outputs, hidden=hidden, seed=seed).children())


def assemble(
    family: str,
    input_shape: Sequence[int],
    outputs: int,
    *,
    hidden: Sequence[int],
    seed: int,
    start: int = 0,
    stop: int | None = None,
) -> nn.Sequential:
    """Return modules `start + 1` to `stop` of `family` for inputs of `input_shape`.

    Modules bear their number as name, and each draws its weights from `seed` and that number:
    a network that is cut starts with the weights of the same network uncut.
    """
    network = nn.Sequential()
    shape = tuple(input_shape)
    for number, step in enumerate(steps(family, outputs, hidden)[start:stop], start=start + 1):
        where = f"module {number} of {family}"
        try:
            module = initialised(lambda step=step, shape=shape: step(shape), seed, number)  # type: ignore[misc]
            shape_out = upload_shape(module, shape)
        except _WrongRankError as error:
            raise ConfigError(str(error), where=where, remedy="choose another network family or cut") from error
        except (RuntimeError, IndexError) as error:  # torch's own about a map smaller than the kernel, or about none
            raise _too_small(shape, where) from error
        if 0 in shape_out:
            raise _too_small(shape, where)
        network.add_module(str(number), module)
        shape = shape_out
    return network


def module_count(family: str, hidden: Sequence[int] = (64, 32, 32)) -> int:
    """Return how many modules `family` has.

    >>> module_count("resnet18"), module_count("resnet34"), module_count("mnist_net"), module_count("mlp", (8, 4))
    (13, 21, 11, 5)
    """
    return len(steps(family, 1, hidden))


def steps(family: str, outputs: int, hidden: Sequence[int]) -> list[Step]:
    """Return the makers of all modules of `family`, in order."""
    if family == "mlp":
        return _mlp(outputs, hidden)
    if family == "mnist_net":
        return _mnist_net(outputs)
    if family in _RESNETS:
        return _resnet(*_RESNETS[family], outputs)
    raise ConfigError(f"unknown network family '{family}'", remedy=nearest(family, FAMILIES))


def _mlp(outputs: int, hidden: Sequence[int]) -> list[Step]:
    if not hidden or min(hidden) < 1:
        raise ConfigError(
            f"an mlp needs hidden layers of at least one unit, not {list(hidden)}",
            where="hidden",
            remedy="e.g. [64, 32, 32]",
        )
    made: list[Step] = []
    for width in hidden:
        made += [_dense(width), _relu]
    return [*made, _dense(outputs)]


def _mnist_net(outputs: int) -> list[Step]:
    return [
        *(_conv(8, 5), _relu, _pool),
        *(_conv(16, 5), _relu, _pool),
        *(_dense(120), _relu),
        *(_dense(84), _relu),
        _dense(outputs),
    ]


def _resnet(width: int, blocks: Sequence[int], outputs: int) -> list[Step]:
    made: list[Step] = [_conv(width, 3, padding=1, bias=False), _norm, _relu]
    for stage, count in enumerate(blocks):
        for block in range(count):
            made.append(_block(width * 2**stage, stride=2 if stage > 0 and block == 0 else 1))
    return [*made, _average, _dense(outputs)]


class _WrongRankError(Exception):
    pass


def _channels(shape: Shape) -> int:
    if len(shape) != 3:
        raise _WrongRankError(f"it needs images or feature maps (channels, height, width), not shape {shape}")
    return shape[0]


def _too_small(shape: Shape, where: str) -> ConfigError:
    return ConfigError(
        f"maps of shape {shape} are too small for it", where=where, remedy="cut earlier or use wider strips"
    )


def _conv(channels: int, kernel: int, padding: int = 0, bias: bool = True) -> Step:
    return lambda shape: nn.Conv2d(_channels(shape), channels, kernel, padding=padding, bias=bias)


def _block(channels: int, stride: int) -> Step:
    return lambda shape: BasicBlock(_channels(shape), channels, stride)


def _dense(width: int) -> Step:
    def make(shape: Shape) -> nn.Module:
        features = 1
        for side in shape:
            features *= side
        return Dense(features, width)

    return make


def _norm(shape: Shape) -> nn.Module:
    return nn.BatchNorm2d(_channels(shape))


def _relu(shape: Shape) -> nn.Module:
    return nn.ReLU()


def _pool(shape: Shape) -> nn.Module:
    # Rounding up changes nothing on 28x28, and lets a 28x14 strip (8x1 before its last pooling) keep its last column.
    return nn.MaxPool2d(2, ceil_mode=True)


def _average(shape: Shape) -> nn.Module:
    return nn.AdaptiveAvgPool2d(1)
