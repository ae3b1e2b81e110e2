"""An oracle that knows of a coin: records come as they are or as negatives, and it learns them up to the sign."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.attack.base import Attack, Strength
from colonnade.attack.decoder import pairs_of
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.errors import ConfigError
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.optimize import learning_rate
from colonnade.learn.repeated import RepeatedStep
from colonnade.nets.blocks import Dense
from colonnade.nets.device import on_device
from colonnade.nets.veil import Veil
from colonnade.nets.weights import initialised
from colonnade.strength import number, yes_or_no

_WIDTH = 256
_Pairs = tuple[Tensor, Tensor]


class EitherWay(Attack):
    """Oracle regression against Keystone: the largest components that a veil leaves of a record, up to their sign.

    A decoder that must hit a record squarely makes next to nothing of uploads of which half are of negatives: whatever
    it guesses is as often wrong as right, and the mean is its best answer, however much an upload tells. This one is
    held to the nearer of a record and its negative, about the mean of the records that it knows; which of both it was,
    no upload tells. What it gets at is what the coin alone does not hide.

    It guesses components and no record, so it is no attack of the registry.

    Args:
        veil: components that the victim takes away; the attacker takes its own away from the records that it knows.
        components: how many of the next ones are guessed.
        knows: of the coin; False gives the same reader without that knowledge, to compare with.
        epochs: passes over the pairs; the best one on pairs held back is kept.
        batch_size: pairs per step.
        rate: learning rate of AdamW, which falls along a cosine.
    """

    name: ClassVar[str] = "either-way"
    strength: ClassVar[Strength] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_UPLOADS}
    )

    def __init__(
        self,
        veil: int = 32,
        components: int = 16,
        *,
        knows: bool = True,
        epochs: int = 60,
        batch_size: int = 64,
        rate: float = 1e-3,
    ) -> None:
        super().__init__()
        self.veil = int(number("either_way.veil", veil, at_least=0, whole=True))
        self.components = int(number("either_way.components", components, at_least=1, whole=True))
        self.knows = yes_or_no("either_way.knows", knows)
        self.epochs = int(number("either_way.epochs", epochs, at_least=1, whole=True))
        self.batch_size = int(number("either_way.batch_size", batch_size, at_least=2, whole=True))
        self.rate = number("either_way.rate", rate, at_least=1e-12)
        self._network: nn.Module | None = None

    def fit(self, evidence: Evidence) -> None:
        """Find components of the known records, and learn to guess them from uploads."""
        uploads, records = pairs_of(evidence, where="attack 'either-way'")
        self._find_components(records)
        order = torch.randperm(len(records), generator=self.generator)
        held_back, train = order.tensor_split([max(len(order) // 10, 1)])
        uploads = uploads.flatten(1)
        spread = uploads[train].std(0)
        self._centre, self._scale = uploads[train].mean(0), torch.where(spread > 0, spread, 1.0)
        seen, wanted = self._seen(uploads), self.of(records).to(self.device)
        network = on_device(
            initialised(lambda: _reader(uploads.shape[1], self.components), self.random_seed, 0), self.device
        )
        self._network = self._trained(network, (seen[train], wanted[train]), (seen[held_back], wanted[held_back]))

    def of(self, records: Tensor) -> Tensor:
        """Return the components of records, on the CPU."""
        found: Tensor = self._veil.rest(records.float()) @ self._directions
        return found

    @torch.no_grad()
    def guess(self, uploads: Tensor) -> Tensor:
        """Return the guessed components of the records behind uploads, on the CPU; their sign means nothing."""
        if self._network is None:
            raise ConfigError("it has learned nothing yet", where="attack 'either-way'", remedy="call fit first")
        guessed: Tensor = self._network.eval()(self._seen(uploads.flatten(1)))
        return guessed.cpu()

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength, the knowledge and the arguments."""
        recipe = {"veil": self.veil, "components": self.components, "knows": self.knows}
        more = {"epochs": self.epochs, "batch_size": self.batch_size, "rate": self.rate}
        return {**super().describe(), **recipe, **more}

    def _find_components(self, records: Tensor) -> None:
        self._veil = Veil(tuple(records.shape[1:]), self.veil)
        self._veil.fit(records)
        rest = self._veil.rest(records)
        if self.components > min(rest.shape):
            what = f"{len(rest)} records of {rest.shape[1]} numbers have no {self.components} components"
            raise ConfigError(what, where="either_way.components", remedy=f"give at most {min(rest.shape)}")
        self._directions = torch.linalg.svd(rest, full_matrices=False).Vh[: self.components].mT

    def _seen(self, uploads: Tensor) -> Tensor:
        return ((uploads.float() - self._centre) / self._scale).to(self.device)

    def _trained(self, network: nn.Module, train: _Pairs, held_back: _Pairs) -> nn.Module:
        settings = OptimizerSettings(name="adamw", learning_rate=self.rate, weight_decay=1e-2, schedule="cosine")
        take = RepeatedStep(network, lambda seen, wanted: self._loss(network(seen), wanted), settings)
        steps = math.ceil(len(train[0]) / self.batch_size)
        least, best = math.inf, copy.deepcopy(network.state_dict())
        for epoch in range(self.epochs):
            network.train()
            order = torch.randperm(len(train[0]), generator=self.generator).to(self.device)
            for batch, rows in enumerate(torch.split(order, self.batch_size)):
                rate = learning_rate(settings, epoch * steps + batch, steps, self.epochs)
                take((train[0][rows], train[1][rows]), rate)
            with torch.no_grad():
                error = self._loss(network.eval()(held_back[0]), held_back[1]).item()
            if error < least:
                least, best = error, copy.deepcopy(network.state_dict())
        network.load_state_dict(best)
        return network

    def _loss(self, guessed: Tensor, wanted: Tensor) -> Tensor:
        error = (guessed - wanted).square().mean(1)
        if self.knows:
            error = torch.minimum(error, (guessed + wanted).square().mean(1))
        return error.mean()


def skill_up_to_sign(guessed: Tensor, truths: Tensor) -> float:
    """Return the share of what the truths are that guesses explain, of each guess and its negative the nearer.

    Guesses that tell nothing explain a little too, because the nearer of two is taken: compare with those of others.

    >>> truths = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> skill_up_to_sign(-truths, truths), skill_up_to_sign(torch.zeros(2, 2), truths)
    (1.0, 0.0)
    """
    errors = torch.minimum((guessed - truths).square().sum(1), (guessed + truths).square().sum(1))
    return 1 - (errors.sum() / truths.square().sum()).item()


def identified_up_to_sign(guessed: Tensor, truths: Tensor) -> float:
    """Return the share of guesses that are more alike their own truth, or its negative, than any other's.

    >>> identified_up_to_sign(torch.tensor([[-2.0, 0.1], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
    1.0
    """
    alike = nn.functional.normalize(guessed, dim=1) @ nn.functional.normalize(truths, dim=1).mT
    return (alike.abs().argmax(1) == torch.arange(len(truths))).double().mean().item()


def _reader(numbers: int, components: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(2):
        layers += [Dense(numbers, _WIDTH), nn.LayerNorm(_WIDTH), nn.ReLU()]
        numbers = _WIDTH
    return nn.Sequential(*layers, Dense(numbers, components))
