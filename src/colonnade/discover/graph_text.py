"""One screen of text about a causal graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade.discover.graph import CausalGraph
    from colonnade.discover.graph_parts import Edge

_MOST = 10
_WIDTH = 32


def describe(graph: CausalGraph) -> str:
    """Return parties, strongest edges and notes, each list cut to what a screen holds."""
    edges = graph.edge_list()
    inter = sum(edge.kind == "inter" for edge in edges)
    lines = [
        f"CausalGraph: {_count(len(graph.variables), 'variable')} at {_count(len(graph.parties), 'party')}, "
        f"{_count(len(edges), 'edge')} ({inter} between parties, {len(edges) - inter} within)"
    ]
    if graph.reveal != "all":
        lines.append(f"  only edges that touch variables of {_shown(graph.reveal)}")
    lines += _cut([f"  {_shown(party)}: {_names_at(graph, party)}" for party in graph.parties])
    if edges:
        lines += ["  strongest edges:", *_edge_lines(edges, graph.confidence is not None)]
    if graph.contributions:
        lines.append("  contributions to the variables of other parties:")
        lines += _cut([f"    {_shown(party)} {share:.1%}" for party, share in graph.contributions.items()])
    lines += _cut([f"  note: {' '.join(note.split())}" for note in graph.notes])
    lines += _numbers(graph)
    return "\n".join(lines)


def _edge_lines(edges: list[Edge], sure: bool) -> list[str]:
    pairs = [f"{_shown(edge.cause)} -> {_shown(edge.effect)}" for edge in edges]
    width = max(map(len, pairs[:_MOST]))
    lines = []
    for pair, edge in zip(pairs, edges, strict=True):
        confidence = f"  confidence {edge.confidence:.2f}" if sure else ""
        parties = dict.fromkeys([_shown(edge.cause_party), _shown(edge.effect_party)])
        lines.append(f"    {pair:<{width}}  {edge.strength:.3f}{confidence}  {edge.kind} ({' -> '.join(parties)})")
    return _cut(lines)


def _numbers(graph: CausalGraph) -> list[str]:
    lines = []
    sortable = {"varsortability": graph.varsortability, "R²-sortability": graph.r2_sortability}
    if known := [f"{name} {value:.2f}" for name, value in sortable.items() if value is not None]:
        lines.append(f"  {', '.join(known)} (.5: the order cannot be read off them)")
    if graph.cost:
        lines.append("  cost: " + ", ".join(f"{round(value, 1):,} {name}" for name, value in graph.cost.items()))
    return lines


def _names_at(graph: CausalGraph, party: str) -> str:
    names = [_shown(name) for name, holder in graph.party_of.items() if holder == party]
    more = f", … {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _cut(lines: Sequence[str]) -> list[str]:
    return [*lines[:_MOST], f"    … {len(lines) - _MOST} more"] if len(lines) > _MOST else [*lines]


def _count(number: int, of: str) -> str:
    plural = of[:-1] + "ies" if of.endswith("y") else of + "s"
    return f"{number} {of if number == 1 else plural}"


def _shown(name: str) -> str:
    """Return a name on one line that is not too long."""
    line = "".join(letter if letter.isprintable() else "·" for letter in name)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
