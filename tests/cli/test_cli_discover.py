"""`colonnade discover` from files: if these fail, people get no graph, or one from files that were wrong."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.discover.graph import CausalGraph
from colonnade.run import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "end_to_end"))
from village import COLUMNS, Village

ALL = (*COLUMNS,)


@pytest.fixture
def village(tmp_path):
    return Village(tmp_path, secure=False)


def discover(village, *parties, options=()):
    village.write_files()
    words = ["discover", *village.files(*parties), *map(str, options)]
    return CliRunner().invoke(app, words, env={"COLUMNS": "300"})


def in_one_process(village, *options):
    result = discover(village, *ALL, options=["--run", village.folder / "sim", *options])
    assert result.exit_code == 0, result.stderr
    return result


def test_all_files_give_the_whole_graph_and_everybodys_run_folder(village):
    """The label, if a party holds one, is a variable; the graph is in every folder, as data and as a picture."""
    village.federation |= {"active": "clinic", "label": "pressure"}
    out = village.folder / "graph.json"
    result = in_one_process(village, "--out", out)
    assert result.stdout.startswith("CausalGraph: 5 variables at 3 parties")
    graph = CausalGraph.load(out)
    assert set(graph.variables) == {"age", "pressure", "glucose", "claims", "town"}
    assert out.with_suffix(".dot").read_text().startswith("digraph")
    for name in (*ALL, "hub"):
        run = Run.open(village.folder / "sim" / name)
        run.verify_ledger()
        assert (run.status, run.config["task"]) == ("finished", {"kind": "discovery"})
        assert CausalGraph.load(run.path / "graph.json").adjacency.equals(graph.adjacency)
        assert (run.path / "graph.dot").exists()


def test_machines_get_json(village):
    lines = in_one_process(village, "--json").stdout.splitlines()
    result = json.loads(lines[-1])
    graph = CausalGraph.load(village.folder / "sim" / "hub" / "graph.json")
    assert (result["event"], len(result["edges"])) == ("result", len(graph.edges))
    assert {json.loads(line)["event"] for line in lines[:-1]} == {"message", "start", "step"}


def test_without_a_coordinator_one_is_made_up(village):
    del village.federation["coordinator"]
    in_one_process(village)
    assert (village.folder / "sim" / "coordinator" / "graph.json").exists()


def test_the_coordinators_own_file_does_no_harm(village):
    options = ["--run", village.folder / "sim"]
    assert discover(village, *ALL, "hub", options=options).exit_code == 0


def test_knowledge_and_kinds_of_the_files_are_heeded(village):
    village.federation["knowledge"] = {"required": [["town", "glucose"]]}
    village.own["lab"]["knowledge"] = {"sinks": ["glucose"]}
    village.own["insurer"]["kinds"] = {"claims": "continuous"}
    in_one_process(village)
    graph = CausalGraph.load(village.folder / "sim" / "hub" / "graph.json")
    edges = {(edge.cause, edge.effect) for edge in graph.edge_list()}
    assert ("town", "glucose") in edges
    assert not [cause for cause, _ in edges if cause == "glucose"]


def test_only_common_records_count_in_whatever_order_they_stand(village):
    in_one_process(village)
    whole = CausalGraph.load(village.folder / "sim" / "hub" / "graph.json")
    extra = village.table.rename(index=lambda name: f"other-{name}").iloc[:20]
    mixed = pd.concat([village.table, extra]).sample(frac=1, random_state=1)
    mixed[COLUMNS["lab"]].to_csv(village.folder / "lab.csv", index_label="id")
    discover(village, *ALL, options=["--run", village.folder / "again"])
    again = CausalGraph.load(village.folder / "again" / "hub" / "graph.json")
    assert again.adjacency.equals(whole.adjacency)


def test_each_party_gets_only_its_own_edges_if_so_agreed(village):
    village.federation["discovery"] |= {"reveal": "own"}
    in_one_process(village)
    for party in ALL:
        graph = CausalGraph.load(village.folder / "sim" / party / "graph.json")
        assert graph.reveal == party
        assert all(party in (edge.cause_party, edge.effect_party) for edge in graph.edge_list())


def test_a_used_folder_is_kept_unless_resumed(village):
    in_one_process(village)
    assert discover(village, *ALL, options=["--run", village.folder / "sim"]).exit_code == 8
    in_one_process(village, "--resume")


@pytest.mark.parametrize(
    ("parties", "change", "code", "what"),
    [
        (["clinic", "lab"], {}, 3, "no party file for insurer"),
        (["clinic", "clinic", "lab"], {}, 3, "no party file for insurer"),
        ([*ALL, "lab"], {}, 3, "two party files for one party"),
        (ALL, {"lab": {"kinds": {"glucose": "contnuous"}}}, 3, "did you mean 'continuous'?"),
        (ALL, {"lab": {"kinds": {"glucos": "count"}}}, 3, "did you mean 'glucose'?"),
        (ALL, {"lab": {"knowledge": {"roots": ["age"]}}}, 3, "not about the party's own variables"),
        (ALL, {"clinic": {"knowledge": {"required": [["age", "pressure"], ["pressure", "age"]]}}}, 3, "cycle"),
        (["hub", *ALL], {"hub": {"data": {"path": "lab.csv", "id_column": "id"}}}, 3, "the coordinator holds no data"),
        (ALL, {"lab": {"data": None}}, 3, "data: is missing"),
        (ALL, {"lab": {"data": {"path": "x.npz", "kind": "images"}}}, 4, "holds images"),
        (["lab"], {"lab": {"credentials": None}}, 3, "credentials: is missing"),
    ],
)
def test_a_mistake_is_one_clear_line(village, parties, change, code, what):
    for party, changed in change.items():
        village.own[party] |= changed
    result = discover(village, *parties, options=["--run", "sim"])
    assert result.exit_code == code, result.output
    assert len(result.stderr.splitlines()) == 1
    assert what in result.stderr


@pytest.mark.parametrize(
    ("known", "where", "what"),
    [
        (
            {"clinic": {"required": [["pressure", "glucose"]]}, "lab": {"forbidden": [["pressure", "glucose"]]}},
            "clinic and lab",
            "the edge pressure → glucose is required and also ruled out",
        ),
        ({"lab": {"forbidden": [["agee", "glucose"]]}}, "lab.yaml: knowledge", "unknown variable 'agee'"),
        ({"federation": {"roots": ["agee"]}}, "federation.yaml: knowledge", "unknown variable 'agee'"),
        (
            {
                "federation": {"required": [["glucose", "age"]]},
                "clinic": {"required": [["age", "claims"]]},
                "insurer": {"required": [["claims", "glucose"]]},
                "lab": {"forbidden": [["glucose", "town"]]},
            },
            "clinic and insurer",
            "cycle",
        ),
    ],
    ids=["two-parties", "unknown-to-a-party", "unknown-to-all", "through-the-federation"],
)
def test_knowledge_that_cannot_be_true_names_files_or_parties_before_there_is_a_run(village, known, where, what):
    """People would search three files for the mistake, and could not start again into the same folder."""
    for name, knowledge in known.items():
        (village.federation if name == "federation" else village.own[name])["knowledge"] = knowledge
    result = discover(village, *ALL, options=["--run", village.folder / "sim"])
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1), result.output
    assert f"{where}: " in result.stderr and what in result.stderr
    assert not (village.folder / "sim").exists()


@pytest.mark.parametrize("parties", [ALL, ["lab"]], ids=["one-process", "network"])
@pytest.mark.parametrize(
    ("out", "what"),
    [
        ("graph.dot", "name a .json file; the picture is written beside it"),
        ("graph.DOT", "name a .json file"),
        ("nowhere/graph.json", "there is no folder"),
        (".", "is a folder"),
    ],
)
def test_a_graph_that_could_not_be_kept_is_not_searched_for(village, parties, out, what):
    """The picture would take the graph's place, or hours of search would end with nothing."""
    options = ["--out", village.folder / out]
    options += ["--run", village.folder / "sim"] if parties == ALL else ["--wait", "1"]
    result = discover(village, *parties, options=options)
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1), result.output
    assert "--out: " in result.stderr and what in result.stderr
    assert not (village.folder / "sim").exists() and not village.run_folder("lab").exists()


@pytest.mark.parametrize(
    ("column", "what"),
    [(1.5, "is constant"), (None, "missing"), ("pressure", "is also held by 'clinic'")],
)
def test_records_that_cannot_be_used(village, column, what):
    table = village.table[["glucose"]].copy()
    if column == "pressure":
        table = table.rename(columns={"glucose": column})
    else:
        table.iloc[: 120 if column else 5] = column
    table.to_csv(village.folder / "lab.csv", index_label="id")
    result = discover(village, *ALL, options=["--run", village.folder / "sim"])
    assert (result.exit_code, what in result.stderr) == (4, True), result.output


def test_alone_a_coordinator_must_be_named(village):
    del village.federation["coordinator"]
    result = discover(village, "lab")
    assert (result.exit_code, "federation.yaml: coordinator: is missing" in result.stderr) == (3, True)


@pytest.mark.parametrize("command", ["join", "train", "predict"])
def test_training_still_asks_for_the_label(village, command):
    village.write_files()
    options = ["--party", str(village.folder / "lab.yaml")] if command == "train" else []
    words = [command, *village.files("clinic"), *options]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 3
    assert "federation.yaml: active: is missing" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_coordinator_does_not_train(village):
    village.federation |= {"active": "clinic", "label": "pressure"}
    village.write_files()
    result = CliRunner().invoke(app, ["join", *village.files("hub")])
    assert (result.exit_code, "takes part in discovery only" in result.stderr) == (3, True)


def test_a_training_is_not_resumed_as_a_discovery(village):
    """It would clear the training's checkpoints away."""
    Run.create("night", {"task": {"kind": "binary"}}, village.folder / "runs" / "lab").close()
    result = discover(village, "lab", options=["--run", "night", "--resume"])
    assert (result.exit_code, "another task" in result.stderr) == (8, True)


def test_records_are_aligned_without_a_label_too(village):
    village.write_files()
    result = CliRunner().invoke(app, ["align", *village.files(*ALL)])
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "120 aligned records")


def test_confidence_is_told_and_kept_in_one_process_and_refused_over_the_network(village):
    result = json.loads(in_one_process(village, "--json", "--confidence", "2").stdout.splitlines()[-1])
    assert len(result["confidence"]) == len(result["edges"])
    assert CausalGraph.load(village.folder / "sim" / "hub" / "graph.json").confidence is not None
    alone = discover(village, "clinic", options=["--confidence", "2"])
    assert alone.exit_code == 3 and "--confidence: is found in one process only" in alone.stderr
