"""The linear oracle: ridge regression from uploads to records, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colonnade.attack.base import Attack, Strength
from colonnade.attack.decoder import pairs_of
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.attack.registry import ATTACKS
from colonnade.errors import ConfigError

# Of the squared weights, where features have a mean variance of one; the last one gives the mean guess.
_PENALTIES = (*(10.0**power for power in range(-12, 5)), math.inf)


@ATTACKS.register("ridge")
class Ridge(Attack):
    """Oracle inversion by the best linear guess: ridge regression on auxiliary records and their true uploads.

    Nothing is trained and nothing can fail to converge. Where uploads are drowned in noise it sees about as much as the
    decoder, or more, in a fraction of the time; where the bottom model is far from linear, less. An audit runs both and
    believes the better. The penalty on large weights is chosen on held-back pairs; the choices reach from an exact fit
    to the mean record, so that uploads which tell nothing give the mean. Repeated uploads of a record,
    (records, repeats, ...), are taken as one long upload.
    """

    name: ClassVar[str] = "ridge"
    strength: ClassVar[Strength] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_UPLOADS}
    )

    def __init__(self) -> None:
        super().__init__()
        self._weights: Tensor | None = None

    def fit(self, evidence: Evidence) -> None:
        """Choose the penalty on held-back pairs, then solve with all of them."""
        uploads, records = pairs_of(evidence, where="attack 'ridge'")
        # In double precision: the products of uploads square whatever rounding there is.
        uploads, targets = uploads.to(self.device).double().flatten(1), records.to(self.device).double().flatten(1)
        self._upload_mean, self._record_mean = uploads.mean(0), targets.mean(0)
        uploads, targets = uploads - self._upload_mean, targets - self._record_mean
        # One scale for all features: scaling each would raise dead ones, which hold noise alone, to the others' height.
        spread = uploads.square().mean().sqrt().item()
        self._scale = spread if spread > 0 else 1.0
        uploads /= self._scale
        self.penalty = self._best_penalty(uploads, targets)
        self._weights = Solutions.of(uploads, targets).weights(self.penalty)
        self._range = (records.min().item(), records.max().item())
        self._record_shape = records.shape[1:]

    def reconstruct(self, uploads: Tensor) -> Tensor:
        """Return the linear guesses, within the range of the auxiliary records, on the CPU."""
        if self._weights is None:
            raise ConfigError("it has learned nothing yet", where="attack 'ridge'", remedy="call fit first")
        seen = (uploads.to(self.device).double().flatten(1) - self._upload_mean) / self._scale
        guesses = (self._record_mean + seen @ self._weights).clamp(*self._range)
        return guesses.float().cpu().reshape(len(uploads), *self._record_shape)

    def _best_penalty(self, uploads: Tensor, targets: Tensor) -> float:
        order = torch.randperm(len(uploads), generator=self.generator).to(self.device)
        held_back, train = order.tensor_split([max(len(order) // 10, 1)])
        solutions = Solutions.of(uploads[train], targets[train])
        known, missing = solutions.project(uploads[held_back]), targets[held_back]
        errors = [(solutions.guesses(known, penalty) - missing).square().mean().item() for penalty in _PENALTIES]
        return _PENALTIES[errors.index(min(errors))]


@dataclass(frozen=True)
class Solutions:
    """The ridge solutions W = (UᵀU + n·penalty)⁻¹UᵀY for every penalty at once, as `left` (`right` / (values + …)).

    Of UᵀU and UUᵀ the smaller one is decomposed: with more features than records that is the kernel form,
    W = Uᵀ(UUᵀ + n·penalty)⁻¹Y, which gives the same weights.
    """

    left: Tensor
    right: Tensor
    values: Tensor
    records: int

    @classmethod
    def of(cls, uploads: Tensor, targets: Tensor) -> Solutions:
        """Decompose centred uploads and targets, one row a record."""
        records, features = uploads.shape
        if features <= records:
            values, vectors = torch.linalg.eigh(uploads.T @ uploads)
            return cls(vectors, vectors.T @ (uploads.T @ targets), values.clamp(min=0), records)
        values, vectors = torch.linalg.eigh(uploads @ uploads.T)
        return cls(uploads.T @ vectors, vectors.T @ targets, values.clamp(min=0), records)

    def weights(self, penalty: float) -> Tensor:
        """Return W, one row a feature."""
        return self.guesses(self.left, penalty)

    def project(self, uploads: Tensor) -> Tensor:
        """Return what the guesses of all penalties have in common."""
        return uploads @ self.left

    def guesses(self, projected: Tensor, penalty: float) -> Tensor:
        """Return the guesses for uploads that `project` took."""
        return projected @ (self.right / (self.values + self.records * penalty)[:, None])
