"""The time of one training step at a passive party: upload, a gradient that comes at once, the way back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colonnade.data.records import Records
    from colonnade.federation.task import Task
    from colonnade.learn.bottom import Bottom

Step = Callable[[], None]
_ONCE = {"causshield": {"surrogate_epochs": 1}, "ressfl": {"warm_up": 1}}
"""What is done once before training is not timed, so it need not be done well."""


def step_of(records: Records, choice: Mapping[str, Any], task: Task, device: str) -> Step:
    """Return one step of a party with these records under the defense `choice`."""
    return step_on(bottom_of(records, choice, task, device), task.batch_size)


def step_on(bottom: Bottom, batch_size: int) -> Step:
    """Return one step of a party on its first records."""
    import torch

    rows = torch.arange(min(batch_size, len(bottom.features)))

    def step() -> None:
        upload = bottom.upload(rows, train=True)
        bottom.learn(torch.full_like(upload, 1e-6), rate=1e-3)

    return step


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
