"""A causal graph as a picture that can be filtered: causes left of their effects, parties by colour."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from colonnade.discover.graph import CausalGraph
from colonnade.discover.graph_parts import Edge
from colonnade.report.blocks import Drawing, Table

LAYER, ROW, WIDE, HIGH, MARGIN = 210, 58, 140, 30, 20
SWEEPS = 6
LONGEST = 19
"""Letters of a name that fit into its box; the whole name is told when hovered over."""

Places = Mapping[str, tuple[float, float]]


def graph_drawing(graph: CausalGraph, name: str, colour: Mapping[str, str]) -> tuple[Drawing, Table]:
    """Return the picture of a graph with its controls, and the table of its edges; a script joins them."""
    places = layout(graph)
    width = max(x for x, _ in places.values()) + WIDE / 2 + MARGIN
    height = max(y for _, y in places.values()) + HIGH / 2 + MARGIN
    edges = graph.edge_list()
    title = f"Causal graph of {name}"
    drawn = [Markup(_HEAD).format(width, height, max(width, 700), 0.7 * width, title)]
    drawn.append(Markup(_ARROWHEAD))
    strongest = max((edge.strength for edge in edges), default=1.0)
    drawn += [_edge(edge, places, strongest) for edge in edges]
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
    layer: dict[str, int] = {}
    for variable in graph.order:
        layer[variable] = 1 + max((layer[cause] for cause in graph.parents(variable)), default=-1)
    # A root stands just before its first effect, not at the far left: shorter lines.
    for variable in reversed(graph.order):
        effects = [layer[edge.effect] for edge in graph.edge_list() if edge.cause == variable]
        if effects and not graph.parents(variable):
            layer[variable] = min(effects) - 1
    columns: dict[int, list[str]] = {}
    for variable in graph.variables:
        columns.setdefault(layer[variable], []).append(variable)
    _uncross(graph, columns)
    tallest = max(len(column) for column in columns.values())
    return {
        variable: (
            MARGIN + WIDE / 2 + LAYER * number,
            MARGIN + HIGH / 2 + ROW * (place + (tallest - len(column)) / 2),
        )
        for number, column in sorted(columns.items())
        for place, variable in enumerate(column)
    }


def _uncross(graph: CausalGraph, columns: dict[int, list[str]]) -> None:
    """Order each layer by the mean height of its neighbours, there and back a few times."""
    near: dict[str, list[str]] = {variable: [] for variable in graph.variables}
    for edge in graph.edge_list():
        near[edge.cause].append(edge.effect)
        near[edge.effect].append(edge.cause)
    for sweep in range(SWEEPS):
        height = {v: place / len(column) for column in columns.values() for place, v in enumerate(column)}
        for number in sorted(columns, reverse=bool(sweep % 2)):
            column = columns[number]
            column.sort(key=lambda v: sum(height[other] for other in near[v]) / len(near[v]) if near[v] else height[v])
            height |= {variable: place / len(column) for place, variable in enumerate(column)}


def _edge(edge: Edge, places: Places, strongest: float) -> Markup:
    (x1, y1), (x2, y2) = places[edge.cause], places[edge.effect]
    start, end = x1 + WIDE / 2, x2 - WIDE / 2 - 3
    bend = max((end - start) / 2, 30)
    sure = "" if math.isnan(edge.confidence) else f", confidence {edge.confidence:.2f}"
    told = f"{edge.cause} → {edge.effect}: strength {edge.strength:.3g}{sure}"
    return Markup(
        '<path d="M{} {}C{} {} {} {} {} {}" class="edge {}" style="stroke-width:{:.1f}" data-strength="{:.6g}" '
        'data-kind="{}" marker-end="url(#head)"><title>{}</title></path>'
    ).format(
        *(round(number, 1) for number in (start, y1, start + bend, y1, end - bend, y2, end, y2)),
        edge.kind,
        1.2 + 2.8 * edge.strength / strongest,
        edge.strength,
        edge.kind,
        told,
    )


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
