"""What an attack on discovery is: it turns evidence into a guess of every foreign column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from colonnade.attack.discovery.evidence import DiscoveryEvidence, Rows
from colonnade.discover.exchange import Floats
from colonnade.registry import Registry
from colonnade.strength import make

Match = Literal["claimed", "best", "span"]
"""How a guess is held against the truth: column by column as claimed; each true column against its best match among
all guessed ones, where the attack cannot tell which is which; or against everything linear in the guess: a ceiling."""


@dataclass(frozen=True)
class Guess:
    """What an attack makes of its evidence.

    Attributes:
        rows: the records that it guesses.
        columns: a guess of the victims' columns for them, up to sign and scale.
        match: how it is to be held against the truth.
    """

    rows: Rows
    columns: Floats
    match: Match = "claimed"


class DiscoveryAttack(ABC):
    """Turns what curious roles of a discovery saw into a guess of the victims' columns.

    It draws randomness from `self.random` alone.
    """

    name: ClassVar[str]
    strength: ClassVar[Literal["published", "own", "oracle", "control"]] = "own"
    """As published; ours; knows the truth itself, the ceiling; or sees nothing of the victims, the floor."""

    def __init__(self) -> None:
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Give the attack its own random stream."""
        self.random = np.random.default_rng(seed)

    @abstractmethod
    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return a guess of every foreign column; DataError where the evidence does not suffice."""


DISCOVERY_ATTACKS: Registry[type[DiscoveryAttack]] = Registry("discovery attack", "colonnade.discovery_attacks")
"""Attacks on discovery by name; they guess columns from many exchanges and so are no `Attack` on uploads."""


def make_discovery_attack(chosen: str | DiscoveryAttack, **parameters: Any) -> DiscoveryAttack:
    """Return the attack that `chosen` names, made with `parameters`.

    >>> make_discovery_attack("ica").strength
    'published'
    """
    return make(DISCOVERY_ATTACKS, DiscoveryAttack, chosen, parameters)  # type: ignore[type-abstract]
