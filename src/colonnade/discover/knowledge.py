"""What people know before the data speaks: required and forbidden edges, tiers, roots and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from pydantic import ValidationError

from colonnade.discover.validator import cyclic_part, reachable
from colonnade.discover.variables import Mask
from colonnade.errors import ConfigError, nearest
from colonnade.federation.knowledge import Edge, Knowledge

__all__ = [
    "FIELD",
    "Constraints",
    "Edge",
    "Knowledge",
    "Stated",
    "check_public",
    "check_together",
    "combine",
    "combine_private",
    "divide",
    "own_only",
]

Stated = Knowledge | Mapping[str, Any]
"""Knowledge, or a mapping of its parts."""

FIELD = "knowledge"
"""What an error in knowledge names that stands in no file."""


@dataclass(frozen=True)
class Constraints:
    """Masks [cause, effect] over all variables; they never contradict each other.

    Attributes:
        required: edges that are in the graph; acyclic.
        forbidden: edges that are not, self-loops and edges that would close a cycle of required ones among them.
    """

    required: Mask
    forbidden: Mask


def combine(knowledge: Iterable[Knowledge], variables: Sequence[str], where: str = FIELD) -> Constraints:
    """Put together what all have stated about these variables.

    Args:
        knowledge: what each has stated.
        variables: those of the graph, in its order.
        where: whom or which file an error names.

    Raises:
        ConfigError: an unknown variable, a variable in two tiers, an edge both required and forbidden, or a required
            cycle.

    Example:
        >>> combine([Knowledge(tiers=[["age"], ["bmi"]])], ["age", "bmi"]).forbidden.tolist()
        [[True, False], [True, True]]
    """
    places = {name: place for place, name in enumerate(variables)}
    required = np.zeros((len(variables), len(variables)), dtype=bool)
    forbidden = np.zeros_like(required)
    for stated in knowledge:
        _check_names(stated, places, where)
        for cause, effect in stated.required:
            required[places[cause], places[effect]] = True
        _forbid(stated, places, forbidden)
    _check_contradictions(required, forbidden, variables, where)
    # An edge against a path of required ones can never be in the graph, so it need not be learned.
    return Constraints(required, forbidden | reachable(required).T)


def combine_private(
    public: Knowledge, private: Mapping[str, Knowledge], names: Mapping[str, Sequence[str]]
) -> Constraints:
    """As the coordinator: put together what all may know and what each party has told the coordinator alone.

    Args:
        public: what all may know.
        private: what each party has stated.
        names: each party's variables; together they are the variables of the graph, in this order.

    Raises:
        ConfigError: as `combine`. An error stops the run and is told to everybody: it names the parties that a
            contradiction needs and no other, and no edge that a party has stated in private.
    """
    variables = _together(names)
    combine([public], variables)
    for party, stated in private.items():
        try:
            own_only(stated, names[party], where=party)
            combine([stated], variables)
        except ConfigError as error:
            what = "knows something of its edges that cannot be used"
            wrong = "unknown names, cycles, edges between others and edges both required and forbidden"
            remedy = f"look through the knowledge in its own file for {wrong}"
            raise ConfigError(what, where=party, remedy=remedy, told=True) from error
    parties = _smallest_contradiction(public, private, variables)
    if parties:
        alone = "what it knows contradicts what all know"
        what = alone if len(parties) == 1 else "what they know contradicts each other or what all know"
        remedy = "talk about your knowledge of edges"
        raise ConfigError(what, where=" and ".join(parties), remedy=remedy, told=True)
    return combine([public, *private.values()], variables)


def check_together(
    public: Knowledge,
    private: Mapping[str, Knowledge],
    names: Mapping[str, Sequence[str]],
    *,
    where: str = FIELD,
    files: Mapping[str, str] | None = None,
) -> None:
    """Where one process holds everything and has nobody to hide from: raise if it cannot all be true, and tell why.

    Args:
        public: what all may know.
        private: what each party has stated.
        names: each party's variables; together they are the variables of the graph.
        where: what an error in `public` names.
        files: what an error in one party's knowledge names, its own name where it is not there.

    Raises:
        ConfigError: as `combine`; a contradiction between parties names the fewest that make one.
    """
    variables = _together(names)
    combine([public], variables, where)
    for party, stated in private.items():
        combine([public, stated], variables, (files or {}).get(party, party))
    parties = _smallest_contradiction(public, private, variables)
    combine([public, *(private[party] for party in parties)], variables, " and ".join(parties))


def check_public(public: Knowledge, where: str) -> None:
    """Raise ConfigError if what all may know contradicts itself, whatever columns there are."""
    combine([public], sorted(set(_named(public))), where)


def _together(names: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for own in names.values() for name in own]


def _smallest_contradiction(
    public: Knowledge, private: Mapping[str, Knowledge], variables: Sequence[str]
) -> tuple[str, ...]:
    """Return the fewest parties whose knowledge cannot be true together with what all know; none if all of it can.

    Who is not needed for a contradiction has nothing to do with it, and others need not learn that it knows anything.
    """

    def fails(parties: Iterable[str]) -> bool:
        try:
            combine([public, *(private[party] for party in parties)], variables)
        except ConfigError:
            return True
        return False

    speaking = [party for party, stated in private.items() if stated != Knowledge()]
    if not fails(speaking):
        return ()
    # Only a cycle through many parties needs more than two, so that the search is short.
    groups = (group for count in range(1, len(speaking) + 1) for group in combinations(speaking, count))
    return next(filter(fails, groups))


def divide(
    knowledge: Stated | Mapping[str, Stated] | None, names: Mapping[str, Sequence[str]]
) -> tuple[Knowledge, dict[str, Knowledge]]:
    """Return what is stated in public, and what each party states to the coordinator alone; ConfigError if unusable.

    Args:
        knowledge: for all, or by party.
        names: each party's variables.

    Example:
        >>> divide({"lab": {"roots": ["glucose"]}}, {"clinic": ["age"], "lab": ["glucose"]})[1]["lab"].roots
        ('glucose',)
    """
    public, private = Knowledge(), {party: Knowledge() for party in names}
    if not isinstance(knowledge, Mapping) or (knowledge and set(knowledge) <= set(Knowledge.model_fields) - set(names)):
        public = _read(knowledge or {}, FIELD)
    else:
        for party, stated in knowledge.items():
            if party not in names:
                known = [*names, *Knowledge.model_fields]
                raise ConfigError(f"'{party}' is no party", where=FIELD, remedy=nearest(party, known))
            private[party] = _read(stated, party)
            own_only(private[party], names[party], where=party)
    check_together(public, private, names)
    return public, private


def _read(stated: Any, where: str) -> Knowledge:
    if isinstance(stated, Knowledge):
        return stated
    try:
        return Knowledge.model_validate(stated)
    except ValidationError as error:
        first = error.errors()[0]
        part = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise ConfigError(
                f"unknown part '{part}'", where=where, remedy=nearest(part, Knowledge.model_fields)
            ) from None
        what = f"'{part}': {first['msg']}" if part else first["msg"]
        raise ConfigError(what, where=where, remedy="edges are pairs (cause, effect), tiers lists of names") from None


def own_only(knowledge: Knowledge, own_names: Iterable[str], where: str) -> None:
    """Raise ConfigError when a party speaks of an edge between two variables that are not its own."""
    own = set(own_names)
    for kind, edges in (("required", knowledge.required), ("forbidden", knowledge.forbidden)):
        for cause, effect in edges:
            if cause not in own and effect not in own:
                raise _foreign(f"the {kind} edge {cause} → {effect}", where)
    for kind, names in (("root", knowledge.roots), ("sink", knowledge.sinks)):
        for name in names:
            if name not in own:
                raise _foreign(f"the {kind} '{name}'", where)
    foreign = [[name for name in tier if name not in own] for tier in knowledge.tiers]
    ordered = [names[0] for names in foreign if names]
    if len(ordered) > 1:
        raise _foreign(f"the order of '{ordered[0]}' and '{ordered[1]}'", where)


def _foreign(what: str, where: str) -> ConfigError:
    return ConfigError(
        f"{what} is not about the party's own variables",
        where=where,
        remedy="state only edges from or to your own variables",
    )


def _named(stated: Knowledge) -> list[str]:
    """Return every name in the order in which it is stated, as often as it is."""
    groups = (*stated.required, *stated.forbidden, *stated.tiers, stated.roots, stated.sinks)
    return [name for group in groups for name in group]


def _check_names(stated: Knowledge, places: dict[str, int], where: str) -> None:
    for name in _named(stated):
        if name not in places:
            raise ConfigError(f"unknown variable '{name}'", where=where, remedy=nearest(name, places))
    tiers = [name for tier in stated.tiers for name in tier]
    for name in tiers:
        if tiers.count(name) > 1:
            raise ConfigError(f"'{name}' stands in two tiers", where=where, remedy="leave it in one")


def _forbid(stated: Knowledge, places: dict[str, int], forbidden: Mask) -> None:
    for cause, effect in stated.forbidden:
        forbidden[places[cause], places[effect]] = True
    earlier: list[int] = []
    for tier in stated.tiers:
        now = [places[name] for name in tier]
        forbidden[np.ix_(now, earlier)] = True
        earlier += now
    forbidden[:, [places[name] for name in stated.roots]] = True
    forbidden[[places[name] for name in stated.sinks], :] = True


def _check_contradictions(required: Mask, forbidden: Mask, variables: Sequence[str], where: str) -> None:
    cycle = _cycle(required)
    if cycle:
        path = " → ".join(variables[place] for place in cycle)
        raise ConfigError(f"required edges form the cycle {path}", where=where, remedy="take one of them back")
    both = np.argwhere(required & forbidden)
    if len(both):
        cause, effect = (variables[place] for place in both[0])
        raise ConfigError(
            f"the edge {cause} → {effect} is required and also ruled out by a forbidden edge, a tier, a root or a sink",
            where=where,
            remedy="take one of the two back",
        )


def _cycle(graph: Mask) -> list[int]:
    """Return the places along one cycle, first and last the same; empty when there is none."""
    part = set(cyclic_part(graph).tolist())
    if not part:
        return []
    path = [min(part)]
    while path.count(path[-1]) == 1:
        path.append(min(part & set(np.flatnonzero(graph[path[-1]]).tolist())))
    return path[path.index(path[-1]) :]
