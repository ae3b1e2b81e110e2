"""What curious roles learn of foreign columns in a discovery, undefended and under mitigations, and what those cost.

Encryption changes no number that a party sees, only whose: a target sees the sum over all other parties, and no
party's features apart. So evidence of secure runs is gathered from plain ones, as that sum; a test compares it with a
real secure run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.bench.registry import Row

if TYPE_CHECKING:
    from colonnade.attack.discovery import CoordinatorObserver, DiscoveryEvidence, Guess, Observer
    from colonnade.bench.causal.sets import CausalSet
    from colonnade.discover.exchange import Floats, Layout
    from colonnade.federation.discovery import DiscoverySettings


@dataclass(frozen=True)
class Mitigation:
    """A way to show less: its name, how strong it is, and the settings that it is."""

    name: str = "none"
    strength: float | None = None
    settings: Mapping[str, Any] | None = None


UNDEFENDED = Mitigation()
MITIGATIONS = (
    UNDEFENDED,
    Mitigation("hidden", 2, {"hidden": 2}),
    Mitigation("hidden", 1, {"hidden": 1}),
    *(Mitigation("feature_noise", noise, {"feature_noise": noise}) for noise in (0.1, 0.3, 1.0, 3.0)),
    Mitigation("reveals", 160, {"epochs": 100, "refit_epochs": 60}),
    Mitigation("reveals", 40, {"epochs": 25, "refit_epochs": 15}),
    *(Mitigation("strength_epsilon", epsilon, {"strength_epsilon": epsilon}) for epsilon in (256.0, 64.0)),
)
"""`reveals` is how often each record comes by; undefended, 800 times."""

KNOWN = (5, 10, 30, 100)
MEASURED = ("correlation", "correlation_baseline", "correlation_elsewhere", "r2", "r2_baseline")


@dataclass(frozen=True)
class Watched:
    """A discovery that curious roles watched, and the truth to judge their guesses by."""

    observers: dict[str, Observer]
    coordinator: CoordinatorObserver
    layouts: dict[str, Layout]
    columns: dict[str, Floats]
    settings: DiscoverySettings
    scores: dict[str, Any]
    _pooled: dict[tuple[Any, ...], DiscoveryEvidence] = field(default_factory=dict)

    def evidence(
        self, attackers: Sequence[str], victims: Sequence[str] | None = None, coordinator: bool = False
    ) -> DiscoveryEvidence:
        """Return what attackers know, alone or with the coordinator."""
        from colonnade.attack.discovery import pool

        key = (tuple(attackers), tuple(victims or ()), coordinator)
        if key not in self._pooled:
            observers = {party: self.observers[party] for party in attackers}
            accomplice = self.coordinator if coordinator else None
            self._pooled[key] = pool(
                observers, self.layouts, self.columns, self.settings, victims=victims, coordinator=accomplice
            )
        return self._pooled[key]

    def truth(self, attackers: Sequence[str], victims: Sequence[str] | None = None) -> Floats:
        """Return the columns that attackers are after."""
        others = [party for party in self.layouts if party not in attackers and party in (victims or self.layouts)]
        return np.hstack([self.columns[party] for party in others])


def watch(data: CausalSet, attackers: Sequence[str], seed: int = 0, **settings: Any) -> Watched:
    """Discover in the clear while parties, and the coordinator, keep what they see."""
    from colonnade.attack.discovery import CoordinatorObserver, Observer
    from colonnade.discover.discover import discover_tables
    from colonnade.discover.exchange import Layout
    from colonnade.discover.variables import prepare_columns
    from colonnade.federation.discovery import DiscoverySettings
    from colonnade.measure.graph import graph_scores

    chosen = DiscoverySettings.model_validate({"secure": False, **settings})
    tables = {party: data.frame[columns] for party, columns in data.parties.items()}
    prepared = {party: prepare_columns(table, where=party) for party, table in tables.items()}
    observers = {party: Observer() for party in attackers}
    coordinator = CoordinatorObserver()
    graph = discover_tables(
        tables, chosen, seed=seed, progress=False, curious=observers, curious_coordinator=coordinator
    )
    found = graph.adjacency.loc[list(data.frame.columns), list(data.frame.columns)].to_numpy() > 0
    return Watched(
        observers,
        coordinator,
        {party: Layout(tuple(variable.width for variable in own.variables)) for party, own in prepared.items()},
        {party: own.plain for party, own in prepared.items()},
        chosen,
        {} if data.truth is None else graph_scores(found, data.truth, data.party_of),
    )


@dataclass(frozen=True)
class Case:
    """Who attacks, how, and what they know."""

    attack: str
    attackers: str = "one party"
    secure: bool = True
    known: int | None = None

    def concerns(self, mitigation: Mitigation) -> bool:
        """Whether the mitigation changes what the attack can know."""
        if mitigation.name == "strength_epsilon":
            return self.attackers == "party and coordinator" or self.attack == "verdict"
        return self.attack != "own_columns" or mitigation == UNDEFENDED


CASES = (
    *(Case(name) for name in ("subspace", "unsplit", "ica", "gram", "verdict")),
    *(Case(name, known=known) for name in ("own_columns", "known_records", "gram") for known in KNOWN),
    *(Case(name, "party and coordinator") for name in ("unsplit", "coordinator")),
    *(Case(name, "all but one") for name in ("unsplit", "ica", "verdict")),
    *(Case(name, secure=False) for name in ("unsplit", "ica", "verdict")),
)


def case_rows(data: CausalSet, settings: Mapping[str, Any], mitigation: Mitigation, seed: int) -> Iterator[Row]:
    """Yield a row for each attack on one discovery under one mitigation."""
    parties = list(data.parties)
    watched = watch(data, parties[:-1], seed, **{**settings, **(mitigation.settings or {})})
    for case in CASES:
        if (case.attackers == "all but one" or not case.secure) and len(parties) == 2:
            continue  # the same as one party's attack
        if not case.concerns(mitigation):
            continue
        started = time.perf_counter()
        leak = attack(watched, case, seed)
        yield {
            "method": "colonnade",
            "secure": case.secure,
            "parties": len(parties),
            "attack": case.attack,
            "attackers": case.attackers,
            "known_records": case.known,
            "mitigation": mitigation.name,
            "strength": mitigation.strength,
            **leak,
            "f1": watched.scores["f1"],
            "shd": watched.scores["shd"],
            "seconds": time.perf_counter() - started,
        }


def attack(watched: Watched, case: Case, seed: int = 0) -> dict[str, float | None]:
    """Return what an attack on a watched discovery shows: the fields of `Leak`, or None for each if it fails."""
    from colonnade.attack.discovery import judge
    from colonnade.errors import DataError

    parties = list(watched.layouts)
    attackers = parties[:-1] if case.attackers == "all but one" else parties[:1]
    victims = [party for party in parties if party not in attackers]
    # In the clear every party's features are seen apart, and are attacked apart.
    groups = [victims] if case.secure else [[victim] for victim in victims]
    try:
        guesses = [_guess(watched, case, attackers, group, seed) for group in groups]
    except DataError:
        return dict.fromkeys(MEASURED)
    leaks = [judge(guess, watched.truth(attackers, group)) for guess, group in zip(guesses, groups, strict=True)]
    weights = [watched.truth(attackers, group).shape[1] for group in groups]
    return {name: _mean([getattr(leak, name) for leak in leaks], weights) for name in MEASURED}


def _guess(watched: Watched, case: Case, attackers: list[str], victims: list[str], seed: int) -> Guess:
    from colonnade.attack.discovery import make_discovery_attack

    accomplice = case.attackers == "party and coordinator"
    everybody = len(attackers) + len(victims) == len(watched.layouts)
    evidence = watched.evidence(attackers, None if everybody else victims, accomplice)
    if case.known:
        evidence = evidence.knowing(case.known, watched.truth(attackers, victims), seed)
    chosen = make_discovery_attack(case.attack)
    chosen.seed(seed)
    return chosen.guess(evidence)


def _mean(values: Sequence[float | None], weights: Sequence[float] | None = None) -> float | None:
    if any(value is None for value in values):
        return None
    return float(np.average(np.asarray(values, np.float64), weights=weights))
