"""How long anybody waits for anything: one policy, four numbers."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import ConfigError


@dataclass(frozen=True)
class Deadline:
    """Every wait on the wire is bounded by one of these, in seconds.

    Attributes:
        connect: how long a peer may take to appear when the run starts.
        reply: how long `recv` waits for a message, and `send` for a peer that reads too slowly.
        heartbeat: a peer that is silent or disconnected for longer is lost; every wait ends within two heartbeats.
        learn: how long both wait for a living peer while their channel is `patient`, instead of `reply`: a defense
            may learn for hours before a party's first upload, and a party encrypts millions of ids for as long.
    """

    connect: float = 60.0
    reply: float = 600.0
    heartbeat: float = 5.0
    learn: float = 86_400.0

    def __post_init__(self) -> None:
        for name in ("connect", "reply", "learn", "heartbeat"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError("a deadline must be a positive number of seconds", where=f"deadline.{name}")
