"""A causal graph as a picture that can be filtered: causes left of their effects, parties by colour."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from colonnade.discover.graph import CausalGraph
from colonnade.discover.graph_parts import Edge
from colonnade.report.blocks import Drawing, Table

LAYER, ROW, BEND, WIDE, HIGH, MARGIN = 210, 58, 22, 140, 30, 20
SWEEPS = 6
LONGEST = 19
"""Letters of a name that fit into its box; the whole name is told when hovered over."""

Places = Mapping[str, tuple[float, float]]
Name = str | tuple[str, str, int]
"""A variable; or a line from a cause to an effect, where it passes a layer."""


def graph_drawing(graph: CausalGraph, name: str, colour: Mapping[str, str]) -> tuple[Drawing, Table]:
    """Return the picture of a graph with its controls, and the table of its edges; a script joins them."""
    placed, layer = _placed(graph), _layers(graph)
    places = {name: place for name, place in placed.items() if isinstance(name, str)}
    width = max(x for x, _ in places.values()) + WIDE / 2 + MARGIN
    height = max(y for _, y in placed.values()) + HIGH / 2 + MARGIN
    edges = graph.edge_list()
    title = f"Causal graph of {name}"
    drawn = [Markup(_HEAD).format(width, height, max(width, 700), 0.65 * width, title)]
    drawn.append(Markup(_ARROWHEAD))
    strongest = max((edge.strength for edge in edges), default=1.0)
    drawn += [_edge(edge, [placed[name] for name in _way(edge, layer)], strongest) for edge in edges]
    drawn += [_node(variable, party, places[variable], colour[party]) for variable, party in graph.party_of.items()]
    rows = [
        [edge.cause, edge.effect, edge.cause_party, edge.effect_party, edge.strength, _or_none(edge.confidence)]
        for edge in edges
    ]
    columns = ["cause", "effect", "at", "effect at", "strength", "confidence"]
    table = Table(f"Edges of {name}", columns, rows, folded=True, anchor="edges")
    svg = Markup("").join([*drawn, Markup("</svg>")])
    return Drawing(title, str(svg), _controls(graph, edges, colour)), table


def layout(graph: CausalGraph) -> Places:
    """Return where each variable stands: a layer right of all its causes, near to them in height."""
    return {name: place for name, place in _placed(graph).items() if isinstance(name, str)}


def _placed(graph: CausalGraph) -> dict[Name, tuple[float, float]]:
    """Return where each variable stands, and where lines that pass a layer by bend, so that none runs behind a box."""
    layer = _layers(graph)
    columns: dict[int, list[Name]] = {}
    for variable in graph.variables:
        columns.setdefault(layer[variable], []).append(variable)
    near: dict[Name, list[Name]] = {variable: [] for variable in graph.variables}
    for edge in graph.edge_list():
        way = _way(edge, layer)
        for bend in way[1:-1]:
            columns[bend[2]].append(bend)
            near[bend] = []
        for one, other in pairwise(way):
            near[one].append(other)
            near[other].append(one)
    _uncross(near, columns)
    heights = {number: sum(_height(name) for name in column) for number, column in columns.items()}
    tallest, places = max(heights.values()), {}
    for number, column in columns.items():
        top = MARGIN + (tallest - heights[number]) / 2
        for name in column:
            places[name] = (MARGIN + WIDE / 2 + LAYER * number, top + _height(name) / 2)
            top += _height(name)
    return places


def _layers(graph: CausalGraph) -> dict[str, int]:
    layer: dict[str, int] = {}
    for variable in graph.order:
        layer[variable] = 1 + max((layer[cause] for cause in graph.parents(variable)), default=-1)
    # A root stands just before its first effect, not at the far left: shorter lines.
    for variable in graph.order:
        effects = [layer[edge.effect] for edge in graph.edge_list() if edge.cause == variable]
        if effects and not graph.parents(variable):
            layer[variable] = min(effects) - 1
    return layer


def _way(edge: Edge, layer: Mapping[str, int]) -> list[Any]:
    """Return cause, bends in the layers between, effect."""
    bends = [(edge.cause, edge.effect, number) for number in range(layer[edge.cause] + 1, layer[edge.effect])]
    return [edge.cause, *bends, edge.effect]


def _height(name: Name) -> float:
    return ROW if isinstance(name, str) else BEND


def _uncross(near: Mapping[Name, Sequence[Name]], columns: Mapping[int, list[Name]]) -> None:
    """Order each layer by the mean height of its neighbours, there and back a few times."""
    for sweep in range(SWEEPS):
        height = {name: place / len(column) for column in columns.values() for place, name in enumerate(column)}
        for number in sorted(columns, reverse=bool(sweep % 2)):
            column = columns[number]
            found = {n: sum(height[o] for o in near[n]) / len(near[n]) if near[n] else height[n] for n in column}
            column.sort(key=found.__getitem__)
            height |= {name: place / len(column) for place, name in enumerate(column)}


def _edge(edge: Edge, points: Sequence[tuple[float, float]], strongest: float) -> Markup:
    (x, y), *bends, (end, last) = points
    path = f"M{x + WIDE / 2:.0f} {y:.0f}"
    x += WIDE / 2
    for across, down in [*bends, (end - WIDE / 2 - 3, last)]:
        half = (across - x) / 2
        path += f"C{x + half:.0f} {y:.0f} {across - half:.0f} {down:.0f} {across:.0f} {down:.0f}"
        x, y = across, down
    sure = "" if math.isnan(edge.confidence) else f", confidence {edge.confidence:.2f}"
    told = f"{edge.cause} → {edge.effect}: strength {edge.strength:.3g}{sure}"
    wide = 1.2 + 2.8 * edge.strength / strongest
    return Markup(
        '<path d="{}" class="edge {}" style="stroke-width:{:.1f}" data-strength="{:.6g}" data-kind="{}" '
        'marker-end="url(#head)"><title>{}</title></path>'
    ).format(path, edge.kind, wide, edge.strength, edge.kind, told)


def _node(variable: str, party: str, place: tuple[float, float], colour: str) -> Markup:
    x, y = place
    short = variable if len(variable) <= LONGEST else variable[: LONGEST - 1] + "…"
    return Markup(
        '<g class="node"><title>{} ({})</title><rect x="{}" y="{}" width="{}" height="{}" rx="8" '
        'style="stroke:{}"/><text x="{}" y="{}">{}</text></g>'
    ).format(variable, party, x - WIDE / 2, y - HIGH / 2, WIDE, HIGH, colour, x, y + 4, short)


def _controls(graph: CausalGraph, edges: Sequence[Edge], colour: Mapping[str, str]) -> str:
    key = Markup("").join(
        Markup('<span class="key"><i style="border-color:{}"></i>{}</span>').format(colour[party], party)
        for party in graph.parties
    )
    least = min((edge.strength for edge in edges), default=0.0)
    most = max((edge.strength for edge in edges), default=1.0)
    return str(
        Markup(
            '<p class="keys">{}<span class="key"><b class="inter"></b>between parties</span>'
            '<span class="key"><b class="intra"></b>within a party</span></p>'
            '<p class="controls"><label>Weakest strength shown <input type="range" class="weakest" min="{}" max="{}" '
            'step="{}" value="{}"></label> <output class="weakest-value">{}</output> '
            '<label><input type="checkbox" class="between"> between parties only</label> '
            '<span class="count" role="status"></span></p>'
        ).format(
            key,
            f"{least:.6g}",
            f"{most * 1.0001:.6g}",
            f"{max(most - least, 1e-9) / 200:.6g}",
            f"{least:.6g}",
            f"{least:.3g}",
        )
    )


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


_HEAD = '<svg viewBox="0 0 {} {}" style="max-width:{}px;min-width:{}px" role="img" aria-label="{}">'
_ARROWHEAD = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L10 5L0 10z"/></marker></defs>'
)
