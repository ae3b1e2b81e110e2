"""Every error of the reference is made here: if one fails, people look up a line and find another, or none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import colonnade.errors
import test_docs
from colonnade.cli import app
from colonnade.wire.deadline import Deadline
from colonnade.wire.frame import encode
from colonnade.wire.header import Limits
from colonnade.wire.local import local_channels
from colonnade.wire.message import Message

STUDY = "/home/ada/study"
PAGE = test_docs.REFERENCE / "errors.md"
SHOWN = dict(re.findall(r"^\*\*`(\w+)`\*\*[^\n]*\n\n```text\n(.*?)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
BASES = {"ColonnadeError", "WireError"}
"""Never raised themselves."""


def documented(name):
    """Return the command of an error, if it has one, and its line."""
    *command, line = SHOWN[name].splitlines()
    return (command[0] if command else None), line


@pytest.fixture
def study(tmp_path, monkeypatch):
    """The files of the first steps, at ports that are free here."""
    monkeypatch.chdir(tmp_path)
    program = next(block for block in test_docs.blocks(test_docs.DOCS / "getting-started.md") if block.file)
    exec(compile(program.text, program.file, "exec"), {})
    for line in ("init clinic lab --active clinic --label outcome", "keys clinic lab"):
        assert CliRunner().invoke(app, line.split()).exit_code == 0
    for number, port in enumerate(test_docs.free_ports(2)):
        edit("federation.yaml", f"127.0.0.1:{7101 + number}", f"127.0.0.1:{port}")(tmp_path)
    return tmp_path


def edit(name, old, new):
    """Return a mistake: `old` becomes `new` in a file."""

    def make(folder):
        file = folder / name
        changed = re.sub(old, new, file.read_text(), flags=re.MULTILINE)
        assert changed != file.read_text()
        file.write_text(changed)

    return make


def repeat_the_last_record(folder):
    table = folder / "lab.csv"
    table.write_text(table.read_text() + table.read_text().splitlines()[-1] + "\n")


MISTAKES = {
    "ConfigError": edit("federation.yaml", "^  epochs: 20", "  epoch: 20"),
    "DataError": repeat_the_last_record,
    "AlignmentError": edit("lab.csv", "^p", "P"),
    "PeerLostError": lambda folder: None,
    "AuthenticationError": edit("clinic.yaml", "keys/clinic/(certificate|key)", r"keys/lab/\1"),
    "RunError": lambda folder: (folder / "runs" / "train" / "clinic" / "run.json").parent.mkdir(parents=True),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_prints_its_line_and_ends_with_its_code(name, study):
    MISTAKES[name](study)
    command, line = documented(name)
    result = CliRunner().invoke(app, command.split()[1:])
    assert result.stderr.replace(str(study), STUDY).splitlines() == [line]
    assert result.exit_code == getattr(colonnade.errors, name).exit_code


def wait_in_vain():
    clinic, _ = local_channels(["clinic", "lab"], deadline=Deadline(reply=0.1)).values()
    clinic.recv("lab", "upload", 0)


def say_what_only_others_may():
    _, lab = local_channels(["clinic", "lab"], allowed={"lab": frozenset({"upload"})}).values()
    lab.send("clinic", "decision", 0)


def send_too_much():
    upload = {"upload": np.zeros((1024, 1024), np.float32)}
    encode(Message("study", "lab", "upload", 0, upload), limits=Limits(frame_bytes=2**20))


PEERS = {"DeadlineError": wait_in_vain, "RefusedError": say_what_only_others_may, "FrameError": send_too_much}


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_that_does_wrong_is_told_of_in_its_line(name):
    with pytest.raises(getattr(colonnade.errors, name)) as caught:
        PEERS[name]()
    assert f"error: {caught.value}" == documented(name)[1]


def test_every_error_of_the_reference_is_shown_and_made():
    listed = {cells[0].strip("`") for cells in test_docs.rows(PAGE.read_text())}
    assert SHOWN.keys() == MISTAKES.keys() | PEERS.keys() == listed - BASES
