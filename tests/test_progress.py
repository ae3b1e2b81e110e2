"""Progress: people see a bar, machines read JSON, log files stay clean."""

import io
import json
import sys

import numpy as np
import pytest

from colonnade.progress import JsonProgress, Progress, RichProgress, make_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drive(progress):
    with progress:
        progress.start(3, "train [adult]")
        progress.advance(1, loss=np.float32(0.5), sent_bytes=1500)
        progress.message("epoch 1 [done]")
        progress.advance(3, accuracy=0.875)


def test_silence_is_the_default_where_nobody_looks(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    progress = make_progress()
    assert type(progress) is Progress
    drive(progress)
    assert sys.stderr.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(make_progress("auto"), RichProgress)


def test_the_bar_shows_loss_metric_bytes_and_count(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    drive(RichProgress(stream))
    text = stream.getvalue()
    for part in ("train [adult]", "3/3", "loss 0.5", "accuracy 0.875", "1.5 kB sent", "epoch 1 [done]"):
        assert part in text


def test_a_bar_without_a_known_end_and_calls_outside_a_stage_do_no_harm():
    stream = Terminal()
    with RichProgress(stream) as progress:
        progress.advance(1, loss=1.0)
        progress.message("before")
        progress.start(None, "align")
        progress.start(2, "train")
        progress.advance(2)
    progress.close()
    assert "before" in stream.getvalue()


def test_a_resumed_bar_does_not_count_old_steps_in_the_time_left():
    stream = Terminal()
    progress = RichProgress(stream)
    progress.start(1000, "train")
    progress.advance(901)
    progress.advance(902)
    task = progress._bar.tasks[0]
    assert task.completed == 902
    assert sum(sample.completed for sample in task._progress) == 2
    progress.close()


def test_machines_get_one_strict_json_line_per_event(capsys):
    drive(make_progress("json"))
    events = [json.loads(line, parse_constant=pytest.fail) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["start", "step", "message", "step"]
    assert events[0] == {"event": "start", "title": "train [adult]", "total_steps": 3}
    assert events[1] == {"event": "step", "step": 1, "loss": 0.5, "sent_bytes": 1500}


def test_a_diverged_loss_is_still_json():
    stream = io.StringIO()
    JsonProgress(stream).advance(1, loss=float("nan"))
    assert json.loads(stream.getvalue(), parse_constant=pytest.fail)["loss"] is None


@pytest.mark.parametrize(("mode", "kind"), [("silent", Progress), ("rich", RichProgress), ("json", JsonProgress)])
def test_every_mode_can_be_asked_for(mode, kind):
    assert type(make_progress(mode)) is kind
