"""Decoders: networks that guess a record from its upload."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from colonnade.nets.blocks import Dense
from colonnade.nets.shapes import Shape
from colonnade.nets.weights import initialised


def build_decoder(
    upload_shape: Sequence[int], record_shape: Sequence[int], *, width: int | None = None, seed: int
) -> nn.Module:
    """Return a decoder from uploads of `upload_shape` to records of `record_shape`, weights drawn from `seed`.

    Images from feature maps: convolutions that grow the map to the image. Images from vectors: the same, from a
    small map that a linear layer makes. Anything else: a perceptron with two hidden layers.
    The last layer starts at zero, so the untrained decoder answers zero: the mean of centred records.

    Args:
        upload_shape: shape of one upload.
        record_shape: shape of one record.
        width: channels (64) or hidden units (256) of the decoder.
        seed: the same seed gives the same weights.
    """
    upload, record = tuple(upload_shape), tuple(record_shape)
    decoder = initialised(lambda: _decoder(upload, record, width), seed)
    last = [part for part in decoder.modules() if isinstance(part, nn.Linear | nn.Conv2d)][-1]
    nn.init.zeros_(last.weight)
    if last.bias is not None:
        nn.init.zeros_(last.bias)
    return decoder


class _Reshape(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), *self.shape)


def _decoder(upload: Shape, record: Shape, width: int | None) -> nn.Sequential:
    if len(record) != 3:
        return _perceptron(upload, record, width or 256)
    width = width or 64
    _, height, breadth = record
    if len(upload) == 3 and upload[1] <= height and upload[2] <= breadth:
        return nn.Sequential(*_grow(upload, record, width))
    seed_map = (width, math.ceil(height / 4), math.ceil(breadth / 4))
    to_map = [Dense(math.prod(upload), math.prod(seed_map)), nn.ReLU(), _Reshape(seed_map)]
    return nn.Sequential(*to_map, *_grow(seed_map, record, width))


def _perceptron(upload: Shape, record: Shape, width: int) -> nn.Sequential:
    return nn.Sequential(
        *(Dense(math.prod(upload), width), nn.ReLU()),
        *(Dense(width, width), nn.ReLU()),
        *(Dense(width, math.prod(record)), _Reshape(record)),
    )


def _grow(start: Shape, record: Shape, width: int) -> list[nn.Module]:
    """Return layers that undo the geometry of a bottom: strides by doubling, unpadded borders by a full convolution.

    Both axes are doubled equally often, because a bottom strides both alike; so each value of the upload is spread
    over the pixels that it was computed from.
    """
    channels, *size = start
    target = record[1:]
    doublings = min(int(math.log2(whole / part)) for whole, part in zip(target, size, strict=True))
    layers = [*_conv(channels, width), *_conv(width, width)]
    for _ in range(doublings):
        layers += [nn.Upsample(scale_factor=2), *_conv(width, width)]
        size = [2 * side for side in size]
    missing = [whole - part for whole, part in zip(target, size, strict=True)]
    if any(missing):
        kernel = (missing[0] + 1, missing[1] + 1)
        layers += [nn.ConvTranspose2d(width, width, kernel), nn.BatchNorm2d(width), nn.ReLU()]
    return [*layers, *_conv(width, width), nn.Conv2d(width, record[0], 3, padding=1)]


def _conv(channels_in: int, channels: int) -> list[nn.Module]:
    return [nn.Conv2d(channels_in, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
