"""A network cut in two: bottoms at the parties that hold columns, the top at the active party."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from colonnade.errors import ConfigError
from colonnade.nets.blocks import Dense, UnitNorm
from colonnade.nets.families import assemble, module_count
from colonnade.nets.shapes import Shape, upload_shape
from colonnade.nets.weights import initialised

__all__ = ["Top", "build_bottom", "build_top", "default_cut", "upload_shape"]

HIDDEN = (64, 32, 32)
PERCEPTRON = (256, 128)
"""Widths of the perceptron that reads vectors in place of convolutions."""


def default_cut(family: str, hidden: Sequence[int] = HIDDEN) -> int:
    """Return how many modules of `family` usually stay at the parties.

    Six for image networks; for an `mlp` all hidden layers but the last, so that the top can combine the parties.
    An `mlp` with a single hidden layer keeps it at the bottom: raw columns are never uploaded.

    >>> default_cut("resnet18"), default_cut("mlp", (64, 32, 32)), default_cut("mlp", (64,))
    (6, 4, 2)
    """
    return max(2, 2 * (len(hidden) - 1)) if family == "mlp" else 6


def build_bottom(
    family: str, input_shape: Sequence[int], *, cut: int | None = None, hidden: Sequence[int] = HIDDEN, seed: int
) -> nn.Module:
    """Return the first `cut` modules of `family` for records of `input_shape`, weights drawn from `seed`.

    >>> bottom = build_bottom("resnet18", (3, 32, 16), cut=6, seed=0)
    >>> upload_shape(bottom, (3, 32, 16))
    (128, 16, 8)
    """
    cut = _checked_cut(family, cut, hidden)
    return assemble(family, input_shape, 1, hidden=hidden, seed=seed, stop=cut)


def build_top(
    family: str,
    upload_shapes: Sequence[Sequence[int]],
    outputs: int,
    *,
    cut: int | None = None,
    hidden: Sequence[int] = HIDDEN,
    join: str = "auto",
    seed: int,
) -> Top:
    """Return the modules of `family` after `cut`, sized for the joined uploads, weights drawn from `seed`.

    Where parties upload vectors and the rest of the network is made for maps, a perceptron reads them instead.

    Args:
        family: `mlp`, `mnist_net`, `resnet18`, `resnet18_narrow` or `resnet34`.
        upload_shapes: the shape of one record's upload, for each party in the order of joining.
        outputs: classes, or 1 for a binary task or a regression.
        cut: how many modules stay at the parties; None takes the family's usual cut.
        hidden: widths of the hidden layers of an `mlp`.
        join: `width`, `features` or `auto`, see `Top`.
        seed: the same seed gives the same weights.
    """
    cut = _checked_cut(family, cut, hidden)
    shapes = [tuple(shape) for shape in upload_shapes]
    by_width = _joins_by_width(shapes, join)
    joined = _joined_shape(shapes, by_width)
    try:
        return Top(assemble(family, joined, outputs, hidden=hidden, seed=seed, start=cut), by_width)
    except ConfigError:
        if by_width or family == "mlp":
            raise
        return Top(initialised(lambda: _perceptron(joined[0], outputs), seed, cut), by_width)


class Top(nn.Module):
    """Joins the parties' uploads and applies the rest of the network.

    Feature maps are laid side by side along the width, as the strips of the image were; vectors are concatenated.
    `auto` does the first where every upload is a map; where maps meet vectors, maps are flattened.

    Attributes:
        body: the modules after the cut.
        by_width: whether uploads are joined along the width.
    """

    def __init__(self, body: nn.Sequential, by_width: bool) -> None:
        super().__init__()
        self.body, self.by_width = body, by_width

    def join(self, uploads: Sequence[Tensor]) -> Tensor:
        """Return all uploads as one tensor."""
        if self.by_width:
            return torch.cat(list(uploads), dim=-1)
        return torch.cat([upload.flatten(1) for upload in uploads], dim=1)

    def forward(self, uploads: Sequence[Tensor]) -> Tensor:
        """Return one row of outputs (logits, or values of a regression) for each record."""
        output: Tensor = self.body(self.join(uploads))
        return output


def _perceptron(features: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in PERCEPTRON:
        layers += [Dense(features, width), UnitNorm(width), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, Dense(features, outputs))


def _checked_cut(family: str, cut: int | None, hidden: Sequence[int]) -> int:
    count = module_count(family, hidden)
    cut = default_cut(family, hidden) if cut is None else cut
    if not 1 <= cut < count:
        raise ConfigError(
            f"{family} has {count} modules and can't be cut after module {cut}",
            where="cut",
            remedy=f"choose a cut from 1 to {count - 1}",
        )
    return cut


def _joins_by_width(shapes: Sequence[Shape], join: str) -> bool:
    if not shapes:
        raise ConfigError("a top model needs at least one upload", where="join", remedy="add a party with features")
    all_maps = all(len(shape) == 3 for shape in shapes)
    if join == "auto":
        return all_maps
    if join not in ("width", "features"):
        raise ConfigError(f"unknown way to join uploads '{join}'", where="join", remedy="use auto, width or features")
    if join == "width" and not all_maps:
        raise ConfigError("only feature maps can be joined along the width", where="join", remedy="use auto")
    return join == "width"


def _joined_shape(shapes: Sequence[Shape], by_width: bool) -> Shape:
    if not by_width:
        return (sum(torch.Size(shape).numel() for shape in shapes),)
    if len({shape[:2] for shape in shapes}) > 1:
        raise ConfigError(
            f"maps of shapes {', '.join(map(str, shapes))} can't lie side by side",
            where="join",
            remedy="give every party strips of one height, and one family and cut",
        )
    return (*shapes[0][:2], sum(shape[2] for shape in shapes))
