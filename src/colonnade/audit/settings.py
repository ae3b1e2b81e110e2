"""How an audit is done, whatever is attacked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from colonnade.audit.score import THRESHOLD
from colonnade.errors import ConfigError, nearest
from colonnade.strength import number


@dataclass(frozen=True)
class Settings:
    """What an auditor chooses besides the attacks.

    Attributes:
        auxiliary: the share of the held-out records that the attacker knows.
        targets: at most so many of the others are attacked.
        repeats: how often a record is uploaded for an attack that averages uploads.
        threshold: a record whose mean squared error is at most this counts as found in `asr`.
        dataset: what the records are called in the result.
        device: where attacks compute, `cpu` or `cuda`.
    """

    auxiliary: float = 0.5
    targets: int = 1000
    repeats: int = 8
    threshold: float = THRESHOLD
    dataset: str = ""
    device: str = "cpu"

    def __post_init__(self) -> None:
        number("auxiliary", self.auxiliary)
        if not 0 < self.auxiliary < 1:
            remedy = "give more than 0 and less than 1"
            raise ConfigError(f"{self.auxiliary!r} is no share of the records", where="auxiliary", remedy=remedy)
        number("targets", self.targets, at_least=2, whole=True)
        number("repeats", self.repeats, at_least=1, whole=True)
        number("threshold", self.threshold, at_least=0)


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Return the settings; an unknown name is an error that tells the nearest.

    >>> settings_from({"auxiliary": 0.2}).targets
    1000
    """
    known = [field.name for field in fields(Settings)]
    for name in given:
        if name not in known:
            raise ConfigError(f"unknown setting '{name}'", where="audit", remedy=nearest(name, known))
    return Settings(**given)


def seeds_from(given: int | Sequence[int]) -> list[int]:
    """Return the seeds: so many from 0, or those that were listed.

    >>> seeds_from(3), seeds_from([7])
    ([0, 1, 2], [7])
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        return list(range(int(number("seeds", given, at_least=1, whole=True))))
    listed = [int(number("seeds", seed, at_least=0, whole=True)) for seed in given]
    if not listed or len(set(listed)) < len(listed):
        raise ConfigError(f"{listed} are no seeds", where="seeds", remedy="give at least one, and each once")
    return listed
