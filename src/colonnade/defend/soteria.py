"""Entries of a representation that tell most about the record stay at home."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.defend.base import Defense
from colonnade.defend.prune import keep_largest
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share
from colonnade.strength import number

EXACT_UP_TO = 256
# Directions and records per pass: more would need more memory than they save time.
_AT_ONCE = 8
_RECORDS_AT_ONCE = 128
# With one thread on a processor fewer records, where representations are wide: the system takes blocks of many
# megabytes back after each layer and clears new ones, which took half of the time (ResNet-18 cut at 6, halves of
# CIFAR-10). Several threads wait for one another at the end of each piece, which cost them more than that.
_NUMBERS_AT_ONCE = 2**20
_PUBLIC_SEED = 0


@DEFENSES.register("soteria")
class Soteria(Defense):
    """Soteria: entries j with a small ‖∂h_j/∂x‖ / (|h_j| + 0.1) are set to zero, for each record by its own scores.

    Published for gradients in horizontal learning; here the mask is laid on the representation, in training and in
    prediction. The denominator is the magnitude, since a signed one changes the order where entries are negative.
    Small entries score high, so what is sent is weak and costs accuracy: on the handwritten digits (perceptron, ten
    epochs, rate 0.9, one seed) 0.35 of the test records are right; 0.87 with `prune`, 0.95 undefended.

    All norms of one record's Jacobian at once: ‖∂h_j/∂x‖² is the mean of (∂h_j/∂x · v)² over normal directions v, so
    forward-mode derivatives along a few random directions estimate the scores of all entries together.
    Representations of at most 256 entries are scored exactly. Batch normalisation is held at its running statistics
    while scoring, since a record's Jacobian should not depend on its neighbours; early in training they are still far
    from the batch's.

    Directions are drawn anew for every training step, so that no entry is misjudged in all of them. In prediction they
    are the same for every record, in every process and on every device: two uploads of one record are then equal.
    Otherwise each would have a mask of its own, and whoever sees many uploads of a record could lay the masks over one
    another and read entries that none of them alone should tell. The directions are no secret; the bottom model is.

    Args:
        rate: share of the entries that is set to zero.
        probes: random directions; on a small convolutional bottom 8, 32 and 128 gave a rank correlation of 0.93, 0.98
            and 0.996 with the exact scores.
    """

    name: ClassVar[str] = "soteria"
    imitated_by_bottom: ClassVar[bool] = True
    knob: ClassVar[str | None] = "rate"
    published_strengths: ClassVar[tuple[float, ...]] = (0.90, 0.95, 0.99)
    cost: ClassVar[str] = "one forward-mode pass for each probe"

    def __init__(self, rate: float = 0.9, probes: int = 32) -> None:
        super().__init__()
        self.rate = share("soteria.rate", rate)
        self.probes = int(number("soteria.probes", probes, at_least=1, whole=True))
        self._bottom: nn.Module | None = None

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Keep the bottom model at hand, also where a finished model is loaded; add nothing."""
        self._bottom = bottom
        return bottom

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Keep the bottom model at hand."""
        self._bottom = bottom

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation without its lowest-scored entries; gradients reach only what is sent."""
        entries = h[0].numel()
        kept = entries - math.floor(self.rate * entries + 1e-9)
        return h * keep_largest(self.scores(x, h, train), kept)

    @torch.no_grad()
    def scores(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the score of every entry of every record, shaped like `h`."""
        bottom = self._bottom
        if bottom is None:
            raise RuntimeError("scores() needs the bottom model that extend() or prepare() is given")
        training = bottom.training
        bottom.eval()
        with torch.autocast(x.device.type, enabled=False):
            parts = torch.split(x, _RECORDS_AT_ONCE)
            if h[0].numel() <= EXACT_UP_TO:
                squares = [exact_squares(bottom, part) for part in parts]
            else:
                pieces = (piece for part in parts for piece in _pieces(part, self._directions(part, train), h[0]))
                squares = [mean_squares(bottom, *piece) for piece in pieces]
        bottom.train(training)
        return torch.cat(squares).sqrt() / (h.detach().float().abs() + 0.1)

    def describe(self) -> dict[str, Any]:
        """Return the name, the rate and the number of probes."""
        return {"name": self.name, "rate": self.rate, "probes": self.probes}

    def _directions(self, x: Tensor, train: bool) -> Tensor:
        """Return directions for every record: its own in training, in prediction those that all records share."""
        if train:
            shape, device = (self.probes, *x.shape), self.generator.device
            return torch.randn(shape, generator=self.generator, device=device).to(x)
        # On the processor, whose draws are the same everywhere.
        public = torch.Generator().manual_seed(_PUBLIC_SEED)
        return torch.randn((self.probes, 1, *x.shape[1:]), generator=public).to(x).expand(-1, *x.shape)


def _pieces(x: Tensor, directions: Tensor, like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Return so many records at a time, with their directions, as are quick where they lie; `like` is one upload."""
    alone = x.device.type == "cpu" and torch.get_num_threads() == 1
    few = max(1, _NUMBERS_AT_ONCE // (_AT_ONCE * like.numel())) if alone else len(x)
    return zip(torch.split(x, few), torch.split(directions, few, dim=1), strict=True)


def mean_squares(bottom: nn.Module, x: Tensor, directions: Tensor) -> Tensor:
    """Return the mean of (∂h_j/∂x · v)² over directions v, of every entry of every record."""

    def along(direction: Tensor) -> Tensor:
        moved: Tensor = torch.func.jvp(bottom, (x,), (direction,))[1]
        return moved

    total: Tensor | None = None
    for part in torch.split(directions, _AT_ONCE):
        squares = torch.func.vmap(along)(part).square().sum(0)
        total = squares if total is None else total + squares
    assert total is not None
    return total / len(directions)


def exact_squares(bottom: nn.Module, x: Tensor) -> Tensor:
    """Return ‖∂h_j/∂x‖² of every entry of every record, one backward pass for each entry."""
    h, pull_back, *_ = torch.func.vjp(bottom, x)

    def of_entry(chosen: Tensor) -> Tensor:
        gradient: Tensor = pull_back(chosen.expand_as(h))[0]
        return gradient.flatten(1).square().sum(1)

    entries = h[0].numel()
    choices = torch.eye(entries, device=x.device).view(entries, *h.shape[1:])
    squares: Tensor = torch.func.vmap(of_entry, chunk_size=_AT_ONCE)(choices)
    return squares.T.reshape(h.shape)
