"""Discrete Bayesian networks of the bnlearn repository: read a `.bif.gz` file, draw records from it."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.errors import DataError
from colonnade.measure.graph import Mask

_VARIABLE = re.compile(r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*\d+\s*\]\s*\{([^}]*)\}")
_PROBABILITY = re.compile(r"probability\s*\(\s*([^)|]+?)\s*(?:\|\s*([^)]*?)\s*)?\)\s*\{(.*?)\}", re.DOTALL)
_LINE = re.compile(r"(?:table|\(([^)]*)\))\s*([^;]*);")


@dataclass(frozen=True)
class Node:
    """One variable: its levels, its causes, and the chance of each level, one axis a cause and the last its own."""

    name: str
    levels: tuple[str, ...]
    causes: tuple[str, ...]
    chances: npt.NDArray[np.float64]


def read_network(path: Path) -> list[Node]:
    """Return the network's variables in the order of the file.

    Raises:
        DataError: the file is no network, or chances are missing.
    """
    try:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError("cannot be read as a network", where=str(path)) from error
    levels = {name: _names(listed) for name, listed in _VARIABLE.findall(text)}
    nodes = {name: _node(name, _names(causes), body, levels) for name, causes, body in _PROBABILITY.findall(text)}
    if not levels or set(nodes) != set(levels):
        raise DataError("does not give the chances of every variable", where=str(path))
    return [nodes[name] for name in levels]


def network_graph(nodes: list[Node]) -> Mask:
    """Return the network's edges, [cause, effect]."""
    place = {node.name: position for position, node in enumerate(nodes)}
    graph = np.zeros((len(nodes), len(nodes)), dtype=np.bool_)
    for node in nodes:
        graph[[place[cause] for cause in node.causes], place[node.name]] = True
    return graph


def sample_network(nodes: list[Node], records: int, seed: int) -> pd.DataFrame:
    """Draw records forwards, causes before effects; columns are categories in the order of `nodes`."""
    random = np.random.default_rng(seed)
    drawn: dict[str, npt.NDArray[np.int64]] = {}
    waiting = list(nodes)
    while waiting:
        ready = [node for node in waiting if all(cause in drawn for cause in node.causes)]
        if not ready:
            raise DataError("the network has a cycle", where=waiting[0].name)
        for node in ready:
            chances = node.chances[tuple(drawn[cause] for cause in node.causes)]
            reached = np.cumsum(np.broadcast_to(chances, (records, len(node.levels))), axis=1)
            place = (random.random((records, 1)) > reached).sum(axis=1)
            drawn[node.name] = np.minimum(place, len(node.levels) - 1)  # rounding may leave a sum just below 1
        waiting = [node for node in waiting if node.name not in drawn]
    return pd.DataFrame(
        {node.name: pd.Categorical.from_codes(drawn[node.name], pd.Index(node.levels)) for node in nodes}
    )


def _node(name: str, causes: tuple[str, ...], body: str, levels: dict[str, tuple[str, ...]]) -> Node:
    chances = np.full([*(len(levels[cause]) for cause in causes), len(levels[name])], np.nan)
    for case, numbers in _LINE.findall(body):
        where = tuple(levels[cause].index(level) for cause, level in zip(causes, _names(case), strict=True))
        chances[where] = [float(number) for number in _names(numbers)]
    if np.isnan(chances).any():
        raise DataError("lacks the chances of some of its causes' levels", where=name)
    return Node(name, levels[name], causes, chances)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())
