"""If these fail, a full disk ends a training without saying which file, or leaves half a checkpoint behind."""

import errno
import os
import shutil

import numpy as np
import pytest

from colonnade.checkpoint import Checkpoints
from colonnade.errors import RunError


def full(_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_with_the_file_and_the_checkpoints_before_stay(tmp_path, monkeypatch):
    """Whoever makes room could not go on from the last step that was kept."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"w": np.ones(3)}, {})
    monkeypatch.setattr("colonnade.checkpoint.os.fsync", full)
    with pytest.raises(RunError, match=r"step-000000002\.safetensors: cannot be written: .*No space left"):
        checkpoints.save(2, {"w": np.ones(3)}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.safetensors"]
    assert checkpoints.steps() == [1] and checkpoints.load(1)[0]["w"].tolist() == [1, 1, 1]


def test_a_folder_that_is_gone_is_told(tmp_path):
    """What the library raises then is no error of ours, and would be shown as 'Aborted.'"""
    checkpoints = Checkpoints(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(RunError, match=r"step-000000002\.safetensors: cannot be written: .*No such file"):
        checkpoints.save(2, {"w": np.ones(3)}, {})
