"""The saved graph: the same after reading, and never half a graph."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.discover.graph import CausalGraph
from colonnade.errors import RunError

NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


def example():
    names = ["age", "bmi", "glucose"]
    frames = [
        pd.DataFrame(matrix, index=names, columns=names)
        for matrix in ([[0, 0.5, 0], [0, 0, 2e-7], [0, 0, 0]], [[0, 1, 0], [0, 0, 0.1], [0, 0, 0]])
    ]
    party_of = {"age": "clinic", "bmi": "clinic", "glucose": "lab"}
    return CausalGraph(frames[0], party_of, confidence=frames[1], notes=["one"], cost={"seconds": 2.5, "steps": 3})


def content(graph):
    """Everything a graph holds, for comparison."""

    def rows(frame):
        return None if frame is None else frame.to_numpy().tolist()

    matrices = [rows(graph.adjacency), rows(graph.confidence), rows(graph.strengths)]
    others = [graph.notes, graph.cost, graph.varsortability, graph.r2_sortability, graph.reveal]
    return [list(graph.party_of.items()), *matrices, *others]


@settings(deadline=None)
@given(
    names=st.lists(NAME, min_size=1, max_size=6, unique=True),
    parties=st.lists(NAME, min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
    notes=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=2),
    share=st.none() | st.floats(0, 1),
    steps=st.integers(0, 2**62),
)
def test_a_saved_graph_is_read_as_it_was(names, parties, seed, notes, share, steps, tmp_path_factory):
    """A result kept for a year would be another result."""
    random = np.random.default_rng(seed)
    square = (len(names), len(names))
    strength = np.triu(random.random(square) < 0.5, k=1) * 10.0 ** random.uniform(-300, 300, square)
    order = random.permutation(len(names))
    strength = pd.DataFrame(strength[np.ix_(order, order)], index=names, columns=names)
    sure = pd.DataFrame(random.random(square), index=names, columns=names)
    graph = CausalGraph(
        strength,
        {name: parties[number % len(parties)] for number, name in enumerate(names)},
        confidence=sure if seed % 2 else None,
        strengths=strength if seed % 3 else None,
        notes=notes,
        cost={"seconds": random.random(), "steps": steps},
        varsortability=share,
        r2_sortability=share,
    )
    folder = tmp_path_factory.mktemp("graph")
    graph.save(folder / "graph.json")
    assert content(CausalGraph.load(folder / "graph.json")) == content(graph)
    assert [path.name for path in folder.iterdir()] == ["graph.json"]


def test_a_party_graph_stays_one(tmp_path):
    """A party's own edges would come back as everybody's."""
    example().of("lab").save(tmp_path / "g.json")
    read = CausalGraph.load(str(tmp_path / "g.json"))
    assert read.reveal == "lab"
    assert content(read) == content(example().of("lab"))


def test_the_file_is_strict_json_that_others_can_read(tmp_path):
    example().save(tmp_path / "g.json")
    document = json.loads((tmp_path / "g.json").read_text("utf-8"))
    assert document["format"] == "colonnade causal graph"
    assert document["version"] == 1
    assert document["edges"][0] == {"cause": "age", "effect": "bmi", "strength": 0.5}


def test_every_cut_file_is_refused(tmp_path):
    """A full disk or a broken copy would give a graph with fewer edges."""
    path = tmp_path / "g.json"
    example().save(path)
    whole = path.read_bytes()
    for end in range(0, len(whole.rstrip()), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(RunError, match="no whole causal graph"):
            CausalGraph.load(path)


def change(document, *keys, value):
    *way, last = keys
    for key in way:
        document = document[key]
    document[last] = value


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["format"], "something else"),
        (["version"], "1"),
        (["reveal"], "nobody"),
        (["reveal"], "lab"),
        (["surprise"], 1),
        (["variables"], []),
        (["variables", 0, "name"], "bmi"),
        (["variables", 0, "name"], 3),
        (["variables", 0, "party"], ""),
        (["edges", 0, "strength"], 0),
        (["edges", 0, "strength"], -0.5),
        (["edges", 0, "strength"], "0.5"),
        (["edges", 0, "strength"], float("nan")),
        (["edges", 0, "strength"], float("inf")),
        (["edges", 0, "effect"], "weight"),
        (["edges", 0], {"cause": "glucose", "effect": "bmi", "strength": 1.0}),
        (["edges", 0], {"cause": "bmi", "effect": "glucose", "strength": 1.0}),
        (["confidence"], [[0, 1]]),
        (["confidence"], [[0, 1, 0], [0, 0], [0, 0, 0]]),
        (["confidence", 0, 1], 1.5),
        (["confidence", 0, 1], None),
        (["strengths"], []),
        (["varsortability"], 2.0),
        (["notes"], "one"),
        (["cost", "seconds"], None),
    ],
)
def test_damage_is_named_and_never_a_graph(tmp_path, keys, value):
    """A wrong file would be a wrong graph, or a traceback."""
    path = tmp_path / "g.json"
    example().save(path)
    document = json.loads(path.read_text())
    change(document, *keys, value=value)
    path.write_text(json.dumps(document))
    with pytest.raises(RunError, match=r"g\.json"):
        CausalGraph.load(path)


def test_missing_keys_are_damage(tmp_path):
    path = tmp_path / "g.json"
    example().save(path)
    document = json.loads(path.read_text())
    for key in document:
        path.write_text(json.dumps({name: value for name, value in document.items() if name != key}))
        with pytest.raises(RunError):
            CausalGraph.load(path)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[1]", b"null", b"[" * 100_000, b'{"format": "\\ud800"}'])
def test_files_that_are_something_else_are_refused(tmp_path, data):
    (tmp_path / "g.json").write_bytes(data)
    with pytest.raises(RunError, match="no whole causal graph"):
        CausalGraph.load(tmp_path / "g.json")


def test_a_file_of_a_later_version_names_the_version(tmp_path):
    """Somebody would search for damage where an update is needed."""
    path = tmp_path / "g.json"
    path.write_text(json.dumps({"format": "colonnade causal graph", "version": 2, "layers": []}))
    with pytest.raises(RunError, match="version 2"):
        CausalGraph.load(path)


def test_missing_file_folder_and_target_are_named(tmp_path):
    with pytest.raises(RunError, match="is missing"):
        CausalGraph.load(tmp_path / "none.json")
    with pytest.raises(RunError, match="cannot be read"):
        CausalGraph.load(tmp_path)
    with pytest.raises(RunError, match="cannot be written"):
        example().save(tmp_path / "missing" / "g.json")
