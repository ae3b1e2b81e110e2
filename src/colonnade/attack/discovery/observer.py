"""Curious roles that keep what they see, and how several put their views together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from colonnade.attack.discovery.evidence import DiscoveryEvidence, Look, Rows, Visit, as_shares
from colonnade.discover.curious import Curious
from colonnade.discover.exchange import Factors, Floats, Layout
from colonnade.errors import ConfigError
from colonnade.federation.discovery import DiscoverySettings
from colonnade.wire.message import Array

BUDGET = 256 << 20
_DENSE = 1 / 3


class Observer(Curious):
    """Keeps what one party sees, within a budget of bytes.

    When the budget is spent, the first third stays whole, because attacks on differences need neighbours; of the rest
    every second visit to each block goes. The features of each peer are kept apart where they are seen apart.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget, self._bytes = budget, 0
        self.visits: dict[int, list[Visit]] = {}
        self.apart: dict[tuple[int, int], dict[str, Floats]] = {}
        self.judgements: list[tuple[int, dict[str, Factors], bool]] = []

    def saw(self, step: int, rows: Array, features: Floats, apart: Mapping[str, Floats]) -> None:
        """Keep the features of an exchange."""
        visit = Visit(step, np.asarray(rows, np.int64), features.copy())
        block = int(rows[0])
        visits = self.visits.setdefault(block, [])
        if visits and visits[-1].step == step:
            visits.pop()  # a mere look at all edges: what comes after is seen with those that are left
        visits.append(visit)
        self.apart[block, step] = {peer: part.copy() for peer, part in apart.items()}
        self._bytes += features.nbytes * (2 + len(apart))
        while self._bytes > self._budget and self._thin():
            pass

    def answered(self, step: int, rows: Array, update: Floats) -> None:
        """Keep the answer to an exchange."""
        visits = self.visits[int(rows[0])]
        if visits and visits[-1].step == step:
            visits[-1] = replace(visits[-1], update=update.copy())

    def judged(self, step: int, incoming: Mapping[str, Factors], restrict: bool) -> None:
        """Keep the coordinator's factors for the edges into this party."""
        self.judgements.append((step, {peer: part.copy() for peer, part in incoming.items()}, restrict))

    def _thin(self) -> bool:
        dropped = False
        for block, visits in self.visits.items():
            dense = int(_DENSE * len(visits))
            gone = visits[dense:-1][1::2]
            self.visits[block] = visits[:dense] + visits[dense:-1][::2] + visits[-1:]
            for visit in gone:
                parts = self.apart.pop((block, visit.step))
                self._bytes -= visit.features.nbytes * (2 + len(parts))
            dropped = dropped or bool(gone)
        return dropped


class CoordinatorObserver:
    """Keeps the edge strengths that the coordinator sees, and its verdicts."""

    def __init__(self) -> None:
        self.looks: list[tuple[int, Floats, Floats]] = []

    def __call__(self, step: int, strengths: Floats, factors: Floats) -> None:
        """Keep one look; a second one at the same time weighs edges in another metric."""
        if not self.looks or self.looks[-1][0] != step:
            self.looks.append((step, strengths.copy(), factors.copy()))


def pool(
    observers: Mapping[str, Observer],
    layouts: Mapping[str, Layout],
    columns: Mapping[str, Floats],
    settings: DiscoverySettings,
    *,
    victims: Sequence[str] | None = None,
    coordinator: CoordinatorObserver | None = None,
) -> DiscoveryEvidence:
    """Put together what the parties with an observer know of all others, or of some victims among them.

    Accomplices know both fragments of the encoders between them, so they subtract their own features from each
    other's sums. Here those are taken from a plain run, in which a target sees each peer's features apart; a single
    party's evidence about all others needs no such thing and is the same in a secure run.

    Args:
        observers: of the attackers, by party.
        layouts: of all parties, in the order of the agreement.
        columns: the attackers' own encoded columns, all records.
        settings: of the run.
        victims: whose columns to guess: all others, or fewer where features are seen apart (a plain run).
        coordinator: what the coordinator saw, if it is an accomplice.
    """
    others = tuple(party for party in layouts if party not in observers)
    chosen = others if victims is None else tuple(party for party in layouts if party in victims)
    if not observers or not chosen or set(chosen) - set(others):
        raise ConfigError("there is nobody to attack", where="victims", remedy="name parties that do not attack")
    visits = _pooled_visits(observers, chosen, alone=len(observers) == 1 and chosen == others)
    return DiscoveryEvidence(
        settings=settings,
        variables=sum(layout.variables for layout in layouts.values()),
        widths=tuple(width for party in chosen for width in layouts[party].widths),
        effects=sum(layouts[party].variables for party in observers),
        visits=visits,
        own=np.hstack([columns[party] for party in observers]),
        verdicts=_pooled_verdicts(list(observers.values()), chosen),
        strengths=_strengths(coordinator, layouts, tuple(observers), chosen),
    )


def _pooled_visits(observers: Mapping[str, Observer], victims: tuple[str, ...], alone: bool) -> tuple[Visit, ...]:
    """Return the exchanges that all observers kept, their features and answers side by side."""
    views = [
        {(block, visit.step): visit for block, visits in seer.visits.items() for visit in visits}
        for seer in observers.values()
    ]
    found = []
    for key in sorted(set.intersection(*map(set, views)), key=lambda key: key[1]):
        visits = [view[key] for view in views]
        seen = visits[0].features
        if not alone:
            seen = np.hstack([_features(seer, *key, victims) for seer in observers.values()])
        updates = [visit.update for visit in visits if visit.update is not None]
        update = np.hstack(updates) if len(updates) == len(visits) else None
        found.append(Visit(key[1], visits[0].rows, seen, update))
    return tuple(found)


def _features(observer: Observer, block: int, step: int, victims: tuple[str, ...]) -> Floats:
    apart = observer.apart[block, step]
    if not apart:
        remedy = "pool the views of a plain run"
        raise ConfigError("features of single parties were not seen", where="observers", remedy=remedy)
    return sum((apart[victim] for victim in victims[1:]), apart[victims[0]])


def _pooled_verdicts(observers: list[Observer], victims: tuple[str, ...]) -> tuple[Look, ...]:
    # Of two verdicts at the same time the later one says which edges stay.
    by_step = [{step: (factors, last) for step, factors, last in seer.judgements} for seer in observers]
    common = sorted(set.intersection(*(set(said) for said in by_step)))
    return tuple(
        Look(step, np.hstack([as_shares(said[step][0], victims) for said in by_step]), by_step[0][step][1])
        for step in common
    )


def _strengths(
    coordinator: CoordinatorObserver | None,
    layouts: Mapping[str, Layout],
    attackers: tuple[str, ...],
    victims: tuple[str, ...],
) -> tuple[Look, ...]:
    if coordinator is None:
        return ()
    causes, effects = _places(layouts, victims), _places(layouts, attackers)
    return tuple(Look(step, strengths[np.ix_(causes, effects)]) for step, strengths, _ in coordinator.looks)


def _places(layouts: Mapping[str, Layout], parties: tuple[str, ...]) -> Rows:
    ends = np.cumsum([0, *(layout.variables for layout in layouts.values())])
    starts = dict(zip(layouts, ends, strict=False))
    return np.concatenate([np.arange(starts[party], starts[party] + layouts[party].variables) for party in parties])
