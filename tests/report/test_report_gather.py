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
from colonnade.report.verdict import sentences
from colonnade.run import Run


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
