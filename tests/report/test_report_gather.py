"""If these fail, a report leaves out what a run left behind, or tells it twice."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.audit import matrix as matrix_module
from colonnade.audit.cell import attack_victim
from colonnade.audit.matrix import run_matrix
from colonnade.errors import RunError
from colonnade.report import gather, report_page
from colonnade.report.flow import traffic
from colonnade.report.verdict import sentences
from colonnade.run import Run
from colonnade.wire.message import Message


def test_everything_in_a_folder_is_found(study):
    found = gather(study)
    assert [(job.name, job.kind, sorted(job.runs)) for job in found.jobs] == [
        ("train", "training", ["active", "left", "right"])
    ]
    assert list(found.graphs) == ["digits"] and list(found.audits) == list(found.attributes) == ["audit"]
    assert found.jobs[0].result["test"]["accuracy"] >= 0


def test_one_partys_own_run_is_enough(study):
    found = gather(study / "train" / "left")
    assert [sorted(job.runs) for job in found.jobs] == [["left"]]


def test_parties_of_one_discovery_show_its_graph_once(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    federation = co.Federation.from_frame(table, {"clinic": ["a"], "lab": ["b", "c"]})
    short = {"epochs": 2, "refit_epochs": 1}
    co.discover(federation, secure=False, run=tmp_path / "search", progress=False, **short)
    found = gather(tmp_path)
    assert [job.kind for job in found.jobs] == ["discovery"] and len(found.jobs[0].runs) == 3
    assert list(found.graphs) == ["search"]


def left_behind(folder, config, sent=(), **result):
    """Write the run folder that a party of a network keeps."""
    run = Run.create(folder.name, config, folder.parent)
    for kind, to in sent:
        run.ledger.record(to, Message(folder.name, config["party"], kind, 0, {"upload": np.zeros(25, np.float32)}))
    run.finish(result)


@pytest.fixture
def network(tmp_path):
    """Two parties that trained twice and asked the second model, each under a folder of its own."""
    for party, other in (("clinic", "lab"), ("lab", "clinic")):
        for name, score in (("first", 0.7), ("second", 0.9)):
            config = {"party": party, "federation": {"parties": {"clinic": {}, "lab": {}}}, "task": {"kind": "auto"}}
            result = {"test": {"accuracy": score}} if party == "clinic" else {}
            left_behind(tmp_path / party / name, config, [("gradient", other)], **result)
        asked = {"party": party, "purpose": "predict", "run": "second"}
        left_behind(tmp_path / party / "second-predict-1", asked, [("answer", other)])
        left_behind(tmp_path / party / "second-align-1", {**asked, "purpose": "align"}, [("align.hello", other)])
    return tmp_path


def test_every_run_of_a_network_is_told(network):
    """Of all that a party had done one run was told: its last prediction was called the training."""
    runs = {"first": "training", "second": "training", "second-align-1": "alignment", "second-predict-1": "prediction"}
    alone, all_of_them = gather(network / "clinic"), gather(network)
    assert {job.name: job.kind for job in alone.jobs} == runs
    assert {job.name for job in all_of_them.jobs} == {f"{party}/{run}" for party in ("clinic", "lab") for run in runs}
    told = sentences(alone)[0]
    assert "First: on the test records accuracy 0.7." in told and "Second: on the test records accuracy 0.9." in told
    assert told[-2] == "Second-predict-1: a prediction of 2 parties has finished at clinic; 100 B were sent from there."
    assert {kind for job in alone.jobs for kind in traffic(job)["kind"]} == {"gradient", "answer", "align.hello"}


def test_every_graph_of_a_network_is_shown(tmp_path):
    """A search that was done twice showed one of its graphs, under the name of the party."""
    frame = pd.DataFrame([[0.0, 0.5], [0.0, 0.0]], list("ab"), list("ab"))
    for name in ("first", "second"):
        left_behind(tmp_path / "clinic" / name, {"party": "clinic", "task": {"kind": "discovery"}})
        graph = co.CausalGraph(frame, {"a": "clinic", "b": "lab"})
        graph.save(tmp_path / "clinic" / name / "graph.json")
    assert list(gather(tmp_path).graphs) == ["clinic/first", "clinic/second"]
    assert list(gather(tmp_path / "clinic").graphs) == ["first", "second"]


def test_results_of_a_bench_are_found(tmp_path):
    rows = {"bench": "x", "preset": "smoke", "rows": [{"method": "none", "target": 0.8, "leak": 0.7}]}
    (tmp_path / "result.json").write_text(json.dumps(rows))
    assert list(gather(tmp_path).benches) == [tmp_path.name]


@pytest.fixture(scope="session")
def stopped(tmp_path_factory):
    """A matrix of four cells, of which two are there, and one finished beside it."""
    folder = tmp_path_factory.mktemp("matrices")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrix_module, "attack_victim", up_to(2))
        with pytest.raises(KeyboardInterrupt):
            matrix(folder / "stopped", seeds=2)
    matrix(folder / "finished", seeds=1)
    return folder


def up_to(most):
    done = []

    def attack(study, job):
        if len(done) == most:
            raise KeyboardInterrupt
        done.append(job)
        return attack_victim(study, job)

    return attack


def matrix(out, seeds):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(160, 4)), columns=list("abcd")).assign(ill=rng.integers(0, 2, 160))
    federation = co.Federation.from_frame(table, {"clinic": ["a", "b"], "lab": ["c", "d"]}, label=("clinic", "ill"))
    short = co.Task(epochs=1, split={"train": 0.4, "validation": 0.1, "test": 0.5})
    noise = {"name": "gaussian", "sigma": 1.0}
    return run_matrix(federation, ["none", noise], ["ridge"], out=out, task=short, seeds=seeds, progress=False)


def test_a_finished_matrix_is_one_audit(stopped):
    """Every cell told once more, without its defense, that its attack was the only one tried."""
    found = gather(stopped / "finished")
    assert list(found.audits) == ["finished"] and found.unfinished == {}
    told, _ = sentences(found)
    assert len(told) == len(found.audits["finished"].verdict) == 2
    assert told[0].startswith("Lab under ") and told[1].startswith("Lab under "), "every sentence names its defense"


def test_a_stopped_matrix_is_one_audit_that_says_what_is_missing(stopped):
    """Nothing on the page told that half of the study was not there."""
    found = gather(stopped)
    assert list(found.audits) == ["finished", "stopped"]
    missing = "this matrix is unfinished: 2 of 4 cells are missing"
    assert found.unfinished == {"stopped": missing}
    assert sentences(found)[0][0] == f"Stopped: {missing}"
    assert "left out: ridge on gaussian sigma=1.0, seed 1: not run" in found.audits["stopped"].notes
    assert missing in report_page([found])


def test_a_matrix_that_lies_deep_is_found(stopped, tmp_path):
    """The benches keep theirs below `rows`; cells must not be taken for audits of their own there either."""
    for deep in ("rows/pictures-6", "a/b/c/d"):
        shutil.copytree(stopped / "stopped", tmp_path / deep)
        assert list(gather(tmp_path / deep.split("/")[0]).unfinished) == [deep.split("/", 1)[1]]
    assert set(gather(tmp_path).audits) == {"a/b/c/d", "rows/pictures-6"}


def test_a_matrix_without_any_cell_yet_is_told(stopped, tmp_path):
    shutil.copy(stopped / "stopped" / "matrix-plan.json", tmp_path)
    found = gather(tmp_path)
    assert found.unfinished[tmp_path.name] == "this matrix is unfinished: 4 of 4 cells are missing"
    assert "4 of 4 cells are missing" in report_page([found])


def test_a_run_that_failed_is_told_as_such(tmp_path):
    Run.create("lab", {"task": {"kind": "binary"}}, tmp_path / "train").fail("clinic: stopped answering")
    assert gather(tmp_path).jobs[0].runs["lab"].reason == "clinic: stopped answering"


def test_a_folder_without_anything_to_tell_is_an_error(tmp_path):
    with pytest.raises(RunError, match="holds no run, graph, audit or bench"):
        gather(tmp_path)
    with pytest.raises(RunError, match="there is no such folder"):
        gather(tmp_path / "nowhere")
