"""What an attribute attacker is: it learns from pairs of upload and secret, then guesses the secret of new uploads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from colonnade.errors import ConfigError, DataError
from colonnade.measure.attribute import has_classes, is_known
from colonnade.measure.baseline import class_shares
from colonnade.measure.classify import log_loss
from colonnade.registry import Registry
from colonnade.strength import make, number

FEWEST_PAIRS = 20
MOST_PAIRS = 20_000
"""More pairs teach an attacker of these sizes little, and take their time."""

_HELD_BACK = 0.2  # of the pairs; on these hyperparameters are chosen, never on targets

Uploads = npt.NDArray[np.float32]
Guesses = npt.NDArray[Any]

Predictor = Callable[[Uploads], npt.NDArray[np.float64]]
"""Takes standardised uploads; returns one probability a class for each, or one number each."""


@dataclass(frozen=True)
class Pairs:
    """Standardised uploads and their secrets: class numbers from 0 without gaps, or numbers.

    Attributes:
        uploads: one row, or one map, a record.
        secret: of each.
        classes: how many there are; 0 where the secret is a number.
    """

    uploads: Uploads
    secret: npt.NDArray[Any]
    classes: int

    def cut(self, few: int) -> tuple[Pairs, Pairs]:
        """Return the first `few` pairs, and the others."""
        parts = (slice(None, few), slice(few, None))
        first, others = (Pairs(self.uploads[part], self.secret[part], self.classes) for part in parts)
        return first, others

    def error(self, predicted: npt.NDArray[np.float64]) -> float:
        """Return how wrong predictions are: log loss of classes, mean squared error of numbers."""
        if self.classes:
            return log_loss(predicted, self.secret)
        return float(np.mean((predicted - self.secret) ** 2))

    def best_of(self, tried: Sequence[Predictor]) -> Predictor:
        """Return the predictor that is least wrong about these pairs, the first among equals."""
        return min(tried, key=lambda predictor: self.error(predictor(self.uploads)))

    def blind(self) -> Predictor:
        """Return the best prediction of one who sees no upload: the shares of the classes, or the mean."""
        told = class_shares(self.secret, self.classes) if self.classes else np.array(self.secret.mean(dtype=np.float64))
        return lambda uploads: np.broadcast_to(told, (len(uploads), *told.shape))


class AttributeAttacker(ABC):
    """Learns to read a secret off uploads.

    It is fresh: it knows nothing of the defense, and is trained after the fact on pairs that the attacker owns, made by
    the victim's final bottom and defense. That is what somebody has who can query the victim, or who colludes with a
    part of its people. A defender's own surrogate head does not stand for it: it sits at its own minimax point.

    Uploads are standardised on those pairs. A fifth of the pairs is held back: on it the attacker chooses its
    hyperparameters, and where it can't beat a blind guess there, it guesses blindly: uploads that tell nothing give the
    majority and not something worse. A class is guessed by its probability alone (argmax), without reweighting.

    Args:
        seed: of everything random; the same seed gives the same guesses.
        pairs: learn from at most so many, drawn at random.
        device: where networks compute; other attackers use the CPU.
    """

    name: ClassVar[str]
    maps_only: ClassVar[bool] = False
    """Whether uploads must be maps (records, channels, height, width); the others flatten them."""
    most_numbers: ClassVar[int] = 4096
    """Larger maps are averaged over neighbouring places before they are flattened."""

    def __init__(self, seed: int = 0, pairs: int = MOST_PAIRS, device: torch.device | str = "cpu") -> None:
        self.random_seed = int(number(f"{self.name}.seed", seed, at_least=0, whole=True))
        self.pairs = int(number(f"{self.name}.pairs", pairs, at_least=FEWEST_PAIRS, whole=True))
        self.device = torch.device(device)
        self._predictor: Predictor | None = None

    def fit(self, uploads: Tensor | npt.ArrayLike, secret: Tensor | npt.ArrayLike) -> Self:
        """Learn from pairs; those whose secret is missing (class -1, NaN) are left out. Returns itself.

        Args:
            uploads: (records, features) or (records, channels, height, width).
            secret: class numbers (integers), or standardised numbers (floats).
        """
        seen, truth = _array(uploads), _array(secret)
        random = np.random.default_rng(self.random_seed)
        rows = self._usable(seen, truth)
        rows = random.permutation(rows)[: self.pairs]
        shaped = self._shaped(seen[rows])
        self._measure_scales(shaped)
        pairs = self._paired(self._standardised(shaped), truth[rows])
        held_back, train = pairs.cut(max(round(_HELD_BACK * len(rows)), 1))
        tried = [train.blind()]
        if (train.secret != train.secret[0]).any():
            tried.append(self._learn(train, held_back))
        self._predictor = held_back.best_of(tried)
        return self

    def predict(self, uploads: Tensor | npt.ArrayLike) -> Guesses:
        """Return a guess of each upload's secret: class numbers (int64), or numbers (float32)."""
        if self._predictor is None:
            raise ConfigError("it has learned nothing yet", where=f"attacker '{self.name}'", remedy="call fit first")
        predicted = self._predictor(self._standardised(self._shaped(_array(uploads))))
        return self._values[predicted.argmax(axis=1)] if len(self._values) else predicted.astype(np.float32)

    @abstractmethod
    def _learn(self, train: Pairs, held_back: Pairs) -> Predictor:
        """Return what was learned from `train`; hyperparameters are chosen on `held_back`, which may lack classes."""

    def _usable(self, uploads: Uploads, secret: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        """Return the rows whose secret is known; raise where nothing can be learned from them."""
        where = f"attacker '{self.name}'"
        if secret.ndim != 1 or len(uploads) != len(secret):
            remedy = "give one secret for each upload"
            what = f"uploads {uploads.shape} and secrets {secret.shape} do not pair"
            raise DataError(what, where=where, remedy=remedy)
        rows = np.flatnonzero(is_known(secret))
        if len(rows) < FEWEST_PAIRS:
            remedy = f"give at least {FEWEST_PAIRS} records whose secret is known"
            raise DataError(f"{len(rows)} pairs are too few to learn from", where=where, remedy=remedy)
        if not np.isfinite(uploads).all():
            raise DataError("uploads hold infinite numbers or no numbers", where=where, remedy="give finite numbers")
        return rows

    def _paired(self, uploads: Uploads, secret: npt.NDArray[Any]) -> Pairs:
        """Number the classes without gaps, and remember which they were."""
        if not has_classes(secret):
            self._values: npt.NDArray[np.int64] = np.array([], dtype=np.int64)
            return Pairs(uploads, secret.astype(np.float32), classes=0)
        values, numbers = np.unique(secret.astype(np.int64), return_inverse=True)
        self._values = values
        return Pairs(uploads, numbers, classes=len(values))

    def _shaped(self, uploads: npt.NDArray[Any]) -> Uploads:
        """Return uploads as the attacker reads them: maps as maps or as rows of numbers."""
        if uploads.ndim not in (2, 4) or (self.maps_only and uploads.ndim != 4):
            remedy = "give maps (records, channels, height, width)"
            remedy += "" if self.maps_only else " or vectors (records, features)"
            what = f"it can't read uploads of shape {uploads.shape}"
            raise DataError(what, where=f"attacker '{self.name}'", remedy=remedy)
        if self.maps_only or uploads.ndim == 2:
            return uploads.astype(np.float32, copy=False)
        return pooled(torch.from_numpy(uploads).float(), self.most_numbers).flatten(1).numpy()

    def _measure_scales(self, uploads: Uploads) -> None:
        axes = (0, *range(2, uploads.ndim))  # of maps each channel has one scale
        self._mean = uploads.mean(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
        spread = uploads.std(axis=axes, keepdims=True, dtype=np.float64).astype(np.float32)
        self._scale = np.where(spread > 0, spread, np.float32(1))  # what never changes tells nothing: it stays zero

    def _standardised(self, uploads: Uploads) -> Uploads:
        standardised: Uploads = (uploads - self._mean) / self._scale
        return standardised


ATTRIBUTE_ATTACKERS: Registry[type[AttributeAttacker]] = Registry("attribute attacker", "colonnade.attribute_attackers")
"""Attribute attackers by name; they guess one secret and not a record, and so are no `Attack`."""


def make_attribute_attacker(chosen: str | AttributeAttacker, **parameters: Any) -> AttributeAttacker:
    """Return the attacker that `chosen` names, made with `parameters`; a ready-made one is returned as it is.

    >>> make_attribute_attacker("linear", seed=1).random_seed
    1
    """
    return make(ATTRIBUTE_ATTACKERS, AttributeAttacker, chosen, parameters)  # type: ignore[type-abstract]


def pooled(maps: Tensor, most: int) -> Tensor:
    """Return maps averaged over neighbouring places, both sides halved until a record has at most `most` numbers.

    >>> pooled(torch.zeros(5, 64, 16, 8), 4096).shape
    torch.Size([5, 64, 8, 4])
    """
    channels, height, width = maps.shape[1:]
    while channels * height * width > most and height * width > 1:
        height, width = max(height // 2, 1), max(width // 2, 1)
    return torch.nn.functional.adaptive_avg_pool2d(maps, (height, width))


def with_every_class(told: npt.NDArray[Any], met: npt.NDArray[np.intp], classes: int) -> npt.NDArray[np.float64]:
    """Return the probabilities of the classes that a model met in a table of all `classes`; the others get zero."""
    table = np.zeros((len(told), classes))
    table[:, met] = told
    return table


def _array(values: Tensor | npt.ArrayLike) -> npt.NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
