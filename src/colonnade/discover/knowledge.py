"""What people know before the data speaks: required and forbidden edges, tiers, roots and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from colonnade.discover.validator import cyclic_part, reachable
from colonnade.discover.variables import Mask
from colonnade.errors import ConfigError, nearest
from colonnade.federation.task import Settings

Edge = tuple[str, str]
_WHERE = "knowledge"


class Knowledge(Settings):
    """Prior knowledge in names of variables; each part is optional.

    Attributes:
        required: edges (cause, effect) that are in the graph.
        forbidden: edges (cause, effect) that are not.
        tiers: groups in the order of time: a later one never causes an earlier one. Variables in no tier are free.
        roots: variables without causes.
        sinks: variables without effects.
    """

    required: tuple[Edge, ...] = ()
    forbidden: tuple[Edge, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()
    roots: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Constraints:
    """Masks [cause, effect] over all variables; they never contradict each other.

    Attributes:
        required: edges that are in the graph; acyclic.
        forbidden: edges that are not, self-loops and edges that would close a cycle of required ones among them.
    """

    required: Mask
    forbidden: Mask


def combine(knowledge: Iterable[Knowledge], variables: Sequence[str]) -> Constraints:
    """Put together what all have stated about these variables.

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
        _check_names(stated, places)
        for cause, effect in stated.required:
            required[places[cause], places[effect]] = True
        _forbid(stated, places, forbidden)
    _check_contradictions(required, forbidden, variables)
    # An edge against a path of required ones can never be in the graph, so it need not be learned.
    return Constraints(required, forbidden | reachable(required).T)


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


def _check_names(stated: Knowledge, places: dict[str, int]) -> None:
    tiers = [name for tier in stated.tiers for name in tier]
    edges = [name for edge in (*stated.required, *stated.forbidden) for name in edge]
    for name in (*edges, *tiers, *stated.roots, *stated.sinks):
        if name not in places:
            raise ConfigError(f"unknown variable '{name}'", where=_WHERE, remedy=nearest(name, places))
    for name in tiers:
        if tiers.count(name) > 1:
            raise ConfigError(f"'{name}' stands in two tiers", where=_WHERE, remedy="leave it in one")


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


def _check_contradictions(required: Mask, forbidden: Mask, variables: Sequence[str]) -> None:
    cycle = _cycle(required)
    if cycle:
        path = " → ".join(variables[place] for place in cycle)
        raise ConfigError(f"required edges form the cycle {path}", where=_WHERE, remedy="take one of them back")
    both = np.argwhere(required & forbidden)
    if len(both):
        cause, effect = (variables[place] for place in both[0])
        raise ConfigError(
            f"the edge {cause} → {effect} is required and also ruled out by a forbidden edge, a tier, a root or a sink",
            where=_WHERE,
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
