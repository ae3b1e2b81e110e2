"""A run's folder: what a user would lose when a process is killed, a disk fills or a file is touched."""

import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import colonnade.run as run_module
from colonnade.errors import ConfigError, RunError
from colonnade.run import Run, require_folder, write_atomically
from colonnade.wire.message import Message

CONFIG = {"name": "demo", "task": {"kind": "binary", "hidden": (64, 32)}, "seed": 3}


@pytest.fixture
def run(tmp_path):
    with Run.create("first", CONFIG, tmp_path) as run:
        yield run


def test_a_new_run_holds_its_config_and_is_running(run):
    assert run.config == {"name": "demo", "task": {"kind": "binary", "hidden": [64, 32]}, "seed": 3}
    assert run.checkpoints.is_dir()
    assert (run.status, Run.open(run.path).status) == ("running", "running")
    assert run.result is None
    assert run.reason is None
    assert abs((datetime.now(UTC) - run.started).total_seconds()) < 3600


def test_runs_without_a_name_get_different_ones(tmp_path):
    names = {Run.create(None, {}, tmp_path).name for _ in range(20)}
    assert len(names) == 20


def test_a_run_without_a_name_draws_again_where_the_name_is_taken(tmp_path, monkeypatch):
    """One in some hundred times twenty runs of one second ended in an error that asked for another name."""
    drawn = iter(["aaaa", "aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(run_module.secrets, "token_hex", lambda size: next(drawn))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    first = run_module._unused_name(now, tmp_path)
    (tmp_path / first).mkdir()
    assert (first[-4:], run_module._unused_name(now, tmp_path)[-4:]) == ("aaaa", "bbbb")


def test_a_taken_name_is_refused_so_that_no_run_is_overwritten(run):
    with pytest.raises(RunError, match="exists already"):
        Run.create("first", CONFIG, run.path.parent)


@pytest.mark.parametrize("name", ["", "../evil", "a/b", ".hidden", "x" * 101, "a\n"])
def test_a_name_cannot_leave_the_runs_folder(tmp_path, name):
    with pytest.raises(RunError, match="no name for a run"):
        Run.create(name, {}, tmp_path)


def test_a_failed_creation_leaves_nothing_behind(tmp_path):
    with pytest.raises(RunError, match="YAML"):
        Run.create("odd", {"value": object()}, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be made"):
        Run.create("odd", {}, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_opening_something_else_names_the_nearest_run(run, tmp_path):
    with pytest.raises(RunError, match="did you mean 'first'") as error:
        Run.open(tmp_path / "frist")
    assert error.value.exit_code == 8
    with pytest.raises(RunError, match="colonnade runs"):
        Run.open(tmp_path / "nowhere" / "run")


def test_metrics_come_back_as_one_row_per_step(run):
    run.log(1, loss=0.5)
    run.log(2, loss=np.float32(0.25), bytes=np.int64(7))
    run.log(2, accuracy=0.9)
    frame = run.metrics()
    assert frame["step"].tolist() == [1, 2]
    assert frame["loss"].tolist() == [0.5, 0.25]
    assert frame["accuracy"].isna().tolist() == [True, False]
    assert frame["bytes"].tolist()[1] == 7


def test_metrics_of_a_run_that_logged_nothing_are_empty(run):
    assert run.metrics().empty
    assert run.metrics().columns.tolist() == ["step"]


def test_a_diverged_loss_stays_readable_for_strict_json(run):
    run.log(1, loss=float("nan"), other=float("inf"))
    assert "null" in (run.path / "metrics.jsonl").read_text()
    assert run.metrics()["loss"].isna().all()


def test_steps_repeated_after_a_resume_are_not_counted_twice(run):
    for step in (1, 2, 3, 4):
        run.log(step, loss=step)
    run.close()
    resumed = Run.resume(run.path)
    resumed.log(3, loss=30)
    assert resumed.metrics()[["step", "loss"]].to_numpy().tolist() == [[1, 1], [2, 2], [3, 30]]
    resumed.close()


def test_a_torn_last_line_of_the_metrics_is_cut_off_when_the_run_goes_on(run):
    run.log(1, loss=1.0)
    run.close()
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step":2,"lo')
    again = Run.open(run.path)
    assert again.metrics()["step"].tolist() == [1]
    assert path.read_bytes().endswith(b'"lo'), "reading alone must not change a file another process may be writing"
    again.log(2, loss=2.0)
    assert again.metrics()["loss"].tolist() == [1.0, 2.0]
    again.close()


def test_a_damaged_line_in_the_middle_names_file_and_line(run):
    run.log(1, loss=1.0)
    path = run.path / "metrics.jsonl"
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    with pytest.raises(RunError, match=r"metrics\.jsonl: line 1 is damaged .*start the run again"):
        run.metrics()


def test_finish_keeps_the_result(run):
    run.finish({"metrics": {"accuracy": np.float64(0.9)}, "shape": (1, np.int32(2)), "path": run.path})
    again = Run.open(run.path)
    assert (run.status, again.status) == ("finished", "finished")
    assert again.result == {"metrics": {"accuracy": 0.9}, "shape": [1, 2], "path": str(run.path)}
    assert json.loads((run.path / "result.json").read_text())["status"] == "finished"


def test_fail_keeps_the_reason(run):
    run.fail("lab: stopped answering")
    assert (Run.open(run.path).status, Run.open(run.path).reason) == ("failed", "lab: stopped answering")
    assert Run.open(run.path).result is None


@pytest.mark.parametrize(("error", "status"), [(ValueError("bad"), "failed"), (KeyboardInterrupt(), "interrupted")])
def test_an_error_inside_the_block_is_written_down(tmp_path, error, status):
    with pytest.raises(type(error)), Run.create("block", {}, tmp_path) as run:
        raise error
    assert Run.open(run.path).status == status
    assert Run.open(run.path).reason == (str(error) or "KeyboardInterrupt")


def test_an_error_after_finish_does_not_take_the_result_away(tmp_path):
    with pytest.raises(ValueError, match="late"), Run.create("late", {}, tmp_path) as run:
        run.finish({"metrics": {}})
        raise ValueError("late")
    assert run.status == "finished"


def test_resume_makes_a_failed_run_run_again(run):
    run.fail("power cut")
    with Run.resume(run.path) as again:
        assert again.status == "running"
        again.finish({})
    assert Run.open(run.path).status == "finished"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("nobody came")], ids=repr)
def test_resuming_a_finished_run_keeps_its_result_until_another_replaces_it(run, error):
    """One party alone resumes, waits and gives up: its scores, history and contributions would be gone."""
    run.ledger.record("lab", Message("upload", 0, {}, {"a": 1}))
    run.finish({"test": {"accuracy": 0.9}})
    before = (run.path / "result.json").read_bytes()
    with pytest.raises(type(error)), Run.resume(run.path) as again:
        assert (again.status, Run.open(run.path).status) == ("running", "running")
        again.ledger.record("lab", Message("upload", 1, {}, {"a": 2}))
        raise error
    assert (run.path / "result.json").read_bytes() == before
    assert Run.open(run.path).status == "finished"
    Run.open(run.path).verify_ledger()
    with Run.resume(run.path) as again:
        again.finish({"test": {"accuracy": 0.8}})
    assert Run.open(run.path).result == {"test": {"accuracy": 0.8}}


def test_a_run_that_had_learned_nothing_goes_on_with_the_config_it_is_given(run):
    """A mistake is corrected and the run resumed: its config would name the mistake for ever."""
    run.fail("unknown variable")
    with Run.resume(run.path, {"seed": 4}) as again:
        assert again.config == {"seed": 4}


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_that_has_learned_something_keeps_its_config(run, finished):
    """What its weights or its result came from would be told wrong."""
    if finished:
        run.finish({"accuracy": 0.9})
    else:
        (run.checkpoints / "step-000000004.safetensors").write_bytes(b"weights")
        run.fail("lab: was lost")
    with Run.resume(run.path, {"seed": 4}) as again:
        assert again.config["seed"] == 3


def test_lines_missing_from_a_resumed_ledger_are_still_noticed(run):
    for step in range(3):
        run.ledger.record("lab", Message("upload", step, {}, {"a": 1}))
    run.finish({})
    lines = run.ledger.path.read_bytes().splitlines(keepends=True)
    run.ledger.path.write_bytes(b"".join(lines[:2]))
    with Run.resume(run.path) as again:
        again.ledger.record("lab", Message("upload", 2, {}, {"a": 2}))
    with pytest.raises(RunError, match="nor go on after it"):
        Run.open(run.path).verify_ledger()


def test_two_processes_cannot_write_one_run(run):
    with pytest.raises(RunError, match="another process is writing"):
        Run.resume(run.path)
    with pytest.raises(RunError, match="another process is writing"):
        Run.open(run.path).log(1, loss=0)


def test_who_only_looks_at_a_run_does_not_keep_it_from_going_on(run, monkeypatch):
    """`colonnade watch` in another terminal would end `join --resume` with 'another process is writing this run'."""
    run.fail("a test")
    with (run.path / "run.json").open("rb") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        monkeypatch.setattr(run_module.time, "sleep", lambda _: fcntl.flock(look, fcntl.LOCK_UN))
        with Run.resume(run.path) as again:
            again.log(1, loss=0)


def test_a_killed_run_is_interrupted_and_keeps_all_it_logged(tmp_path):
    code = """
import sys
from colonnade.run import Run
run = Run.create("killed", {}, sys.argv[1])
for step in range(100):
    run.log(step, loss=step)
print("logged", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert Run.open(tmp_path / "killed").status == "running"
        process.send_signal(signal.SIGKILL)
    run = Run.open(tmp_path / "killed")
    assert run.status == "interrupted"
    assert len(run.metrics()) == 100


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"started": 3}', '{"started": "yesterday"}'])
def test_a_damaged_identity_is_a_clear_error(run, content):
    (run.path / "run.json").write_text(content)
    with pytest.raises(RunError, match=r"run\.json: is damaged"):
        Run.open(run.path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"status": "odd", "reason": 0, "ledger": "", "result": {}}'])
def test_a_damaged_result_is_a_clear_error(run, content):
    (run.path / "result.json").write_text(content)
    with pytest.raises(RunError, match=r"result\.json: is damaged"):
        _ = run.status


@pytest.mark.parametrize(("content", "what"), [(None, "is missing"), ("[", "is damaged"), ("3", "is damaged")])
def test_a_damaged_config_is_a_clear_error(run, content, what):
    (run.path / "config.yaml").unlink()
    if content is not None:
        (run.path / "config.yaml").write_text(content)
    with pytest.raises(RunError, match=f"config.yaml: {what}"):
        _ = run.config


def test_an_atomic_write_that_fails_leaves_the_old_file(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(RunError, match="cannot be written"):
        write_atomically(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    write_atomically(tmp_path / "file", b"old")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("wanted", ["file", "file/below", "/proc/x", "n" * 300, "new/" + "n" * 300])
def test_a_folder_that_cannot_be_is_told_before_the_work_and_nothing_is_left(tmp_path, wanted):
    """Hours of work would end in an error, and find no place to be kept."""
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(ConfigError, match="no folder can be written here"):
        require_folder(tmp_path / wanted)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_looking_at_a_folder_leaves_no_trace(tmp_path, monkeypatch):
    """An empty folder in the place of a result looks like one that was lost."""
    monkeypatch.chdir(tmp_path)
    for wanted in ("new/and/deeper", ".", "kept"):
        require_folder(Path(wanted))
        assert not any(tmp_path.iterdir())
    (tmp_path / "kept").mkdir()
    require_folder(Path("kept/new"))
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]


def test_a_secret_stays_with_its_run_and_is_readable_by_its_owner_alone(run, tmp_path):
    """A resumed run would repeat other noise; two runs with one secret would give each other's noise away."""
    secret = run.secret
    assert len(secret) == 32
    assert stat.S_IMODE((run.path / "secret").stat().st_mode) == 0o600
    run.fail("a test")
    with Run.resume(run.path) as again:
        assert again.secret == secret
    with Run.create("other", {}, tmp_path) as other:
        assert other.secret != secret


def test_a_run_that_begins_anew_has_another_secret_and_the_order_of_its_records_stays(run):
    """The noise of the attempt before could be taken off; with another order, nobody could go on who remembers it."""
    first = run.secret
    assert run.order_secret == first
    second = run.renew_secret()
    assert second == run.secret != first
    third = run.renew_secret()
    assert third not in (first, second)
    run.fail("a test")
    with Run.resume(run.path) as again:
        assert (again.secret, again.order_secret) == (third, first)
    for name in ("secret", "order.secret"):
        assert stat.S_IMODE((run.path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("torn", [b"", b"half", b"x" * 33])
def test_a_torn_secret_is_refused(run, torn):
    """An empty one would be a noise that anybody can compute."""
    run.renew_secret()
    for name in ("secret", "order.secret"):
        (run.path / name).write_bytes(torn)
    with pytest.raises(RunError, match="secret: is damaged"):
        _ = run.secret
    with pytest.raises(RunError, match=r"order\.secret: is damaged"):
        _ = run.order_secret


def test_a_secret_that_cannot_be_written_is_told_with_its_file(run, monkeypatch):
    """A full disk would end the run with 'Aborted.', and leave a file that looks like a secret."""

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("colonnade.run.os.fsync", full)
        with pytest.raises(RunError, match="secret: cannot be written: No space left"):
            _ = run.secret
    assert not list(run.path.glob("*secret*"))
    assert len(run.secret) == 32


def test_a_half_written_secret_is_none(run):
    (run.path / "secret.partial").write_bytes(b"half")
    assert len(run.secret) == 32
