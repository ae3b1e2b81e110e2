"""UnSplit (Erdogan et al. 2022): guess the records and the bottom model together, knowing neither."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from colonnade.attack.base import Attack, Strength
from colonnade.attack.evidence import Evidence, Knowledge, Operator
from colonnade.attack.registry import ATTACKS
from colonnade.errors import ConfigError, DataError
from colonnade.nets.device import on_device, precision
from colonnade.strength import number, one_of, yes_or_no

SMOOTHNESS, SIZE = 0.1, 1.0
"""Weights of the total variation and of the mean square of an estimate, as published."""
LEARNING_RATE = 1e-3
APART = 0.01
"""Deviation of the noise that estimates start with. At zero itself a network of convolutions without bias, batch norms
and ReLUs has no slope at all, neither for an estimate nor for a weight: the search would end where it began."""
_PATIENCE = 20  # rounds without a gain before the search ends
_GAIN = 1e-3  # share of the error that must go for a round to count as one


@dataclass(frozen=True)
class Preset:
    """How long to search: rounds, and in each so many steps on the estimates and as many on the clone."""

    rounds: int
    steps: int


PRESETS = {"smoke": Preset(50, 10), "default": Preset(200, 50), "paper": Preset(1000, 100)}


@ATTACKS.register("unsplit")
class UnSplit(Attack):
    """UnSplit: estimates of the records and a clone of the bottom, fitted in turns until they explain the uploads.

    It needs the architecture and nothing else: no record, no weight, no gradient. Each round takes steps on the
    estimates, then as many on the clone; it ends early when the clone explains the uploads no better for 20 rounds.

    Published is one record at a time, each with the clone that the one before left. By default all records share one
    clone instead, which is far quicker and stronger: a clone that must explain many uploads is held to more.

    Estimates are in the units of prepared records, where 0 is the mean: they start there but for a little noise, and
    the published penalty on their size pulls them there. Published are raw pixels that start at grey (.5) and are
    pulled to black; give `start` as (0.5 - mean) / scale of each channel for the same start. Columns of a table have
    no neighbours, so they have no total variation. Guesses are returned as they are, without the min-max normalisation
    of the published code.

    What to expect: nothing ties the clone to the true bottom, so the penalties let estimates shrink while the clone
    grows, and a longer search can be a worse one. Of 16 half digits behind an identity-like bottom it found 86 % with
    `smoke` (59 % one at a time) and 45 % with `default`, as skill against the mean; behind two random convolutions 3 %
    and 1 %. Batch norms make it worse: the size of an estimate no longer matters to the clone, which explained 98 % of
    the uploads of a narrow ResNet cut at 6 from estimates that had nothing to do with the records. A defense that stops
    this attack has shown little: the oracles say what leaks.

    Args:
        preset: how long to search: `smoke` 50 rounds of 10 + 10 steps, `default` 200 of 50 + 50, `paper` 1000 of
            100 + 100.
        images_at_once: records that share a clone at the same time; None takes all, 1 is as published.
        adaptive: put the defense's public operator behind the clone.
        start: where each estimate starts: one number, or one for each channel (of an image) or column.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "unsplit"
    strength: ClassVar[Strength] = "published"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset({Knowledge.UPLOADS, Knowledge.ARCHITECTURE})

    def __init__(
        self,
        preset: str = "default",
        images_at_once: int | None = None,
        adaptive: bool = False,
        start: float | Sequence[float] = 0.0,
        mixed: bool = False,
    ) -> None:
        super().__init__()
        self.preset = one_of("unsplit.preset", preset, PRESETS)
        self._search = PRESETS[self.preset]
        if images_at_once is not None:
            images_at_once = int(number("unsplit.images_at_once", images_at_once, at_least=1, whole=True))
        self.images_at_once = images_at_once
        self.adaptive = yes_or_no("unsplit.adaptive", adaptive)
        self.mixed = yes_or_no("unsplit.mixed", mixed)
        given = start if isinstance(start, Sequence) else [start]
        self.start = [number("unsplit.start", value) for value in given]
        if self.adaptive:
            # What an attack knows is a class's matter everywhere else; here it depends on how it was made.
            self.strength = "adaptive"  # type: ignore[misc]
            self.knowledge = self.knowledge | {Knowledge.DEFENSE_OPERATOR}  # type: ignore[misc]
        self.clone: nn.Module | None = None

    def fit(self, evidence: Evidence) -> None:
        """Make an untrained clone of the bottom model."""
        seed = int(torch.randint(2**62, (), generator=self.generator))
        self.clone = on_device(by_batch_alone(evidence.bottom_factory(seed)), self.device).train()
        self._operate: Operator | None = evidence.operator_behind(self.clone) if self.adaptive else None
        self._input_shape = evidence.input_shape

    def reconstruct(self, uploads: Tensor) -> Tensor:
        """Search for the records behind `uploads`; the clone goes on from where the last search left it."""
        groups = math.ceil(len(uploads) / self.images_at_once) if self.images_at_once else 1
        return torch.cat([self._estimate(part) for part in torch.tensor_split(uploads, groups)])

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength, the knowledge and the arguments."""
        start = self.start[0] if len(self.start) == 1 else self.start
        given = {"preset": self.preset, "images_at_once": self.images_at_once, "adaptive": self.adaptive}
        return {**super().describe(), **given, "start": start, "apart": APART, "mixed": self.mixed}

    def _estimate(self, uploads: Tensor) -> Tensor:
        """Return the estimates for uploads that share the clone."""
        clone = self._clone_for(len(uploads))
        targets = uploads.to(self.device).float()
        estimate = self._first_estimate(len(uploads)).requires_grad_()
        weights = list(clone.parameters())
        # Two optimisers, new for each search; only the clone's weights are handed on.
        on_estimate, on_clone = _optimizer([estimate]), _optimizer(weights) if weights else None
        plateau = _Plateau()
        for _ in range(self._search.rounds):
            for _ in range(self._search.steps):
                # The sum over records, so that each record's step is what it would be alone.
                loss = estimate_losses(self._explain(estimate), targets, estimate).sum()
                on_estimate.zero_grad()
                torch.autograd.backward(loss, inputs=[estimate])  # the clone learns later
                on_estimate.step()
            error = self._clone_steps(estimate.detach(), targets, on_clone)
            if plateau.reached(error):
                break
        return estimate.detach().cpu()

    def _clone_steps(self, estimate: Tensor, targets: Tensor, optimizer: torch.optim.Optimizer | None) -> float:
        """Fit the clone to the estimates; return how badly it explained the uploads before the last step."""
        if optimizer is None:  # a bottom without weights has nothing to steal
            with torch.no_grad():
                return upload_losses(self._explain(estimate), targets).mean().item()
        for _ in range(self._search.steps):
            loss = upload_losses(self._explain(estimate), targets).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return loss.item()  # once a round: the device is not kept waiting in between

    def _explain(self, estimate: Tensor) -> Tensor:
        assert self.clone is not None
        with precision(torch.device(self.device), self.mixed):
            representation: Tensor = self.clone(estimate)
        representation = representation.float()
        return representation if self._operate is None else self._operate(estimate, representation)

    def _clone_for(self, records: int) -> nn.Module:
        if self.clone is None:
            raise ConfigError("it has no clone yet", where="attack 'unsplit'", remedy="call fit first")
        if records < 2 and any(isinstance(part, nn.BatchNorm1d) for part in self.clone.modules()):
            remedy = "let at least two records share the clone (images_at_once)"
            raise ConfigError("batch normalisation can't take a single vector", where="attack 'unsplit'", remedy=remedy)
        return self.clone

    def _first_estimate(self, records: int) -> Tensor:
        first = self._input_shape[0]
        if len(self.start) not in (1, first):
            remedy = f"give one number, or {first}"
            raise ConfigError(f"{len(self.start)} numbers do not fit", where="unsplit.start", remedy=remedy)
        start = torch.tensor(self.start, device=self.device).reshape(-1, *(1 for _ in self._input_shape[1:]))
        apart = APART * torch.randn(records, *self._input_shape, generator=self.generator)
        return start + apart.to(self.device)


def estimate_losses(explained: Tensor, uploads: Tensor, estimate: Tensor) -> Tensor:
    """Return, for each record, what the steps on its estimate make small; the published batch loss is their mean."""
    size = estimate.square().flatten(1).mean(1)
    return upload_losses(explained, uploads) + SMOOTHNESS * total_variation(estimate) + SIZE * size


def upload_losses(explained: Tensor, uploads: Tensor) -> Tensor:
    """Return the mean squared error of each record's upload; the steps on the clone make their mean small."""
    if explained.shape != uploads.shape:
        what = f"its clone makes {tuple(explained.shape[1:])} of a record, but {tuple(uploads.shape[1:])} were uploaded"
        raise DataError(what, where="attack 'unsplit'", remedy="grant the architecture of the bottom that was attacked")
    return (explained - uploads).square().flatten(1).mean(1)


def total_variation(estimate: Tensor) -> Tensor:
    """Return, for each record, the mean squared difference of vertical neighbours plus that of horizontal ones."""
    variation = estimate.new_zeros(len(estimate))
    if estimate.dim() != 4:
        return variation
    for axis in (-2, -1):
        if estimate.shape[axis] > 1:
            variation = variation + estimate.diff(dim=axis).square().flatten(1).mean(1)
    return variation


def by_batch_alone(network: nn.Module) -> nn.Module:
    """Return the network with batch normalisation that looks at the batch and remembers nothing of earlier ones."""
    for part in network.modules():
        if isinstance(part, _BatchNorm):
            part.track_running_stats = False
            part.running_mean = part.running_var = part.num_batches_tracked = None
    return network


def _optimizer(tensors: list[Any]) -> torch.optim.Optimizer:
    return torch.optim.Adam(tensors, lr=LEARNING_RATE, amsgrad=True, fused=True)


class _Plateau:
    """Tells when an error has stopped falling."""

    def __init__(self) -> None:
        self._best, self._rounds = math.inf, 0

    def reached(self, error: float) -> bool:
        """Take the error of one more round; return whether the last ones brought no gain."""
        self._rounds += 1
        if error < (1 - _GAIN) * self._best:
            self._best, self._rounds = error, 0
        return self._rounds >= _PATIENCE
