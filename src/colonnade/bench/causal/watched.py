"""Our method with curious roles in it, so that a row has both: how good the graph is, and what an attack recovers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.bench import discovery_leak
from colonnade.bench.causal.methods import Colonnade, Scores
from colonnade.bench.causal.sets import CausalSet
from colonnade.errors import DataError, RunError
from colonnade.measure.graph import graph_scores

WHOSE = (
    "the first party attacks; correlation is the mean absolute one of guessed and true columns; permuted records: the "
    "true columns against themselves with their records shuffled, what a guess shows that knows no record"
)
GATHERED = (
    "rows that are secure but not encrypted were gathered in the clear, as the sum over all other parties: what an "
    "encrypted run reveals, at a tenth of the time"
)


@dataclass(frozen=True)
class Watched:
    """Our method, watched and attacked.

    Attributes:
        name: stands in the row.
        attack: who attacks, how, and whether they see the sum over the others or each party apart.
        settings: of the discovery.
        encrypted: whether the run really is; otherwise what an encrypted run reveals is gathered in the clear.
        cycles: whether every edge above the least strength counts, cycles and all, as without a validator; ours draws
            an acyclic graph in any case.
    """

    name: str
    attack: discovery_leak.Case
    settings: Mapping[str, Any] = field(default_factory=dict)
    encrypted: bool = False
    cycles: bool = False
    seeded: bool = True

    @property
    def secure(self) -> bool | None:
        """Whether attackers see nobody's features apart."""
        return self.attack.secure

    @property
    def keys(self) -> dict[str, Any]:
        """What its rows say about the attack."""
        return {"attack": self.attack.attack, "attackers": self.attack.attackers, "encrypted": self.encrypted}

    def score(self, data: CausalSet, seed: int) -> Scores:
        """Discover, attack, score both; the seconds are those of the discovery."""
        parties = list(data.parties)
        attackers = parties[:-1] if self.attack.attackers == "all but one" else parties[:1]
        started = time.perf_counter()
        try:
            watched = discovery_leak.watch(data, attackers, seed, secure=self.encrypted, **self.settings)
        except DataError as error:
            raise RunError(f"no graph was found, {error}") from error
        seconds = time.perf_counter() - started
        shown = discovery_leak.attack(watched, self.attack, seed)["correlation"]
        scores = _with_cycles(watched, data) if self.cycles else watched.scores
        return {**scores, "correlation": shown, "seconds": seconds}

    def files(self) -> list[Path]:
        """What decides the graph, the noise on it, and the attacks."""
        package = Path(str(files("colonnade")))
        attacks = sorted((package / "attack" / "discovery").glob("*.py"))
        more = [package / "discover" / "noise.py", package / "bench" / "discovery_leak.py", Path(__file__)]
        return [*Colonnade().files(), *more, *attacks]


@dataclass(frozen=True)
class PermutedRecords:
    """The columns that the first party is after, against themselves with their records shuffled.

    Whatever is guessed, one column against one, shuffling leaves a mean squared correlation of 1 / (records - 1).
    """

    name: str = "permuted records"
    secure: bool | None = None
    seeded: bool = False

    def score(self, data: CausalSet, seed: int) -> Scores:
        """Look at no feature."""
        from colonnade.attack.discovery import Guess, judge

        foreign = data.values[:, len(next(iter(data.parties.values()))) :]
        guess = Guess(np.arange(len(foreign)), foreign)
        return {"correlation": judge(guess, foreign, seed).correlation_baseline}

    def files(self) -> list[Path]:
        """How a guess is judged."""
        return [Path(str(files("colonnade"))) / "attack" / "discovery" / "judge.py"]


def _with_cycles(watched: discovery_leak.Watched, data: CausalSet) -> Scores:
    """Score the edges that the coordinator saw last, before it drew an acyclic graph of them."""
    assert data.truth is not None
    _, strengths, _ = watched.coordinator.looks[-1]
    return dict(graph_scores(strengths > watched.settings.least_strength, data.truth, data.party_of))
