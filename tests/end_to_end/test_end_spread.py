"""One party started with torchrun: if these fail, its GPUs learn another model than one would, or leave all waiting."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from town import Town

from colonnade.learn.part import Part
from colonnade.run import Run

pytestmark = pytest.mark.slow

EPOCHS = 12
PROGRAM = Path(__file__).with_name("live_simulated.py")


class SpreadTown(Town):
    """A town whose lab is two processes."""

    def __init__(self, folder):
        super().__init__(folder, 2, epochs=EPOCHS)

    def start_lab(self):
        launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--", str(PROGRAM), "join"]
        files = [str(self.folder / name) for name in ("federation.yaml", "lab.yaml")]
        with (self.folder / "lab.log").open("ab") as log:
            self.launcher = subprocess.Popen(
                [sys.executable, "-m", *launch, files[0], "--party", files[1], "--run", self.run_name],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                cwd=self.folder,
            )

    def helper(self):
        """The process of the lab that is not the lab itself."""
        (found,) = [child for child in psutil.Process(self.launcher.pid).children() if child.environ()["RANK"] == "1"]
        return found

    def wait_for_lab(self, messages, patience=60.0):
        end = time.monotonic() + patience
        while self.sent_messages("lab") < messages:
            assert time.monotonic() < end and self.launcher.poll() is None, self.log("lab")
            time.sleep(0.005)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same federation with every party in one process."""
    town = Town(tmp_path_factory.mktemp("alone"), 2, epochs=EPOCHS)
    town.start_all()
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
    return town


@pytest.fixture
def town(tmp_path):
    town = SpreadTown(tmp_path)
    yield town
    town.launcher.terminate()
    town.launcher.wait(40)


def files(town, party):
    folder = town.run_folder(party)
    return {path.relative_to(folder) for path in folder.rglob("*")}


def assert_same_models(ours, theirs):
    for party in ours.parties:
        mine, other = (Part.load(town.run_folder(party) / "model") for town in (ours, theirs))
        assert (mine.bottom.recipe, mine.bottom.defense.describe()) == (
            other.bottom.recipe,
            other.bottom.defense.describe(),
        )
        weights, expected = mine.bottom.network.state_dict(), other.bottom.network.state_dict()
        assert weights.keys() == expected.keys()
        for name, weight in weights.items():
            torch.testing.assert_close(weight, expected[name], atol=1e-5, rtol=0)


def test_two_processes_of_a_party_learn_what_one_learns(town, alone):
    town.start_lab()
    town.start("clinic")
    assert town.launcher.wait(60) == 0, town.log("lab")
    assert town.wait()["clinic"] == 0, town.log("clinic")
    assert_same_models(town, alone)
    for party in town.parties:
        assert files(town, party) == files(alone, party)
        assert town.sent_messages(party) == alone.sent_messages(party)
        Run.open(town.run_folder(party)).verify_ledger()
    said = alone.log("lab").replace(str(alone.folder), str(town.folder))
    assert town.log("lab") == said, "helpers print nothing"


def test_a_killed_helper_ends_the_run_with_one_error_and_one_process_can_resume_it(town, alone):
    town.start_lab()
    town.start("clinic")
    town.wait_for_lab(40)
    town.helper().send_signal(signal.SIGKILL)
    assert town.launcher.wait(40) != 0
    errors = [line for line in town.log("lab").splitlines() if line.startswith("error: ")]
    remedy = "look for its own error; then start the party again with --resume"
    assert errors == [f"error: one of this party's processes has ended, or torchrun was stopped ({remedy})"]
    assert "terminate called" not in town.log("lab")
    assert Run.open(town.run_folder("lab")).status == "failed"
    assert town.wait()["clinic"] == 6
    assert "error: lab: " in town.log("clinic")
    town.start_all("--resume")
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
    assert_same_models(town, alone)
