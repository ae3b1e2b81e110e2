"""Networks that attacks train against their victims: discriminators, critics, and stand-ins of unknown bottoms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.nets.blocks import Dense
from colonnade.nets.shapes import Shape
from colonnade.nets.weights import initialised

SMALL_MAP = 8
"""Maps of at most this height get the shorter of SDAR's two discriminators."""
CLASS_NUMBERS = 50
"""How many numbers a class is embedded in."""


def build_class_discriminator(upload_shape: Sequence[int], classes: int, *, seed: int) -> nn.Module:
    """Return the discriminator of URVFL: two logits a class, `2c` for victim's and `2c + 1` for shadow's uploads."""
    shape = tuple(upload_shape)
    if len(shape) != 3:
        return initialised(lambda: _perceptron(shape, 2 * classes), seed)

    def build() -> nn.Sequential:
        layers = [
            *(nn.Conv2d(shape[0], 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(64, 32, 3, padding=1), nn.ReLU()),
        ]
        return nn.Sequential(*layers, Dense(32 * _halved(shape[1], 2) * _halved(shape[2], 2), 2 * classes))

    return initialised(build, seed)


def build_conditional_discriminator(
    upload_shape: Sequence[int], classes: int, *, width: int = 256, seed: int
) -> Conditional:
    """Return the simulator discriminator of SDAR: one logit, high for the uploads of a victim, given their class."""
    shape = tuple(upload_shape)
    if len(shape) != 3:
        body = initialised(lambda: _perceptron(with_class(shape), 1, width), seed)
        return build_conditional(body, shape, classes, seed=seed)
    first = [(width // 2, 1)] if shape[1] <= SMALL_MAP else [(width // 4, 1), (width // 2, 2)]
    plan = [*first, (width, 1), (width, 1), (width, 1), (width, 2)]

    def build() -> nn.Sequential:
        channels, *size = with_class(shape)
        layers: list[nn.Module] = []
        for index, (made, stride) in enumerate(plan):
            layers.append(nn.Conv2d(channels, made, 3, stride, padding=1))
            if 0 < index < len(plan) - 1:
                layers.append(nn.BatchNorm2d(made))
            layers.append(nn.LeakyReLU(0.2))
            channels, size = made, [_halved(side, stride - 1) for side in size]
        return nn.Sequential(*layers, Dropout(0.4, seed), Dense(channels * math.prod(size), 1))

    return build_conditional(initialised(build, seed), shape, classes, seed=seed)


def build_critic(upload_shape: Sequence[int], *, width: int = 256, seed: int) -> nn.Module:
    """Return the critic of FSHA: one unbounded number, high for uploads; six residual blocks without normalisation."""
    shape = tuple(upload_shape)
    if len(shape) != 3:
        return initialised(lambda: _perceptron(shape, 1, width), seed)

    def build() -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(shape[0], width, 3, padding=1),
            *(PlainBlock(width) for _ in range(6)),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            Dense(width * _halved(shape[1], 1) * _halved(shape[2], 1), 1),
        )

    return initialised(build, seed)


def build_pilot(
    record_shape: Sequence[int], upload_shape: Sequence[int], *, linear: bool, width: int = 64, seed: int
) -> Pilot:
    """Return a network from records to uploads, for who knows the shapes of both but not the bottom between them.

    Feature maps of images: strided convolutions down to the size of the map. Anything else: a perceptron with two
    hidden layers, or a single layer if `linear`. Outputs are normalised, see `Pilot`.

    Args:
        record_shape: shape of one record.
        upload_shape: shape of one upload.
        linear: leave convolutions without activations (the pilot of FSHA) instead of normalising and rectifying them.
        width: channels of the first convolution; each stride doubles them, up to four times.
        seed: the same seed gives the same weights.
    """
    record, upload = tuple(record_shape), tuple(upload_shape)
    shrinks = len(record) == len(upload) == 3 and upload[1] <= record[1] and upload[2] <= record[2]
    if shrinks:
        return initialised(lambda: Pilot(_shrink(record, upload, width, linear)), seed)

    def build() -> Pilot:
        size = math.prod(upload)
        body = Dense(math.prod(record), size) if linear else _perceptron(record, size)
        return Pilot(nn.Sequential(body, nn.BatchNorm1d(size, affine=False), nn.Unflatten(1, upload)))

    return initialised(build, seed)


def build_conditional(body: nn.Module, shape: Sequence[int], classes: int, *, seed: int) -> Conditional:
    """Return `body`, which takes inputs of shape `with_class(shape)`, as a network of inputs and their classes."""
    return Conditional(initialised(lambda: ClassInput(tuple(shape), classes), seed, 1), body)


def with_class(shape: Shape) -> Shape:
    """Return the shape of an input with its class beside it: one more map, or a few more features.

    >>> with_class((64, 16, 16)), with_class((32,))
    ((65, 16, 16), (82,))
    """
    if len(shape) == 3:
        return (shape[0] + 1, *shape[1:])
    return (math.prod(shape) + CLASS_NUMBERS,)


class ClassInput(nn.Module):
    """Lays an embedding of the class beside the input: as one more map, or as more features."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.classes, self.shape = classes, shape
        self.embedding = nn.Linear(classes, CLASS_NUMBERS, bias=False)
        self.spread: nn.Module = nn.Linear(CLASS_NUMBERS, shape[1] * shape[2]) if len(shape) == 3 else nn.Identity()

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return `x` with the classes `labels` beside it."""
        beside = self.spread(self.embedding(functional.one_hot(labels, self.classes).to(x.dtype)))
        if len(self.shape) == 3:
            return torch.cat([x, beside.reshape(len(x), 1, *self.shape[1:])], dim=1)
        return torch.cat([x.flatten(1), beside], dim=1)


class Pilot(nn.Module):
    """A stand-in of an unknown bottom, which takes on the sign and the scale of the bottom's uploads once it sees them.

    Most bottoms end with a ReLU: what is never negative and what is both can't be made alike. The body ends with a
    normalisation without weights, so that the scale stays what it was set to while the pilot learns.
    """

    def __init__(self, body: nn.Sequential) -> None:
        super().__init__()
        self.body, self.rectified, self.scale = body, False, 1.0

    def forward(self, x: Tensor) -> Tensor:
        """Return the pilot's uploads for records `x`."""
        output: Tensor = self.body(x)
        return self.scale * (functional.relu(output) if self.rectified else output)

    @torch.no_grad()
    def take_after(self, uploads: Tensor, x: Tensor) -> None:
        """Answer records like `x` with the sign and the scale of `uploads`."""
        self.rectified, self.scale = bool((uploads >= 0).all()), 1.0
        own = self(x).std()
        self.scale = float(uploads.std() / own) if own > 0 else 1.0


class Conditional(nn.Module):
    """A network that is told the class of each input."""

    def __init__(self, class_input: ClassInput, body: nn.Module) -> None:
        super().__init__()
        self.class_input, self.body = class_input, body

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the body's output for inputs `x` of classes `labels`."""
        output: Tensor = self.body(self.class_input(x, labels))
        return output


class Dropout(nn.Module):
    """Dropout from a random stream of its own: an attack that watches must not move the stream of the run."""

    def __init__(self, share: float, seed: int) -> None:
        super().__init__()
        self.share, self.seed = share, seed
        self._generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with a share of its numbers at zero and the others scaled up; `x` itself in prediction."""
        if not self.training:
            return x
        if self._generator is None or self._generator.device != x.device:
            self._generator = torch.Generator(x.device).manual_seed(self.seed)
        kept = torch.rand(x.shape, generator=self._generator, device=x.device) >= self.share
        return x * kept / (1 - self.share)


class PlainBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, activations first, nothing normalised: a gradient penalty asks for that."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for maps `x`."""
        output: Tensor = x + self.conv2(functional.silu(self.conv1(functional.silu(x))))
        return output


def _perceptron(shape: Shape, outputs: int, width: int = 256) -> nn.Sequential:
    return nn.Sequential(
        *(Dense(math.prod(shape), width), nn.LeakyReLU(0.2)),
        *(Dense(width, width), nn.LeakyReLU(0.2)),
        Dense(width, outputs),
    )


def _shrink(record: Shape, upload: Shape, width: int, linear: bool) -> nn.Sequential:
    """Return convolutions that stride while the map stays large enough; one without padding takes off the rest."""
    channels, *size = record
    layers: list[nn.Module] = []
    made = width
    while any(_halved(side, 1) != side for side in size) and all(
        _halved(side, 1) >= goal for side, goal in zip(size, upload[1:], strict=True)
    ):
        layers += _conv(channels, made, linear, stride=2)
        channels, size = made, [_halved(side, 1) for side in size]
        made = min(2 * made, 4 * width)
    layers += _conv(channels, made, linear)
    kernel = (size[0] - upload[1] + 1, size[1] - upload[2] + 1)
    return nn.Sequential(*layers, nn.Conv2d(made, upload[0], kernel), nn.BatchNorm2d(upload[0], affine=False))


def _conv(channels_in: int, channels: int, linear: bool, stride: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(channels_in, channels, 3, stride, padding=1)
    return [conv] if linear else [conv, nn.BatchNorm2d(channels), nn.ReLU()]


def _halved(side: int, times: int) -> int:
    """Return the length that padded convolutions of stride two leave."""
    return -(-side // (1 << times))
