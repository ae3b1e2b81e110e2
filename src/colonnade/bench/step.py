"""The time of one training step: at one party, where a gradient comes at once, and of all parties and the top model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from colonnade.data.records import Records
    from colonnade.federation.federation import Federation
    from colonnade.federation.task import Task
    from colonnade.learn.bottom import Bottom
    from colonnade.learn.top import Top

Step = Callable[[], None]
RECORDS = 1024
_ONCE = {"causshield": {"surrogate_epochs": 1}, "ressfl": {"warm_up": 1}}
"""What is done once before training is not timed, so it need not be done well."""


def step_on(bottom: Bottom, batch_size: int) -> Step:
    """Return one step of a party on its first records."""
    import torch

    rows = torch.arange(min(batch_size, len(bottom.features)))

    def step() -> None:
        upload = bottom.upload(rows, train=True)
        bottom.learn(torch.full_like(upload, 1e-6), rate=1e-3)

    return step


def step_of_all(federation: Federation, choice: Mapping[str, Any], task: Task, device: str) -> Step:
    """Return one step of all parties and the top model, passive parties under the defense `choice`.

    Uploads and gradients are handed over, nothing travels. Every party takes its own first records: whether they are
    the same people's makes no difference to a clock.
    """
    import torch

    bottoms = [
        bottom_of(first_of(held), {"name": "none"} if party == federation.active else choice, task, device)
        for party, held in federation.records.items()
        if held.has_features
    ]
    rows = torch.arange(min(task.batch_size, *(len(bottom.features) for bottom in bottoms)))
    top, targets = _top_over(bottoms, federation, task, device)
    labels, everybody = targets[: len(rows)], [None] * len(bottoms)

    def step() -> None:
        uploads = [bottom.upload(rows, train=True) for bottom in bottoms]
        top.follow(uploads)
        answered = top.learn(uploads, everybody, labels, rate=1e-3)
        for bottom, gradient in zip(bottoms, answered.gradients, strict=True):
            bottom.learn(gradient, rate=1e-3)

    return step


def first_of(records: Records) -> Records:
    """Return the first records: preparing all of them would take far longer than the steps."""
    import numpy as np

    return records.take(np.arange(min(RECORDS, len(records))))


def _top_over(bottoms: Sequence[Bottom], federation: Federation, task: Task, device: str) -> tuple[Top, Tensor]:
    """Return the top model that joins these bottoms' uploads, and the numbers that stand for the labels."""
    import torch

    from colonnade.data.preparation import LabelPreparation
    from colonnade.learn.top import Top
    from colonnade.nets import build_top, upload_shape

    assert federation.active is not None, "training needs a party with the label"
    label = federation.records[federation.active].label
    assert label is not None, "the active party holds the label"
    preparation, network = LabelPreparation(task.kind).fit(label), task.network
    shapes = [upload_shape(bottom.network, tuple(bottom.features.shape[1:])) for bottom in bottoms]
    built = build_top(
        network.family,
        shapes,
        preparation.outputs,
        cut=network.cut,
        hidden=network.hidden,
        join=network.join,
        seed=0,
    )
    top = Top(
        built,
        regression=preparation.kind == "regression",
        settings=task.optimizer,
        upload_shapes=shapes,
        device=torch.device(device),
        mixed=task.precision == "mixed",
    )
    return top, torch.from_numpy(preparation.transform(label)).to(device)


def bottom_of(records: Records, choice: Mapping[str, Any], task: Task, device: str) -> Bottom:
    """Return the bottom model of a party with these records under the defense `choice`, ready to learn."""
    import torch

    from colonnade.data.preparation import prepare_features
    from colonnade.learn.bottom import Bottom
    from colonnade.learn.train import named_defense
    from colonnade.nets import build_bottom

    preparation = prepare_features(records)
    assert preparation is not None, "a passive party has columns or pictures"
    shape, network = tuple(preparation.shape), task.network
    defense = named_defense({**choice, **_ONCE.get(str(choice["name"]), {})})
    defense.seed(0, device)
    defense.meet(preparation)
    bottom = Bottom(
        defense.extend(build_bottom(network.family, shape, cut=network.cut, hidden=network.hidden, seed=0), shape),
        torch.from_numpy(preparation.transform(records)),
        defense,
        settings=task.optimizer,
        device=torch.device(device),
        mixed=task.precision == "mixed",
    )
    defense.prepare(bottom.network, bottom.features)
    return bottom


def median_seconds(steps: Sequence[Step], counts: tuple[int, int], device: str) -> list[float]:
    """Return the median time of each step; they take turns, so that a machine that slows down slows all of them.

    Args:
        steps: what is timed.
        counts: how often each is taken before it is timed, because caches and schedules settle, and how often then.
        device: where they compute.
    """
    untimed, timed = counts
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(untimed + timed):
        for step, times in zip(steps, taken, strict=True):
            times.append(_seconds(step, device))
    return [median(times[untimed:]) for times in taken]


def _seconds(step: Step, device: str) -> float:
    import torch

    started = time.perf_counter()
    step()
    if device != "cpu":  # it works while Python goes on
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
