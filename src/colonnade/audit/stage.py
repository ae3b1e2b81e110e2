"""One seed of an audit: the records are divided, every attack plays on the same division and the same uploads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from colonnade.attack import Attack, Insider
from colonnade.attack.evidence import Evidence
from colonnade.audit.attacks import attack_afterwards, attack_inside, bottom_of, wants_repeats
from colonnade.audit.evidence import evidence_on, prepared
from colonnade.audit.held_out import HeldOut, divide
from colonnade.audit.rows import EVERYBODY, Row, victim_keys
from colonnade.audit.score import CANDIDATES
from colonnade.audit.settings import Settings
from colonnade.audit.truth import Truth, check_guesses, joined, natural, side_by_side, truth_of
from colonnade.federation.federation import Federation
from colonnade.learn.model import VerticalModel
from colonnade.measure.reconstruct import Floats


@dataclass(frozen=True)
class Guess:
    """One party's targets, or all strips side by side, and what was guessed for them."""

    party: str
    truth: Truth
    guesses: Floats


@dataclass(frozen=True)
class Stage:
    """A model whose held-out records are divided into what the attacker knows and what it wants."""

    model: VerticalModel
    settings: Settings
    auxiliary: HeldOut
    targets: HeldOut
    seed: int

    @classmethod
    def of(cls, model: VerticalModel, held: HeldOut, settings: Settings, seed: int) -> Stage:
        """Divide `held` with `seed`; `model` is a working copy, whose defenses will draw other noise."""
        return cls(model, settings, *divide(held, settings.auxiliary, settings.targets, seed), seed)

    @cached_property
    def truths(self) -> dict[str, Truth]:
        """The truth about each audited party's targets."""
        return {party: self._truth(party) for party in self.targets.records}

    @cached_property
    def whole(self) -> dict[str, Truth]:
        """The truth about whole pictures, under a name of its own; empty where the parties hold no strips of them."""
        found = joined(self.truths)
        return {} if found is None else {EVERYBODY: found}

    @property
    def seeds(self) -> Row:
        """What tells this stage's rows from those of other seeds."""
        return {"seed": self.seed, "model_seed": self.model.agreement.seed}

    @property
    def candidates(self) -> int:
        """Among how many records a guess has to find the true one."""
        return min(CANDIDATES, len(self.targets))

    def described(self) -> dict[str, Any]:
        """Return the numbers that a reader of the scores needs."""
        return {
            "auxiliary": len(self.auxiliary),
            "targets": len(self.targets),
            "candidates": self.candidates,
            "threshold": self.settings.threshold,
            "repeats": self.settings.repeats,
        }

    def keys(self, party: str) -> Row:
        """Return the keys that say whose uploads were attacked."""
        if party != EVERYBODY:
            return victim_keys(self.settings.dataset, party, bottom_of(self.model, party))
        each = [self.keys(one) for one in self.truths]
        same = len({(one["defense"], one["defense_settings"]) for one in each}) == 1
        mixed = {} if same else {"defense": "mixed", "strength": math.nan, "defense_settings": "{}"}
        return {**each[0], "party": EVERYBODY, **mixed}

    def evidence(self, party: str, repeats: int | None = None) -> Evidence:
        """Return everything that could be granted about one party."""
        bottom = bottom_of(self.model, party)
        return evidence_on(party, bottom, self.auxiliary, self.targets, seed=self.seed, repeats=repeats)

    def attacked_by(self, attack: Attack, federation: Federation | None) -> Iterator[Guess]:
        """Let the attack play; yield what it guessed for each party, then for whole pictures."""
        found = self._play(attack, federation)
        guesses = {party: self._natural(party, found[party], attack.name) for party in self.truths}
        for party, truth in self.truths.items():
            yield Guess(party, truth, guesses[party])
        for party, truth in self.whole.items():
            yield Guess(party, truth, side_by_side(guesses))

    def _play(self, attack: Attack, federation: Federation | None) -> Mapping[str, Tensor]:
        seed, device = self.seed, self.settings.device
        if isinstance(attack, Insider):
            return attack_inside(attack, self.model, federation, self.auxiliary, self.targets, seed=seed, device=device)
        repeats = self.settings.repeats if wants_repeats(attack) else None
        evidence = {party: self.evidence(party, repeats) for party in self.truths}
        return attack_afterwards(attack, evidence, seed, device)

    def _truth(self, party: str) -> Truth:
        bottom = bottom_of(self.model, party)
        known, wanted = (prepared(bottom, part.records[party]) for part in (self.auxiliary, self.targets))
        return truth_of(bottom.preparation, wanted, known)

    def _natural(self, party: str, guesses: Tensor, attack: str) -> Floats:
        bottom = bottom_of(self.model, party)
        shape = (len(self.targets), *bottom.recipe["input_shape"])
        return natural(bottom.preparation, check_guesses(guesses.float().numpy(), shape, f"attack '{attack}'"))
