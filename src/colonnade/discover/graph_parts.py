"""What a causal graph is made of, each part checked: names, parties, numbers, an order without a cycle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.errors import ConfigError
from colonnade.measure.graph import Mask

WHERE = "CausalGraph"

Matrix = npt.NDArray[np.float64]


class Edge(NamedTuple):
    """One edge; `kind` is `inter` between parties and `intra` within one; `confidence` is NaN where unknown."""

    cause: str
    effect: str
    strength: float
    confidence: float
    cause_party: str
    effect_party: str
    kind: Literal["inter", "intra"]


def checked_names(adjacency: pd.DataFrame) -> tuple[str, ...]:
    """Return the names of the variables."""
    names: tuple[Any, ...] = tuple(adjacency.columns)
    if not names or tuple(adjacency.index) != names:
        remedy = "give a square frame, rows and columns in the same order"
        raise ConfigError("rows and columns are not the same variables", where="adjacency", remedy=remedy)
    for name in names:
        check_name(name, "variable")
        if names.count(name) > 1:
            raise ConfigError(f"the variable '{name}' occurs twice", where="adjacency", remedy="rename one of them")
    return names


def checked_parties(party_of: Mapping[str, str], variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the party of each variable."""
    if odd := set(party_of) ^ set(variables):
        what = f"'{min(map(str, odd))}' is not both a variable of the graph and one with a party"
        raise ConfigError(what, where="party_of", remedy="name one party for each variable")
    for party in party_of.values():
        check_name(party, "party")
    return tuple(party_of[name] for name in variables)


def checked_matrix(where: str, frame: pd.DataFrame, variables: tuple[str, ...], greatest: float) -> Matrix:
    """Return a frame over `variables` as an array of finite numbers between 0 and `greatest`."""
    if tuple(frame.index) != variables or tuple(frame.columns) != variables:
        remedy = "give all frames the same variables in the same order"
        raise ConfigError("names other variables than the adjacency", where=where, remedy=remedy)
    try:
        matrix = frame.to_numpy(dtype=np.float64) + 0.0  # a copy, with -0 as 0
    except (ValueError, TypeError) as error:
        raise ConfigError("holds something else than numbers", where=where) from error
    if not (np.isfinite(matrix) & (matrix >= 0) & (matrix <= greatest)).all():
        what = "holds a number below 0" + (f" or above {greatest:g}" if math.isfinite(greatest) else " or not finite")
        raise ConfigError(what, where=where, remedy="[cause, effect] is 0 where there is no edge, else above 0")
    return matrix


def causal_order(mask: Mask, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return all variables, every cause before its effects."""
    causes = {
        variables[effect]: [variables[cause] for cause in np.flatnonzero(mask[:, effect])]
        for effect in range(len(mask))
    }
    try:
        return tuple(TopologicalSorter(causes).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        remedy = "leave out the weakest edge of each cycle"
        raise ConfigError(f"the edges form a cycle: {circle}", where="adjacency", remedy=remedy) from None


def checked_cost(cost: Mapping[str, int | float]) -> dict[str, int | float]:
    """Return plain finite numbers."""
    numbers: dict[str, int | float] = {}
    for name, value in cost.items():
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, int | float) or not math.isfinite(number):
            raise ConfigError(f"'{name}' is no finite number", where="cost")
        numbers[name] = number
    return numbers


def checked_share(where: str, value: float | None) -> float | None:
    """Return a number between 0 and 1, None for NaN."""
    if value is None or math.isnan(value):
        return None
    if not 0 <= value <= 1:
        raise ConfigError(f"{value} is not between 0 and 1", where=where)
    return float(value)


def checked_contributions(contributions: Mapping[str, float], parties: tuple[str, ...]) -> dict[str, float]:
    """Return one share for each party that holds a variable, or none at all; shares sum to 1."""
    if not contributions:
        return {}
    if set(contributions) != set(parties):
        remedy = "name each party that holds a variable, and nobody else"
        raise ConfigError("are not those of the graph's parties", where="contributions", remedy=remedy)
    found = {party: float(contributions[party]) for party in dict.fromkeys(parties)}
    if not math.isclose(sum(found.values()), 1.0, abs_tol=1e-6):
        raise ConfigError(f"sum to {sum(found.values()):g}, not to 1", where="contributions")
    return found


def check_name(name: Any, of: str, where: str = WHERE) -> None:
    """Raise if a name cannot be written to a file: that of a variable, or of a party."""
    writable = isinstance(name, str) and name and "\0" not in name
    if not writable or any("\ud800" <= letter <= "\udfff" for letter in name):
        what = f"{name!r} is no name of a {of}"
        raise ConfigError(what, where=where, remedy="use text that can be written to a file")
