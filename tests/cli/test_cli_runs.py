"""`colonnade runs`: find again what was run."""

import json

import numpy as np
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.run import Run
from colonnade.wire.message import Message


def list_runs(root, *options):
    return CliRunner().invoke(app, ["runs", str(root), *options], env={"COLUMNS": "200"})


def make_runs(root):
    with Run.create("good", {"task": {"kind": "binary"}}, root) as run:
        run.ledger.record("lab", Message("good", "clinic", "upload", 1, {"h": np.zeros(500, np.float32)}))
        run.finish({"test": {"accuracy": 0.875, "loss": float("nan")}})
    Run.create("lost", {}, root / "lab").fail("clinic: stopped answering")
    return Run.create("live", {"task": "odd"}, root / "deep" / "er")


def test_machines_get_every_run_with_its_outcome(tmp_path):
    live = make_runs(tmp_path)
    rows = {row["name"]: row for row in json.loads(list_runs(tmp_path, "--json").stdout)}
    live.close()
    assert {name: row["status"] for name, row in rows.items()} == {
        "good": "finished", "lab/lost": "failed", "deep/er/live": "running",
    }  # fmt: skip
    good = rows["good"]
    assert (good["task"], good["scores"], good["sent_bytes"]) == ("binary", {"accuracy": 0.875, "loss": None}, 2000)
    assert rows["lab/lost"]["reason"] == "clinic: stopped answering"


def test_people_get_a_table(tmp_path):
    make_runs(tmp_path).close()
    output = list_runs(tmp_path).stdout
    for part in ("good", "finished", "binary", "accuracy 0.875", "2.0 kB", "clinic: stopped answering", "interrupted"):
        assert part in output


def test_runs_come_in_the_order_they_were_started(tmp_path):
    for name in "cab":
        Run.create(name, {}, tmp_path).close()
    assert [row["name"] for row in json.loads(list_runs(tmp_path, "--json").stdout)] == ["c", "a", "b"]


def test_one_damaged_run_does_not_hide_the_others(tmp_path):
    Run.create("good", {}, tmp_path).close()
    Run.create("bad", {}, tmp_path).close()
    (tmp_path / "bad" / "run.json").write_text("{")
    rows = {row["name"]: row["status"] for row in json.loads(list_runs(tmp_path, "--json").stdout)}
    assert rows == {"good": "interrupted", "bad": "damaged"}
    assert "run.json" in list_runs(tmp_path).stdout


def test_an_empty_folder_has_no_runs_and_a_missing_one_is_an_error(tmp_path):
    assert list_runs(tmp_path).stdout.startswith("no runs")
    assert list_runs(tmp_path / "nowhere").exit_code == 8


def test_a_run_folder_itself_can_be_named(tmp_path):
    Run.create("one", {}, tmp_path).close()
    assert json.loads(list_runs(tmp_path / "one", "--json").stdout)[0]["name"] == "one"
