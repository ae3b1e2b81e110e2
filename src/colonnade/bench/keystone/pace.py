"""What a defense adds to the time of one training step at a passive party, timed when nobody else works."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from colonnade.bench.images.setting import UNDEFENDED, Choice
from colonnade.bench.kept import file_name
from colonnade.bench.keystone.setting import Ground
from colonnade.bench.keystone.victim import deciding_files, device_of

if TYPE_CHECKING:
    from colonnade.data.records import Records
    from colonnade.federation.task import Task

_RECORDS = 1024
_ONCE = {"causshield": {"surrogate_epochs": 1}, "ressfl": {"warm_up": 1}}
"""What is done once before training is not timed, so it need not be done well."""


@dataclass(frozen=True)
class Pace:
    """The time of a step under one defense, beside that of an undefended step.

    Attributes:
        ground: whose records.
        defense: as pairs of a name and a value.
        preset: how many steps.
    """

    ground: Ground
    defense: tuple[tuple[str, Any], ...]
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        chosen = " ".join(str(value) for _, value in self.defense)
        return f"pace {self.ground.dataset} {self.ground.cut or ''} {chosen}"

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the result."""
        return file_name(self.title, [self, self.ground.size(self.preset).steps], deciding_files())

    def run(self) -> float:
        """Return the median time of a step as a ratio to that of an undefended one; both are timed now and here."""
        import numpy as np

        device = device_of(self.ground)
        federation, task = self.ground.laid_out(self.preset, device)
        party = next(name for name in federation.parties if name != federation.active)
        held = federation.records[party]
        records = held.take(np.arange(min(_RECORDS, len(held))))
        steps = [step_of(records, choice, task, device) for choice in (UNDEFENDED, dict(self.defense))]
        bare, defended = _seconds(steps, self.ground.size(self.preset).steps, device)
        return defended / bare


def step_of(records: Records, choice: Choice, task: Task, device: str) -> Callable[[], None]:
    """Return one step of a party with these records: upload, a gradient that comes at once, the way back."""
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
    rows = torch.arange(min(task.batch_size, len(records)))

    def step() -> None:
        upload = bottom.upload(rows, train=True)
        bottom.learn(torch.full_like(upload, 1e-6), rate=1e-3)

    return step


def _seconds(steps: Sequence[Callable[[], None]], counts: tuple[int, int], device: str) -> list[float]:
    """Return the median time of each step; they take turns, so that a machine that slows down slows all of them."""
    untimed, timed = counts
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(untimed + timed):
        for step, times in zip(steps, taken, strict=True):
            times.append(_timed(step, device))
    return [median(times[untimed:]) for times in taken]


def _timed(step: Callable[[], None], device: str) -> float:
    import torch

    started = time.perf_counter()
    step()
    if device != "cpu":  # it works while Python goes on
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
