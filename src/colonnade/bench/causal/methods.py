"""Everything that is given records and finds a graph: Colonnade, published methods, and graphs that need no records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from colonnade.bench.causal.peers import Schedule, peer_files, run_peer
from colonnade.bench.causal.sets import CausalSet
from colonnade.errors import DataError, RunError
from colonnade.measure.graph import Mask, empty_graph_scores, graph_scores, random_graph_scores

if TYPE_CHECKING:
    from colonnade.discover.graph import CausalGraph

Scores = dict[str, Any]
"""Of `measure.graph`, with `seconds` and `bytes` where they mean something."""


class Method(Protocol):
    """Finds a graph in a data set and scores it; several processes may each hold a copy.

    Attributes:
        name: stands in the row.
        secure: whether the parties' columns were encrypted on the way; None for methods that see all of them.
        seeded: whether another seed may find another graph in the same data.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def secure(self) -> bool | None: ...  # noqa: D102

    @property
    def seeded(self) -> bool: ...  # noqa: D102

    def score(self, data: CausalSet, seed: int) -> Scores: ...  # noqa: D102

    def files(self) -> list[Path]:
        """Files that decide what it finds."""
        ...


_DECIDING = (
    "coordinator",
    "decoders",
    "evidence",
    "exchange",
    "likelihoods",
    "party",
    "secure_exchange",
    "timetable",
    "validator",
    "variables",
)


@dataclass(frozen=True)
class Colonnade:
    """Our method, on the federation."""

    secure: bool | None = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = "colonnade"
    seeded: bool = True

    def score(self, data: CausalSet, seed: int) -> Scores:
        """Discover and score."""
        started = time.perf_counter()
        graph = self.discover(data, seed)
        seconds = time.perf_counter() - started
        scores = {} if data.truth is None else graph_scores(edges_of(graph, data), data.truth, data.party_of)
        return {**scores, "seconds": seconds, "bytes": graph.cost.get("bytes")}

    def discover(self, data: CausalSet, seed: int) -> CausalGraph:
        """Return the graph; raw columns are left as they are, which nobody would do but a bench."""
        from colonnade.discover.discover import discover

        settings = {"standardise": data.standardised, **self.settings}
        try:
            return discover(data.federation(), secure=bool(self.secure), seed=seed, progress=False, **settings)
        except DataError as error:  # strengths without bound: one row less, and the table goes on
            raise RunError(f"no graph was found, {error}") from error

    def files(self) -> list[Path]:
        """Everything that decides a number of ours; who talks to whom, and over what, does not."""
        package = Path(str(files("colonnade")))
        own = [package / "discover" / f"{part}.py" for part in _DECIDING]
        return [*own, package / "federation" / "discovery.py", *sorted((package / "secure").glob("*.py"))]


def edges_of(graph: CausalGraph, data: CausalSet) -> Mask:
    """Return which edges a graph has, in the order of the set's columns."""
    names = list(data.frame.columns)
    found: Mask = graph.adjacency.loc[names, names].to_numpy() != 0
    return found


@dataclass(frozen=True)
class Peer:
    """A published method on the pooled columns."""

    name: str
    schedule: Schedule = "full"
    secure: bool | None = None
    seeded: bool = False

    def score(self, data: CausalSet, seed: int) -> Scores:
        """Run it in its own environment and score what it found."""
        assert data.truth is not None, "published methods are run to be compared"
        found = run_peer(self.name, data.values, seed, self.schedule)
        return {**graph_scores(found.oriented(data.truth), data.truth, data.party_of), "seconds": found.seconds}

    def files(self) -> list[Path]:
        """Runner and versions."""
        return peer_files()


@dataclass(frozen=True)
class _Blind:
    """A graph that is drawn without a look at the records."""

    name: str
    secure: bool | None = None
    seeded: bool = False

    def files(self) -> list[Path]:
        """Nothing to watch."""
        return []


@dataclass(frozen=True)
class RandomGraph(_Blind):
    """The mean of 100 random graphs with the true number of edges."""

    name: str = "random"

    def score(self, data: CausalSet, seed: int) -> Scores:
        """Look at no record."""
        assert data.truth is not None
        return dict(random_graph_scores(data.truth, int(data.truth.sum()), seed, party=data.party_of))


@dataclass(frozen=True)
class EmptyGraph(_Blind):
    """No edge at all."""

    name: str = "empty"

    def score(self, data: CausalSet, seed: int) -> Scores:
        """Look at no record."""
        assert data.truth is not None
        return dict(empty_graph_scores(data.truth, data.party_of))
