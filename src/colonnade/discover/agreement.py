"""What all parties of a discovery have agreed on before the first message, and how they count messages."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from colonnade.align.courier import ALIGN_KINDS
from colonnade.errors import ConfigError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.federation.knowledge import Knowledge
from colonnade.secure.dispatch import SECURE_KINDS
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array, Message

COORDINATOR = "coordinator"
PARTY_KINDS = frozenset(
    {"hello", "feature", "gradient", "strength", "metric", "contribution", "memory", *SECURE_KINDS, *ALIGN_KINDS}
)
COORDINATOR_KINDS = frozenset({"plan", "verdict", "graph"})


@dataclass(frozen=True)
class DiscoveryAgreement:
    """The same at every party; its digest is compared before anything is learned.

    Attributes:
        run: name of the run.
        parties: all parties with columns, in order.
        coordinator: the topology validator; it holds no data.
        settings: how the graph is found.
        seed: every random choice that parties share comes from it.
        knowledge: what everybody may know about the graph.
    """

    run: str
    parties: tuple[str, ...]
    coordinator: str
    settings: DiscoverySettings
    seed: int
    knowledge: Knowledge = field(default_factory=Knowledge)

    def __post_init__(self) -> None:
        if self.coordinator in self.parties:
            what = f"'{self.coordinator}' holds columns"
            raise ConfigError(what, where="coordinator", remedy="name somebody who holds no data")
        if "all" in self.parties:
            what = "a graph that is shown to 'all' could not be told from one that is shown to a party of that name"
            raise ConfigError(what, where="parties", remedy="give the party 'all' another name")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ConfigError(f"{self.seed!r} is no seed", where="seed", remedy="give a whole number, 0 or more")

    @property
    def everybody(self) -> tuple[str, ...]:
        """The parties and the coordinator."""
        return (*self.parties, self.coordinator)

    def peers(self, party: str) -> tuple[str, ...]:
        """All parties with columns but `party`."""
        return tuple(peer for peer in self.parties if peer != party)

    def digest(self) -> str:
        """Return a SHA-256 over everything agreed on."""
        blocks = [block.model_dump(mode="json") for block in (self.settings, self.knowledge)]
        agreed = [self.run, self.parties, self.coordinator, *blocks, self.seed]
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()

    def generator(self, secret: bytes, *purpose: str | int) -> np.random.Generator:
        """Return random numbers that nobody but the holder of `secret` can compute.

        They do not depend on who holds which column, so that with one secret for all, in a simulation, a federation and
        an undivided run start from the same weights.
        """
        digest = hmac.digest(secret, json.dumps([self.seed, *purpose]).encode(), "sha256")
        return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))

    def allowed_kinds(self, party: str) -> frozenset[str]:
        """Return the message kinds that `party` may send in its role."""
        return COORDINATOR_KINDS if party == self.coordinator else PARTY_KINDS


class Conversation:
    """A channel on which messages of a kind are counted at both ends, so that nobody has to name their step."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._sent: Counter[tuple[str, str]] = Counter()
        self._received: Counter[tuple[str, str]] = Counter()

    def send(
        self, to: str, kind: str, tensors: Mapping[str, Array] | None = None, meta: Mapping[str, Any] | None = None
    ) -> None:
        """Send the next message of `kind` to `to`."""
        step = self._sent[to, kind]
        self._sent[to, kind] += 1
        self.channel.send(to, kind, step, dict(tensors or {}), dict(meta or {}))

    def recv(self, frm: str, kind: str) -> Message:
        """Wait for the next message of `kind` from `frm`."""
        step = self._received[frm, kind]
        self._received[frm, kind] += 1
        return self.channel.recv(frm, kind, step)
