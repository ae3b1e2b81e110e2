"""Exports, read back by the programs that read them or by a reader written after the format's grammar."""

import math
import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.discover.graph import CausalGraph
from colonnade.errors import ConfigError, RunError

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
# Text that is known to break readers, beside any other.
ODD = st.sampled_from(
    ['say "hi"', "back\\", "\\", '\\"', "x.dot", "y.gml", "z.txt", "graph { a }", "new\nline", "a\rb", "&amp;", "&#65;",
     "a:b", "<b>", "[x]", "#c", " lead ", "1", "node", "->", "größe", "年齢", "a;b", "dag", "\\N", "{x|y}", "\u2028"]
)  # fmt: skip
NAME = ODD | st.text(LETTERS, min_size=1, max_size=8)


@st.composite
def graphs(draw, name=NAME):
    names = draw(st.lists(name, min_size=1, max_size=6, unique=True))
    parties = draw(st.lists(name, min_size=1, max_size=3, unique=True))
    square = (len(names), len(names))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    strength = np.triu(random.random(square) < 0.5, k=1) * 10.0 ** random.uniform(-12, 3, square)
    frames = [pd.DataFrame(matrix, index=names, columns=names) for matrix in (strength, random.random(square))]
    return CausalGraph(
        frames[0],
        {name: parties[number % len(parties)] for number, name in enumerate(names)},
        confidence=frames[1] if draw(st.booleans()) else None,
        strengths=frames[0] if draw(st.booleans()) else None,
        notes=draw(st.lists(name, max_size=2)),
        cost={"seconds": random.random(), "steps": 3},
        varsortability=draw(st.none() | st.floats(0, 1)),
    )


def example(names=("age", "body mass", 'glu"cose.dot'), parties=("clinic", "clinic", "lab")):
    matrix = pd.DataFrame([[0, 0.5, 0], [0, 0, 2e-7], [0, 0, 0]], index=list(names), columns=list(names))
    return CausalGraph(matrix, dict(zip(names, parties, strict=True)))


def same_graph(read, graph):
    """Whether a networkx graph holds the same nodes and edges with the same numbers."""
    expected = graph.to_networkx()
    return dict(read.nodes(data=True)) == dict(expected.nodes(data=True)) and {
        (cause, effect): data for cause, effect, data in read.edges(data=True)
    } == {(cause, effect): data for cause, effect, data in expected.edges(data=True)}


@settings(deadline=None)
@given(graphs())
def test_networkx_holds_every_variable_party_and_number(graph):
    """Half of all causal tools begin with a networkx graph."""
    exported = graph.to_networkx()
    assert tuple(exported.nodes) == graph.variables
    assert nx.get_node_attributes(exported, "party") == graph.party_of
    assert nx.is_directed_acyclic_graph(exported)
    adjacency = nx.to_numpy_array(exported, weight="strength")
    assert np.array_equal(adjacency, graph.adjacency.to_numpy())
    for edge in graph.edge_list():
        data = exported.edges[edge.cause, edge.effect]
        assert data["kind"] == edge.kind
        assert ("confidence" in data) == (graph.confidence is not None)


@settings(deadline=None)
@given(graphs(NAME.filter(lambda name: name not in ("()", "[]"))))
def test_gml_is_read_by_networkx_also_on_one_line(graph):
    """DoWhy joins the lines and hands them to networkx: names would be lost or files looked for."""
    text = graph.to_gml()
    assert same_graph(nx.parse_gml(text), graph)
    line = text.replace("\n", " ")
    assert same_graph(nx.parse_gml(line), graph)
    # how DoWhy 0.14 tells formats apart, in its order
    assert not re.match(r".*\.txt", text)
    assert not re.match(r"^dag", text)
    assert not re.match(r".*\.dot", line)
    assert not re.match(r".*\.gml", line)
    assert not re.match(r".*graph\s*\{.*\}\s*", line)
    assert re.match(r".*graph\s*\[.*\]\s*", line)


def test_gml_is_exactly_the_text_that_dowhy_was_seen_to_read():
    """DoWhy is too large to install for every test run; this text was read by DoWhy 0.14."""
    assert example().to_gml() == (
        "graph [\n"
        "  directed 1\n"
        '  node [ id 0 label "age" party "clinic" ]\n'
        '  node [ id 1 label "body mass" party "clinic" ]\n'
        '  node [ id 2 label "glu&#34;cose&#46;dot" party "lab" ]\n'
        '  edge [ source 0 target 1 strength 0.5 kind "intra" ]\n'
        '  edge [ source 1 target 2 strength 2.0E-07 kind "inter" ]\n'
        "]\n"
    )


def test_dowhy_reads_the_graph_and_identifies_an_effect():
    """The next step of every analyst: estimate an effect with the graph that was found."""
    pytest.importorskip("dowhy")
    from dowhy import CausalModel

    graph = example(("age", "bmi", "glucose"))
    for handed in (graph.to_gml(), graph.to_networkx(), graph.to_dot()):
        data = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["age", "bmi", "glucose"])
        model = CausalModel(data, treatment="bmi", outcome="glucose", graph=handed)
        assert set(model._graph._graph.edges) == {("age", "bmi"), ("bmi", "glucose")}
        assert model.identify_effect(proceed_when_unidentifiable=True).estimands["backdoor"] is not None


@settings(max_examples=30, deadline=None)
@given(graphs(NAME.filter(lambda name: name not in ("()", "[]"))))
def test_dowhy_reads_any_name(graph):
    pytest.importorskip("dowhy")
    from dowhy.graph import build_graph_from_str

    assert same_graph(build_graph_from_str(graph.to_gml()), graph)


def test_names_that_networkx_takes_for_lists_are_refused_in_gml():
    with pytest.raises(ConfigError, match="empty list"):
        example(("()", "b", "c")).to_gml()


TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([A-Za-z_][A-Za-z_0-9]*)|(->|[{}\[\]=,;]))', re.DOTALL)


def read_dot(text):
    """Read the part of the DOT grammar that is written: return nodes and edges with their attributes."""
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = TOKEN.match(text, position)
        assert match, f"no token at {text[position : position + 30]!r}"
        tokens.append(match[0].strip() if match[1] is None else match[1])
        position = match.end()
    assert tokens[:2] == ["digraph", "{"]
    assert tokens[-1] == "}"
    statements, statement = [], []
    for token in tokens[2:-1]:
        if token == ";":
            statements.append(statement)
            statement = []
        else:
            statement.append(token)
    assert statement == []
    nodes, edges = {}, {}
    for statement in statements:
        start = statement.index("[")
        assert statement[-1] == "]"
        items = [token for token in statement[start + 1 : -1] if token != ","]
        assert items[1::3] == ["="] * (len(items) // 3)
        attributes = dict(zip(items[::3], items[2::3], strict=True))
        ends = [unquoted(token) for token in statement[:start] if token != "->"]
        if len(ends) == 2:
            edges[tuple(ends)] = attributes
        elif statement[0] != "node":
            nodes[ends[0]] = attributes
    return nodes, edges


def unquoted(token):
    return re.sub(r'\\([\\"])', r"\1", token[1:-1]) if token.startswith('"') else token


@settings(deadline=None)
@given(graphs())
def test_dot_keeps_every_name_inside_its_quotes(graph):
    """A quote in a column's name would break the picture, or let the name write DOT of its own."""
    nodes, edges = read_dot(graph.to_dot())
    assert tuple(nodes) == graph.variables
    assert {name: unquoted(attributes["party"]) for name, attributes in nodes.items()} == graph.party_of
    assert set(edges) == {(edge.cause, edge.effect) for edge in graph.edge_list()}
    for edge in graph.edge_list():
        attributes = edges[edge.cause, edge.effect]
        assert float(unquoted(attributes["strength"])) == edge.strength
        assert (attributes.get("style") == "bold") == (edge.kind == "inter")


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_dot_is_read_by_pydot(graph):
    pydot = pytest.importorskip("pydot")
    (read,) = pydot.graph_from_dot_data(graph.to_dot())
    names = [unquoted(node.get_name()) for node in read.get_nodes() if node.get_name() != "node"]
    assert tuple(names) == graph.variables
    edges = {(unquoted(edge.get_source()), unquoted(edge.get_destination())) for edge in read.get_edges()}
    assert edges == {(edge.cause, edge.effect) for edge in graph.edge_list()}


def test_the_picture_tells_parties_apart_without_colour():
    """Colour-blind readers, and more parties than colours."""
    names = [f"v{number}" for number in range(20)]
    matrix = pd.DataFrame(np.zeros((20, 20)), index=names, columns=names)
    graph = CausalGraph(matrix, {name: f"party-{name}" for name in names})
    nodes, _ = read_dot(graph.to_dot())
    assert len({(look["fillcolor"], look["shape"]) for look in nodes.values()}) == 20
    assert nodes["v3"]["label"] == '"v3\\n(party-v3)"'
    same = read_dot(example().to_dot())[0]
    assert same["age"]["fillcolor"] == same["body mass"]["fillcolor"] != same['glu"cose.dot']["fillcolor"]


def test_labels_show_ampersands_and_backslashes_as_they_are():
    """Graphviz would show 'a&lt;b' as 'a<b' and '\\N' as something else."""
    nodes, _ = read_dot(example(("a&lt;b", "\\N", "c")).to_dot())
    assert nodes["a&lt;b"]["label"] == '"a&amp;lt;b\\n(clinic)"'
    assert nodes["\\N"]["label"] == '"\\\\N\\n(clinic)"'


XML_NAME = NAME.filter(lambda name: not re.search(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]", name))


@settings(deadline=None)
@given(graph=graphs(XML_NAME))
def test_graphml_is_read_by_networkx(graph, tmp_path_factory):
    """Gephi, yEd and igraph read GraphML."""
    path = tmp_path_factory.mktemp("graphml") / "graph.graphml"
    graph.to_graphml(path)
    assert same_graph(nx.read_graphml(path), graph)


def test_names_that_xml_cannot_hold_are_refused_before_a_file_is_written(tmp_path):
    with pytest.raises(ConfigError, match="XML cannot hold"):
        example(("a\x01", "b", "c")).to_graphml(tmp_path / "graph.graphml")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        example().to_graphml(tmp_path / "missing" / "graph.graphml")


def test_pgmpy_holds_the_same_edges():
    """Discrete networks are fitted in pgmpy."""
    pytest.importorskip("pgmpy")
    graph = example()
    exported = graph.to_pgmpy()
    assert set(exported.nodes) == set(graph.variables)
    assert set(exported.edges) == {("age", "body mass"), ("body mass", 'glu"cose.dot')}


def test_without_pgmpy_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pgmpy.base", None)
    with pytest.raises(ConfigError, match="pgmpy is not installed"):
        example().to_pgmpy()


def test_unknown_confidence_is_left_out_and_not_written_as_no_number():
    assert not any("confidence" in data for *_, data in example().to_networkx().edges(data=True))
    assert "nan" not in (example().to_gml() + example().to_dot()).lower()
    assert math.isnan(example().edge_list()[0].confidence)
