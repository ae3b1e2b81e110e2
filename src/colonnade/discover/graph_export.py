"""A causal graph as other programs read it: networkx, Graphviz, GML (DoWhy), GraphML, pgmpy.

Names of variables may hold any text; each format escapes them in its own way.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.errors import ConfigError
from colonnade.run import write_atomically

if TYPE_CHECKING:
    import networkx
    from pgmpy.base import DAG

    from colonnade.discover.graph import CausalGraph

# Colours that colour-blind readers tell apart (Okabe and Ito), each with a letter colour of enough contrast.
_COLOURS = {
    "#56B4E9": "black",
    "#E69F00": "black",
    "#009E73": "black",
    "#F0E442": "black",
    "#0072B2": "white",
    "#D55E00": "black",
    "#CC79A7": "black",
}
# A further round through the colours takes another shape.
_SHAPES = ("ellipse", "box", "hexagon", "octagon", "diamond")


def networkx_graph(graph: CausalGraph) -> networkx.DiGraph:
    """Return nodes with `party`; edges with `strength`, `kind` and, where known, `confidence`."""
    import networkx

    exported = networkx.DiGraph()
    for name, party in graph.party_of.items():
        exported.add_node(name, party=party)
    known = graph.confidence is not None
    for edge in graph.edge_list():
        sure = {"confidence": edge.confidence} if known else {}
        exported.add_edge(edge.cause, edge.effect, strength=edge.strength, kind=edge.kind, **sure)
    return exported


def dot_text(graph: CausalGraph) -> str:
    """Return Graphviz DOT: nodes are the variables' own names, one colour a party, edges between parties bold.

    The party also stands under the name, so that colour is never the only sign. In DOT a backslash cannot stand alone
    before a quote: names that hold backslashes show rightly, and have them doubled as identifiers.
    """
    lines = ["digraph {", "  node [style=filled];"]
    colours = list(_COLOURS.items())
    for name, party in graph.party_of.items():
        number = graph.parties.index(party)
        fill, letters = colours[number % len(colours)]
        shape = _SHAPES[number // len(colours) % len(_SHAPES)]
        label = f'"{_dot_label(name)}\\n({_dot_label(party)})"'
        look = f'fillcolor="{fill}", fontcolor={letters}, shape={shape}'
        lines.append(f"  {_dot_name(name)} [label={label}, party={_dot_name(party)}, {look}];")
    for edge in graph.edge_list():
        style = ", style=bold" if edge.kind == "inter" else ""
        attributes = f'kind={edge.kind}, strength="{edge.strength!r}", label="{edge.strength:.2f}"{style}'
        lines.append(f"  {_dot_name(edge.cause)} -> {_dot_name(edge.effect)} [{attributes}];")
    return "\n".join([*lines, "}", ""])


def gml_text(graph: CausalGraph) -> str:
    """Return GML that networkx and DoWhy read.

    DoWhy puts all lines into one and takes text with '.dot', '.gml' or 'graph {' in it for something else, so every
    character of a name but letters, digits, spaces, '_' and '-' is written as its number.
    """
    for name in graph.variables:
        if name in ("()", "[]"):
            what = f"networkx reads the name '{name}' in GML as an empty list"
            raise ConfigError(what, where=name, remedy="rename the variable, or use to_networkx()")
    position = {name: number for number, name in enumerate(graph.variables)}
    known = graph.confidence is not None
    lines = ["graph [", "  directed 1"]
    for name, party in graph.party_of.items():
        lines.append(f'  node [ id {position[name]} label "{_gml(name)}" party "{_gml(party)}" ]')
    for edge in graph.edge_list():
        sure = f" confidence {_gml_number(edge.confidence)}" if known else ""
        ends = f"source {position[edge.cause]} target {position[edge.effect]}"
        lines.append(f'  edge [ {ends} strength {_gml_number(edge.strength)} kind "{edge.kind}"{sure} ]')
    return "\n".join([*lines, "]", ""])


def write_graphml(graph: CausalGraph, path: Path) -> None:
    """Write GraphML; names that XML cannot hold are refused."""
    import networkx

    for name in (*graph.variables, *graph.parties):
        if re.search(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", name):
            remedy = "rename it, or use save() or to_gml()"
            raise ConfigError(f"{name!r} holds a character that XML cannot hold", where=str(path), remedy=remedy)
    text = "\n".join(networkx.generate_graphml(networkx_graph(graph)))
    write_atomically(path, f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode())


def pgmpy_graph(graph: CausalGraph) -> DAG:
    """Return pgmpy's DAG over the same names."""
    try:
        from pgmpy.base import DAG
    except ImportError as error:
        remedy = "install it with 'pip install pgmpy', or use to_networkx()"
        raise ConfigError("pgmpy is not installed", where="to_pgmpy", remedy=remedy) from error
    exported = DAG()
    exported.add_nodes_from(graph.variables)
    exported.add_edges_from((edge.cause, edge.effect) for edge in graph.edge_list())
    return exported


def _dot_name(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _dot_label(name: str) -> str:
    """Labels also know character references: an ampersand must not begin one."""
    return _dot_name(name)[1:-1].replace("&", "&amp;")


def _gml(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9 _-]", lambda letter: f"&#{ord(letter[0])};", text)


def _gml_number(number: float) -> str:
    """GML wants a point in every real number, also in one with an exponent."""
    digits, exponent, power = repr(number).partition("e")
    return (digits if "." in digits else digits + ".0") + exponent.upper() + power
