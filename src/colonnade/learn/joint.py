"""The yardstick: the same network trained undivided on pooled columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from colonnade.data.preparation import LabelPreparation, prepare_features
from colonnade.data.split import TRAIN, assign_split, split_from_column
from colonnade.errors import DataError
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.agreement import SIMULATION_SECRET, Agreement
from colonnade.learn.optimize import Optimizer, learning_rate
from colonnade.learn.scores import scores
from colonnade.learn.timetable import Timetable
from colonnade.nets import build_bottom, build_top, upload_shape
from colonnade.nets.joint import Joint


class JointRun:
    """One process that sees every column: what a split run must equal, step by step, and what it costs more than.

    Written without the roles on purpose, so that a mistake in them can't hide here.
    """

    def __init__(self, federation: Federation, task: Task, seed: int = 0, device: str = "cpu") -> None:
        if federation.active is None or federation.rows is None:
            raise DataError("a joint run needs a label and aligned records", where="federation")
        self.task, self.device = task, torch.device(device)
        agreed = Agreement("joint", federation.parties, federation.active, task, seed)
        split = _split(federation, task, seed)
        self.timetable = Timetable(split, task.batch_size, task.epochs, seed)
        self.inputs: list[Tensor] = []
        bottoms, shapes, network = [], [], task.network
        for party in (agreed.active, *agreed.passive):
            if not federation.records[party].has_features:
                continue
            records = federation.records[party].take(federation.rows[party])
            preparation = prepare_features(records.take(self.timetable.train))
            assert preparation is not None, "a party with features has a preparation"
            self.inputs.append(torch.from_numpy(preparation.transform(records)).to(self.device))
            recipe: dict[str, Any] = {"cut": network.cut, "hidden": network.hidden}
            bottoms.append(
                build_bottom(
                    network.family,
                    preparation.shape,
                    **recipe,
                    seed=agreed.private_seed("bottom", party, SIMULATION_SECRET),
                )
            )
            shapes.append(upload_shape(bottoms[-1], preparation.shape))
        label = federation.records[agreed.active].take(federation.rows[agreed.active]).label
        assert label is not None, "the active party holds the label"
        self.label = LabelPreparation(task.kind).fit(label.iloc[np.flatnonzero(split == TRAIN)])
        self.targets = torch.from_numpy(self.label.transform(label)).to(self.device)
        top = build_top(
            network.family,
            shapes,
            self.label.outputs,
            cut=network.cut,
            hidden=network.hidden,
            join=network.join,
            seed=agreed.private_seed("top", agreed.active, SIMULATION_SECRET),
        )
        self.network = Joint(bottoms, top).to(self.device)
        self.optimizer = Optimizer(self.network.parameters(), task.optimizer)

    def run(self, steps: int | None = None) -> None:
        """Train for `steps`, or to the end."""
        for epoch in range(self.task.epochs):
            for step, positions in self.timetable.batches(epoch):
                if step == steps:
                    return
                self.step(step, positions)

    def step(self, step: int, positions: np.ndarray[Any, np.dtype[np.int64]]) -> float:
        """Take one step on one batch and return its loss."""
        self.network.train()
        self.optimizer.zero_grad()
        outputs = self.network([x[positions] for x in self.inputs])
        loss = self._loss(outputs, self.targets[positions])
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(
            learning_rate(self.task.optimizer, step, self.timetable.steps_per_epoch, self.timetable.epochs)
        )
        return float(loss.detach())

    def test(self) -> dict[str, float]:
        """Return the scores on the test records."""
        self.network.eval()
        with torch.no_grad():
            outputs = torch.cat(
                [self.network([x[batch] for x in self.inputs]) for _, batch in self.timetable.test_batches()]
            )
        return scores(outputs, self.targets[self.timetable.test], self.label)

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if self.label.kind == "regression":
            return functional.mse_loss(outputs.squeeze(1), targets)
        return functional.cross_entropy(outputs, targets)


def _split(federation: Federation, task: Task, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    assert federation.active is not None and federation.rows is not None
    rows = federation.rows[federation.active]
    if federation.split is not None:
        return split_from_column(federation.split.iloc[rows], validation=task.split.validation, seed=seed)
    ids = federation.records[federation.active].ids[rows]
    return assign_split(ids, task.split.train, task.split.validation, task.split.test, seed)
