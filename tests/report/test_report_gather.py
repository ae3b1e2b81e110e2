"""If these fail, a report leaves out what a run left behind, or tells it twice."""

import json

import pytest

import colonnade as co
from colonnade.errors import RunError
from colonnade.report import gather
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
    import numpy as np
    import pandas as pd

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


def test_a_run_that_failed_is_told_as_such(tmp_path):
    Run.create("lab", {"task": {"kind": "binary"}}, tmp_path / "train").fail("clinic: stopped answering")
    assert gather(tmp_path).jobs[0].runs["lab"].reason == "clinic: stopped answering"


def test_a_folder_without_anything_to_tell_is_an_error(tmp_path):
    with pytest.raises(RunError, match="holds no run, graph, audit or bench"):
        gather(tmp_path)
    with pytest.raises(RunError, match="there is no such folder"):
        gather(tmp_path / "nowhere")
