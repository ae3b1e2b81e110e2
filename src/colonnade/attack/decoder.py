"""The oracle: a decoder trained on true pairs of upload and record."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from colonnade.attack.base import Attack, Strength
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.attack.registry import ATTACKS
from colonnade.errors import ConfigError, DataError
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.optimize import learning_rate
from colonnade.learn.repeated import RepeatedStep
from colonnade.nets.blocks import BasicBlock, Dense
from colonnade.nets.decoder import build_decoder
from colonnade.nets.device import on_device, precision
from colonnade.nets.shapes import Shape
from colonnade.nets.weights import initialised
from colonnade.strength import number, one_of, yes_or_no

FEWEST_PAIRS = 20
_Pairs = tuple[Tensor, Tensor]
_AT_ONCE = 1024  # uploads that are decoded together once the decoder has learned
_BLOCKS = 4


@dataclass(frozen=True)
class _Preset:
    epochs: int
    pairs: int | None  # the most that are learned from; None takes all
    deep: bool
    schedule: Literal["constant", "cosine"]
    repeats: bool


PRESETS = {
    "weak": _Preset(epochs=50, pairs=2000, deep=False, schedule="constant", repeats=False),
    "strong": _Preset(epochs=60, pairs=None, deep=True, schedule="cosine", repeats=False),
    "repeated": _Preset(epochs=60, pairs=None, deep=True, schedule="cosine", repeats=True),
}


@ATTACKS.register("decoder")
class Decoder(Attack):
    """Oracle inversion: a decoder trained on auxiliary records and their true uploads; the ceiling of what leaks.

    The recipe is the strong attacker of ResSFL: mean squared error, Adam, and the true bottom's activations.
    The decoder starts as the mean of the auxiliary records and the best epoch on held-back pairs is kept,
    the start included: where uploads tell nothing, the guess is the mean record and not something worse.

    How much it is given is named by `preset`, because a defense that stops one oracle may not stop the next:

    - `weak`: at most 2,000 pairs and a plain decoder.
    - `strong`: all pairs, a learning rate that falls to nothing, and beside the plain decoder a wider one with residual
      blocks; the better of the two on held-back pairs guesses.
    - `repeated`: `strong`, for a victim that uploads a record many times. Uploads and auxiliary uploads have a second
      axis, (records, repeats, ...); the decoder learns from, and is shown, the mean over it. Noise that is fresh each
      time averages out.

    Args:
        preset: `weak`, `strong` or `repeated`.
        epochs: passes over the pairs; None takes the preset's.
        batch_size: pairs per step.
        learning_rate: of Adam.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "decoder"
    strength: ClassVar[Strength] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_UPLOADS}
    )

    def __init__(
        self,
        preset: str = "weak",
        epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        mixed: bool = False,
    ) -> None:
        super().__init__()
        self.preset = one_of("decoder.preset", preset, PRESETS)
        self._recipe = PRESETS[self.preset]
        chosen = self._recipe.epochs if epochs is None else epochs
        self.epochs = int(number("decoder.epochs", chosen, at_least=1, whole=True))
        self.batch_size = int(number("decoder.batch_size", batch_size, at_least=2, whole=True))
        self.learning_rate = number("decoder.learning_rate", learning_rate, at_least=1e-12)
        self.mixed = yes_or_no("decoder.mixed", mixed)
        self.network: nn.Module | None = None

    @property
    def takes_repeats(self) -> bool:
        """Whether uploads must have a second axis: the same record, uploaded again and again."""
        return self._recipe.repeats

    def fit(self, evidence: Evidence) -> None:
        """Train the decoder on the auxiliary pairs."""
        uploads, records = pairs_of(evidence, where="attack 'decoder'")
        order = torch.randperm(len(records), generator=self.generator)[: self._recipe.pairs]
        # Everything moves to the device once: a copy for each batch would take longer than the batch.
        uploads, records = self._seen(uploads)[order].to(self.device), records[order].to(self.device)
        few = max(len(order) // 10, 1)
        held_back, train = (uploads[:few], records[:few]), (uploads[few:], records[few:])
        self._measure_scales(*train)
        networks = self._networks(tuple(uploads.shape[1:]), tuple(records.shape[1:]))
        errors = [self._train(network, train, held_back) for network in networks]
        self.network = networks[errors.index(min(errors))]

    def reconstruct(self, uploads: Tensor) -> Tensor:
        """Return the decoder's guesses, within the range of the auxiliary records, on the CPU."""
        if self.network is None:
            raise ConfigError("it has learned nothing yet", where="attack 'decoder'", remedy="call fit first")
        return self._guess(self.network, self._seen(uploads)).cpu()

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength, the knowledge and the recipe's numbers."""
        recipe = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        return {**super().describe(), "preset": self.preset, **recipe, "mixed": self.mixed}

    def _seen(self, uploads: Tensor) -> Tensor:
        """Return what the decoder is shown of the uploads: all of them, or the mean of each record's."""
        if not self.takes_repeats:
            return uploads.float()
        if uploads.dim() not in (3, 5):  # of vectors and of maps; anything else lacks the axis
            remedy = "give (records, repeats, ...), or choose another preset"
            what = f"uploads of shape {tuple(uploads.shape)} do not show a record several times"
            raise DataError(what, where="attack 'decoder'", remedy=remedy)
        return uploads.float().mean(dim=1)

    def _networks(self, upload: Shape, record: Shape) -> list[nn.Module]:
        """Return the decoders to train; of several, the best on held-back pairs is kept."""
        networks = [build_decoder(upload, record, seed=self.random_seed)]
        if self._recipe.deep:  # never alone: from few pairs under noise the plain one learns more
            networks.append(deep_decoder(upload, record, seed=self.random_seed))
        return [on_device(network, self.device) for network in networks]

    def _measure_scales(self, uploads: Tensor, records: Tensor) -> None:
        """Remember what centres and scales uploads (each channel or feature) and records."""
        axes = [0, *range(2, uploads.dim())]
        self._upload_mean = uploads.mean(axes, keepdim=True)
        # A channel that is always the same tells nothing; dividing by one keeps it at zero.
        spread = uploads.std(axes, keepdim=True)
        self._upload_scale = torch.where(spread > 0, spread, 1.0)
        self._record_mean = records.mean(0)
        self._range = (records.min().item(), records.max().item())

    def _train(self, network: nn.Module, train: _Pairs, held_back: _Pairs) -> float:
        """Train a decoder, leave it as it was after its best epoch, and return its error then."""
        settings = OptimizerSettings(learning_rate=self.learning_rate, schedule=self._recipe.schedule)
        take = RepeatedStep(network, lambda uploads, records: self._loss(network, uploads, records), settings)
        best_error, best = self._error(network, held_back), copy.deepcopy(network.state_dict())
        steps = math.ceil(len(train[0]) / self.batch_size)
        for epoch in range(self.epochs):
            network.train()
            order = torch.randperm(len(train[0]), generator=self.generator).to(self.device)
            for batch, rows in enumerate(torch.split(order, self.batch_size)):
                if len(rows) < 2:  # batch normalisation can't take a single record
                    continue
                rate = learning_rate(settings, epoch * steps + batch, steps, self.epochs)
                take((train[0][rows], train[1][rows]), rate)
            error = self._error(network, held_back)
            if error < best_error:
                best_error, best = error, copy.deepcopy(network.state_dict())
        network.load_state_dict(best)
        return best_error

    def _loss(self, network: nn.Module, uploads: Tensor, records: Tensor) -> Tensor:
        return nn.functional.mse_loss(self._decode(network, uploads), records)

    def _decode(self, network: nn.Module, uploads: Tensor) -> Tensor:
        with precision(self.device, self.mixed):
            offset: Tensor = network((uploads - self._upload_mean) / self._upload_scale)
        return self._record_mean + offset.float()

    @torch.no_grad()
    def _guess(self, network: nn.Module, uploads: Tensor) -> Tensor:
        """Return the guesses, on the device."""
        network.eval()
        guesses = [self._decode(network, part.to(self.device)) for part in torch.split(uploads, _AT_ONCE)]
        return torch.cat(guesses).clamp(*self._range)

    def _error(self, network: nn.Module, pairs: _Pairs) -> float:
        uploads, records = pairs
        return nn.functional.mse_loss(self._guess(network, uploads), records).item()


def pairs_of(evidence: Evidence, where: str) -> _Pairs:
    """Return the auxiliary uploads and records; raise if they do not pair or are too few to learn from."""
    uploads, records = evidence.auxiliary_uploads, evidence.auxiliary_records
    if len(uploads) != len(records) or len(records) < FEWEST_PAIRS:
        raise DataError(
            f"{len(records)} auxiliary records with {len(uploads)} uploads can't train a decoder",
            where=where,
            remedy=f"give one upload for each of at least {FEWEST_PAIRS} records",
        )
    return uploads.float(), records.float()


def deep_decoder(upload: Shape, record: Shape, seed: int) -> nn.Module:
    """Return a decoder with four residual blocks on what was uploaded, before it grows to the record."""
    if len(upload) == 3:
        width = 128
        trunk = initialised(lambda: _residual_maps(upload[0], width), seed, 1)
        return nn.Sequential(trunk, build_decoder((width, *upload[1:]), record, width=width, seed=seed))
    width = 256
    trunk = initialised(lambda: _residual_vectors(math.prod(upload), width), seed, 1)
    return nn.Sequential(trunk, build_decoder((width,), record, width=128 if len(record) == 3 else width, seed=seed))


def _residual_maps(channels: int, width: int) -> nn.Sequential:
    stem = [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*stem, *(BasicBlock(width, width, stride=1) for _ in range(_BLOCKS)))


def _residual_vectors(features: int, width: int) -> nn.Sequential:
    stem = [Dense(features, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*stem, *(_DenseBlock(width) for _ in range(_BLOCKS)))


class _DenseBlock(nn.Module):
    """A linear layer, its normalisation and a shortcut: the residual block of vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.functional.relu(self.norm(self.linear(x)))
