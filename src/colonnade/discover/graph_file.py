"""The file of a causal graph: one JSON document, versioned, read strictly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from colonnade.errors import ConfigError, RunError
from colonnade.run import write_atomically

if TYPE_CHECKING:
    from colonnade.discover.graph import CausalGraph

_FORMAT = "colonnade causal graph"
_VERSION = 1

Graph = TypeVar("Graph", bound="CausalGraph")


class _Head(BaseModel):
    """What every version of the format begins with."""

    model_config = ConfigDict(strict=True)

    format: Literal["colonnade causal graph"]
    version: int


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class _Variable(_Part):
    name: str
    party: str


class _Edge(_Part):
    cause: str
    effect: str
    strength: float


class _Document(_Part):
    format: str
    version: int
    reveal: str
    variables: list[_Variable]
    edges: list[_Edge]
    confidence: list[list[float]] | None
    strengths: list[list[float]] | None
    varsortability: float | None
    r2_sortability: float | None
    notes: list[str]
    cost: dict[str, int | float]
    contributions: dict[str, float] = {}


def write_graph(graph: CausalGraph, path: Path) -> None:
    """Write everything that the graph holds, wholly or not at all."""
    write_atomically(path, graph_bytes(graph))


def graph_bytes(graph: CausalGraph) -> bytes:
    """Return everything that the graph holds as one JSON document."""
    document = _Document(
        format=_FORMAT,
        version=_VERSION,
        reveal=graph.reveal,
        variables=[_Variable(name=name, party=party) for name, party in graph.party_of.items()],
        edges=[_Edge(cause=edge.cause, effect=edge.effect, strength=edge.strength) for edge in graph.edge_list()],
        confidence=_rows(graph.confidence),
        strengths=_rows(graph.strengths),
        varsortability=graph.varsortability,
        r2_sortability=graph.r2_sortability,
        notes=list(graph.notes),
        cost=graph.cost,
        contributions=graph.contributions,
    )
    # Readers of the first files know no contributions: there are none in a file that needs none.
    none = set() if graph.contributions else {"contributions"}
    return (document.model_dump_json(indent=1, exclude=none) + "\n").encode()


def read_graph(path: Path, kind: type[Graph]) -> Graph:
    """Read a file that `write_graph` wrote; anything else is a RunError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise RunError(what, where=str(path), remedy="check the path of the saved graph") from error
    return graph_from_bytes(data, kind, where=str(path))


def graph_from_bytes(data: bytes, kind: type[Graph], where: str) -> Graph:
    """Return the graph of a document that `graph_bytes` made; anything else is a RunError."""
    try:
        version = _Head.model_validate_json(data).version
        if version != _VERSION:
            what = f"is a causal graph in version {version} of the format, and only {_VERSION} can be read"
            raise RunError(what, where=where, remedy="read it with the Colonnade that wrote it")
        return _graph(_Document.model_validate_json(data), kind)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"])) or "document"
        raise _damaged(where, f"{field}: {problem['msg']}") from error
    except (ConfigError, ValueError, KeyError) as error:
        raise _damaged(where, str(error)) from error


def _graph(document: _Document, kind: type[Graph]) -> Graph:
    names = [variable.name for variable in document.variables]
    position = {name: number for number, name in enumerate(names)}
    strengths = np.zeros((len(names), len(names)))
    for edge in document.edges:
        cause, effect = position[edge.cause], position[edge.effect]
        if strengths[cause, effect] != 0 or edge.strength <= 0:
            raise ValueError(f"the edge {edge.cause} -> {edge.effect} is there twice or has no strength")
        strengths[cause, effect] = edge.strength
    adjacency = pd.DataFrame(strengths, index=names, columns=names)
    return kind(
        adjacency,
        {variable.name: variable.party for variable in document.variables},
        confidence=_frame(document.confidence, names),
        strengths=_frame(document.strengths, names),
        notes=document.notes,
        cost=document.cost,
        varsortability=document.varsortability,
        r2_sortability=document.r2_sortability,
        reveal=document.reveal,
        contributions=document.contributions,
    )


def _rows(frame: pd.DataFrame | None) -> list[list[float]] | None:
    rows: list[list[float]] | None = None if frame is None else frame.to_numpy().tolist()
    return rows


def _frame(rows: list[list[float]] | None, names: list[str]) -> pd.DataFrame | None:
    if rows is None:
        return None
    matrix: npt.NDArray[np.float64] = np.array(rows, dtype=np.float64)
    return pd.DataFrame(matrix, index=names, columns=names)


def _damaged(where: str, why: str) -> RunError:
    return RunError(f"is no whole causal graph ({why})", where=where, remedy="restore it from a backup")
