"""If these fail, pictures are torn or repeated when they are moved, or a resumed run moves them otherwise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import colonnade as co
from colonnade.errors import ConfigError
from colonnade.learn.augment import Shifts
from colonnade.learn.train import train

CPU = torch.device("cpu")


def pictures(count=40, rows=16, columns=8):
    """Every pixel of a record is different, so that a move can be read off."""
    whole = torch.arange(rows * columns, dtype=torch.float32).reshape(1, 1, rows, columns)
    return whole + 1000 * torch.arange(count).reshape(-1, 1, 1, 1)


def test_each_picture_is_moved_as_a_whole_by_at_most_the_reach():
    given = pictures()
    moved = Shifts(3, CPU)(given)
    padded = torch.nn.functional.pad(given, [1] * 4, mode="reflect")
    seen = set()
    for picture, around in zip(moved, padded, strict=True):
        ways = [
            (down, right)
            for down in range(3)
            for right in range(3)
            if torch.equal(picture, around[:, down : down + 16, right : right + 8])
        ]
        assert len(ways) == 1
        seen.update(ways)
    assert len(seen) > 5


def test_moves_are_fresh_each_time_and_repeat_from_a_kept_state():
    shifts, given = Shifts(3, CPU), pictures()
    first = shifts(given)
    kept = {name: value.clone() for name, value in shifts.state_dict().items()}
    second = shifts(given)
    assert not torch.equal(first, second)
    other = Shifts(4, CPU)
    other.load_state_dict(kept)
    assert torch.equal(other(given), second)


def test_training_moves_pictures_and_prediction_does_not():
    digits = co.load_dataset("digits")
    images, labels = digits.images[:300], digits.label.to_numpy()[:300]
    federation = co.Federation.from_images(images, labels, ["left", "right"])
    settings = {"epochs": 2, "batch_size": 64, "network": {"family": "resnet18", "cut": 4}, "kind": "multiclass"}
    still = train(federation, seed=1, progress=False, **settings)
    moved = train(federation, seed=1, progress=False, augment="shift", **settings)
    assert moved.scores != still.scores
    records = federation.records
    assert moved.predict_proba(records).equals(moved.predict_proba(records))


def test_columns_of_a_table_are_not_moved():
    frame = pd.DataFrame({"age": range(40), "dose": range(40), "ill": [0, 1] * 20})
    federation = co.Federation.from_frame(frame, {"clinic": ["age"], "lab": ["dose"]}, label=("clinic", "ill"))
    with pytest.raises(ConfigError, match="only pictures can be moved"):
        train(federation, epochs=1, augment="shift", progress=False)


def test_noise_that_comes_again_with_its_record_does_not_go_with_moved_pictures():
    """Averaging would take it off, which is what it was chosen against."""
    digits = co.load_dataset("digits")
    federation = co.Federation.from_images(digits.images[:60], digits.label.to_numpy()[:60], ["left", "right"])
    chosen = {"name": "bottleneck", "memoise": True, "adversary": 0.0}
    with pytest.raises(ConfigError, match="a moved picture is another"):
        train(federation, chosen, epochs=1, network={"family": "resnet18", "cut": 4}, augment="shift", progress=False)


def test_a_moved_picture_is_the_same_person_in_the_privacy_account():
    """Counted as somebody else each time, ten releases of a picture would pass for six, and their ε for a small one."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (60, 1, 16, 16), dtype=np.uint8)
    federation = co.Federation.from_images(pictures, np.arange(60) % 2, ["left", "right"])
    settings = {"epochs": 10, "batch_size": 32, "network": {"family": "resnet18", "cut": 2}}
    settings["split"] = {"train": 0.8, "validation": 0.0, "test": 0.2}  # validation moves nothing
    model = train(federation, "dp_gaussian", augment="shift", progress=False, **settings)
    spent = [part.bottom.defense.spend().releases for part in model.parts.values() if part.bottom]
    assert spent == [10, 10]
