"""What all parties of a run have agreed on before the first message."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass

from colonnade.align.courier import ALIGN_KINDS
from colonnade.errors import ConfigError, nearest
from colonnade.federation.task import Task

PASSIVE_KINDS = frozenset({"hello", "ready", "upload", "evaluate", "test", "memory", "answer", *ALIGN_KINDS})
ACTIVE_KINDS = frozenset({"plan", "head", "shared", "gradient", "decision", "memory", *ALIGN_KINDS})


SIMULATION_SECRET = b"one process"
"""What stands for every party's secret in a simulation: there is nobody to hide from, and runs shall be repeatable."""


@dataclass(frozen=True)
class Agreement:
    """The same at every party; its digest is compared before anything is learned.

    Attributes:
        run: name of the run.
        parties: all parties, in the order of the federation file.
        active: the party that holds labels and the top model.
        task: what is learned.
        seed: every random choice that parties share comes from it.
    """

    run: str
    parties: tuple[str, ...]
    active: str
    task: Task
    seed: int

    def __post_init__(self) -> None:
        if self.active not in self.parties:
            raise ConfigError(f"active party '{self.active}' is not a party", remedy=nearest(self.active, self.parties))

    @property
    def passive(self) -> tuple[str, ...]:
        """All parties but the active one."""
        return tuple(party for party in self.parties if party != self.active)

    def digest(self) -> str:
        """Return a SHA-256 over everything agreed on."""
        agreed = [self.run, self.parties, self.active, self.task.model_dump(mode="json"), self.seed]
        return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()

    def private_seed(self, purpose: str, party: str, secret: bytes) -> int:
        """Return a seed that nobody but the holder of `secret` can compute.

        First weights and noise come from it. Were they drawn from the seed that all parties share, the active party
        could take the noise off again. It is as long as the secret is good for; in a simulation, which has none, it has
        63 bits.

        >>> agreement = Agreement("demo", ("a", "b"), "a", Task(), seed=0)
        >>> agreement.private_seed("noise", "a", b"mine") == agreement.private_seed("noise", "a", b"guessed")
        False
        """
        digest = hmac.digest(secret, f"{self.seed}/{purpose}/{party}".encode(), "sha256")
        return int.from_bytes(digest[:8]) >> 1 if secret == SIMULATION_SECRET else int.from_bytes(digest)

    def model_token(self, secret: bytes) -> str:
        """Return the name of the model that a run with the active party's `secret` makes; every part of it bears it.

        A run that is resumed makes the same model, and another one bears another name. It tells nothing of the secret.
        """
        return hmac.digest(secret, f"model/{self.digest()}".encode(), "sha256")[:16].hex()

    def allowed_kinds(self, party: str) -> frozenset[str]:
        """Return the message kinds that `party` may send in its role."""
        return ACTIVE_KINDS if party == self.active else PASSIVE_KINDS
