"""If these fail, a federation learns something else than the network it was told to learn."""

import numpy as np
import pandas as pd
import pytest
import torch

from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.joint import JointRun
from colonnade.learn.train import train

TOLERANCE = 1e-6


def table_federation(
    parties: int, active_has_columns: bool, records: int = 640, kind: str = "multiclass"
) -> Federation:
    rng = np.random.default_rng(parties)
    frame = pd.DataFrame(rng.normal(size=(records, 3 * parties)), columns=[f"c{i}" for i in range(3 * parties)])
    signal = frame.to_numpy() @ rng.normal(size=3 * parties)
    frame["label"] = signal if kind == "regression" else np.digitize(signal, np.quantile(signal, [0.33, 0.66]))
    names = [f"party{k}" for k in range(parties)]
    columns = {name: [f"c{3 * k + i}" for i in range(3)] for k, name in enumerate(names)}
    return Federation.from_frame(frame, columns, label=(names[0] if active_has_columns else "owner", "label"))


def largest_difference(model, joint: JointRun) -> float:
    top_part = model.parts[model.agreement.active].top
    differences = [_difference(top_part.network, joint.network.top)]
    for party, bottom in zip(top_part.means, joint.network.bottoms, strict=True):
        differences.append(_difference(model.parts[party].bottom.network, bottom))
    return max(differences)


def _difference(ours: torch.nn.Module, theirs: torch.nn.Module) -> float:
    pairs = zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("active_has_columns", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_split_training_of_tables_equals_joint_training(parties, active_has_columns, optimizer):
    federation = table_federation(parties, active_has_columns)
    task = Task(epochs=5, batch_size=51, kind="multiclass", optimizer={"name": optimizer, "learning_rate": 0.01})
    joint = JointRun(federation, task, seed=3)
    joint.run()
    model = train(federation, task=task, seed=3, progress=False)
    assert joint.timetable.steps >= 50
    assert largest_difference(model, joint) <= TOLERANCE
    assert model.scores["accuracy"] == pytest.approx(joint.test()["accuracy"])


def test_split_regression_equals_joint_regression():
    federation = table_federation(3, True, kind="regression")
    task = Task(epochs=5, batch_size=51, optimizer={"schedule": "cosine", "warmup": 1})
    joint = JointRun(federation, task, seed=1)
    joint.run()
    model = train(federation, task=task, seed=1, progress=False)
    assert largest_difference(model, joint) <= TOLERANCE
    assert model.scores["r2"] == pytest.approx(joint.test()["r2"], abs=1e-5)


@pytest.mark.parametrize(("family", "shape"), [("mnist_net", (1, 28, 28)), ("resnet18", (3, 16, 16))])
def test_split_training_of_image_strips_equals_joint_training(family, shape):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(60, *shape), dtype=np.uint8)
    federation = Federation.from_images(images, rng.integers(0, 3, 60), ["left", "right"])
    task = Task(kind="multiclass", epochs=1, batch_size=12, network={"family": family}, optimizer={"name": "sgd"})
    joint = JointRun(federation, task, seed=0)
    joint.run()
    model = train(federation, task=task, seed=0, progress=False)
    assert largest_difference(model, joint) <= TOLERANCE
