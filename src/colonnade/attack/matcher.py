"""The matcher: which of these people is this upload about? Asked of networks that learn nothing else."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.attack.base import Attack, Strength
from colonnade.attack.decoder import pairs_of
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.errors import ConfigError
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.optimize import learning_rate
from colonnade.learn.repeated import RepeatedStep
from colonnade.nets.blocks import BasicBlock, Dense
from colonnade.nets.device import on_device, precision
from colonnade.nets.shapes import Shape
from colonnade.nets.weights import initialised
from colonnade.strength import number, yes_or_no

_CODE = 128
_WIDTH = 256
_SMALL = 8  # maps are halved until no side is longer
_SHARPEST = math.log(100.0)
_FIRST_SHARPNESS = math.log(14.0)
_AT_ONCE = 1024
_NEAR = 1e-6  # scores of equal records differ by rounding alone
_Pairs = tuple[Tensor, Tensor]


class Matcher(Attack):
    """Oracle identification: two networks learn to give an upload and its record the same code.

    To guess a record and look for its nearest neighbour understates what an upload tells: of a few numbers that fit one
    record in a thousand, a decoder makes a blur that fits them all. Here one network reads uploads, another one records
    as they are, and both are trained by InfoNCE (van den Oord et al. 2018) in both directions: among the records of a
    batch an upload's code must be closest to its own record's. What a defense takes from records before it uploads
    anything, the second network learns to take from them too. Training stops when pairs held back are matched no
    better, and the best state is kept; where no state matches them better than chance, all candidates are as likely.

    It names records and guesses none, so it is no attack of the registry.

    Args:
        epochs: passes over the pairs, at most.
        patience: stop after so many epochs without a better one.
        batch_size: pairs per step, among which an upload must find its record.
        rate: learning rate of AdamW, which falls along a cosine.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "matcher"
    strength: ClassVar[Strength] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_UPLOADS}
    )

    def __init__(
        self, epochs: int = 60, patience: int = 10, batch_size: int = 256, rate: float = 1e-3, mixed: bool = False
    ) -> None:
        super().__init__()
        self.epochs = int(number("matcher.epochs", epochs, at_least=1, whole=True))
        self.patience = int(number("matcher.patience", patience, at_least=1, whole=True))
        self.batch_size = int(number("matcher.batch_size", batch_size, at_least=2, whole=True))
        self.rate = number("matcher.rate", rate, at_least=1e-12)
        self.mixed = yes_or_no("matcher.mixed", mixed)
        self.surprise = math.inf
        """How unlikely pairs held back were to what was learned, in nats a pair; of two matchers, less is better."""
        self._twins: _Twins | None = None
        self._fitted = False

    def fit(self, evidence: Evidence) -> None:
        """Learn codes from the auxiliary pairs."""
        uploads, records = pairs_of(evidence, where="attack 'matcher'")
        order = torch.randperm(len(records), generator=self.generator)
        few = max(len(order) // 10, 2)
        uploads, records = uploads[order].to(self.device), records[order].to(self.device)
        twins = _Twins((uploads[few:], records[few:]), self.random_seed, self.device, self.mixed)
        self._twins = self._trained(twins, (uploads[few:], records[few:]), (uploads[:few], records[:few]))
        self._fitted = True

    def scores(self, uploads: Tensor, candidates: Tensor) -> Tensor:
        """Return how well each candidate record (columns) fits each upload (rows), on the CPU.

        They are log-likelihoods up to a number for each upload. Uploads of several parties about the same people are
        independent once the records are known, so that their scores may be added.
        """
        if not self._fitted:
            raise ConfigError("it has learned nothing yet", where="attack 'matcher'", remedy="call fit first")
        if self._twins is None:
            return torch.zeros(len(uploads), len(candidates))
        return self._twins.all_scores(uploads, candidates).cpu()

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength, the knowledge and the recipe's numbers."""
        recipe = {"epochs": self.epochs, "patience": self.patience, "batch_size": self.batch_size, "rate": self.rate}
        return {**super().describe(), **recipe, "mixed": self.mixed}

    def _trained(self, twins: _Twins, train: _Pairs, held_back: _Pairs) -> _Twins | None:
        """Return the twins after their best epoch; None where chance matches as well."""
        settings = OptimizerSettings(name="adamw", learning_rate=self.rate, weight_decay=1e-2, schedule="cosine")
        take = RepeatedStep(twins, lambda uploads, records: _contrast(twins(uploads, records)), settings)
        steps = math.ceil(len(train[0]) / self.batch_size)
        best, least, waited = None, math.log(len(held_back[0])), 0
        for epoch in range(self.epochs):
            twins.train()
            order = torch.randperm(len(train[0]), generator=self.generator).to(self.device)
            for batch, rows in enumerate(torch.split(order, self.batch_size)):
                if len(rows) < 2:  # one pair alone has nothing to be told from
                    continue
                rate = learning_rate(settings, epoch * steps + batch, steps, self.epochs)
                take((train[0][rows], train[1][rows]), rate)
            error, waited = _surprise(twins.all_scores(*held_back)).item(), waited + 1
            if error < least:
                best, least, waited = copy.deepcopy(twins.state_dict()), error, 0
            if waited == self.patience:
                break
        self.surprise = least
        if best is None:
            return None
        twins.load_state_dict(best)
        return twins


def identified(scores: Tensor) -> float:
    """Return the share of uploads whose own record, the one at the same place, fits best; ties share the credit.

    >>> identified(torch.tensor([[2.0, 0.0], [3.0, 1.0]])), identified(torch.zeros(4, 4))
    (0.5, 0.25)
    """
    best = scores.amax(dim=1, keepdim=True)
    as_good = scores >= best - _NEAR * scores.abs().amax()
    credit = as_good.diagonal() / as_good.sum(dim=1)
    return credit.double().mean().item()


class _Twins(nn.Module):
    """The two networks, what scales their inputs, and how sharply codes are told apart."""

    def __init__(self, pairs: _Pairs, seed: int, device: torch.device, mixed: bool) -> None:
        super().__init__()
        self._device, self._mixed = device, mixed
        for name, things in zip(("upload", "record"), pairs, strict=True):
            axes = [0, *range(2, things.dim())]
            spread = things.std(axes, keepdim=True)
            self.register_buffer(f"{name}_mean", things.mean(axes, keepdim=True))
            # A channel that is always the same tells nothing; dividing by one keeps it at zero.
            self.register_buffer(f"{name}_scale", torch.where(spread > 0, spread, 1.0))
        shapes = [tuple(things.shape[1:]) for things in pairs]
        self.of_upload, self.of_record = (
            on_device(initialised(lambda shape=shape: _coder(shape), seed, place), device)  # type: ignore[misc]
            for place, shape in enumerate(shapes)
        )
        self.sharpness = nn.Parameter(torch.tensor(_FIRST_SHARPNESS, device=device))

    def forward(self, uploads: Tensor, records: Tensor) -> Tensor:
        """Return the scores of every record of a batch for every upload of it."""
        return self._between(self._code("upload", uploads), self._code("record", records))

    @torch.no_grad()
    def all_scores(self, uploads: Tensor, records: Tensor) -> Tensor:
        """Return the scores of more than a batch."""
        self.eval()
        codes = [
            torch.cat([self._code(name, part.to(self._device)) for part in torch.split(things.float(), _AT_ONCE)])
            for name, things in (("upload", uploads), ("record", records))
        ]
        return self._between(*codes)

    def _code(self, name: str, things: Tensor) -> Tensor:
        network = self.of_upload if name == "upload" else self.of_record
        scaled = (things - self.get_buffer(f"{name}_mean")) / self.get_buffer(f"{name}_scale")
        with precision(self._device, self._mixed):
            code: Tensor = network(scaled)
        return functional.normalize(code.float(), dim=1)

    def _between(self, uploads: Tensor, records: Tensor) -> Tensor:
        return self.sharpness.clamp(max=_SHARPEST).exp() * uploads @ records.mT


def _coder(shape: Shape) -> nn.Module:
    """Return a network from uploads or records of `shape` to codes.

    Maps are halved and read where they are: which of two like patches lies left tells people apart.
    """
    layers: list[nn.Module] = []
    if len(shape) == 3 and max(shape[1:]) > _SMALL:
        channels, height, width = shape
        layers += [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        wide = 64
        while max(height, width) > _SMALL:
            layers.append(BasicBlock(wide, 128, stride=2))
            wide, height, width = 128, -(-height // 2), -(-width // 2)
        return nn.Sequential(*layers, Dense(wide * height * width, _CODE))
    numbers = math.prod(shape)
    for _ in range(2):
        layers += [Dense(numbers, _WIDTH), nn.LayerNorm(_WIDTH), nn.ReLU()]
        numbers = _WIDTH
    return nn.Sequential(*layers, Dense(numbers, _CODE))


def _contrast(scores: Tensor) -> Tensor:
    """Return InfoNCE in both directions: each upload must name its record, and each record its upload."""
    return (_surprise(scores) + _surprise(scores.mT)) / 2


def _surprise(scores: Tensor) -> Tensor:
    """Return how unlikely the true records are to the scores: -log softmax at the same place."""
    return functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))
