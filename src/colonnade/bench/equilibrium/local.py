"""Local updates: how much is learned from a quarter of the rounds, and what that saves on the wire."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from colonnade.bench.equilibrium.methods import NONE
from colonnade.bench.equilibrium.play import Clock
from colonnade.bench.equilibrium.rows import mean
from colonnade.bench.equilibrium.sets import NOTES, scene
from colonnade.bench.equilibrium.setting import SEEDS, Size
from colonnade.bench.equilibrium.table import ADULT
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.federation.task import Task
from colonnade.progress import Progress

FEWER = 4
"""Local updates, and how many times fewer the rounds are with them."""
SIZES = {"smoke": Size(512, 240, 4), "default": Size(None, None, 4), "paper": Size(None, None, 8)}
"""Few epochs: after many, a quarter of the rounds is enough without local updates too, and nothing can be told apart.
"""
_RATE = 1e-3
_SCHEDULES = ("cosine", "constant")
_DECIDING = (
    *("data", "learn", "nets", "wire"),
    *(f"bench/equilibrium/{name}.py" for name in ("local", "play", "sets")),
)


@dataclass(frozen=True)
class Variant:
    """One way to spend rounds.

    Attributes:
        local_updates: steps on each batch.
        labels: who sees them, `server` or `shared`.
        part: the rounds are divided by this.
    """

    local_updates: int = 1
    labels: str = "server"
    part: int = 1


ALL_ROUNDS = Variant()
VARIANTS = (ALL_ROUNDS, Variant(FEWER, "server", FEWER), Variant(FEWER, "shared", FEWER), Variant(1, "server", FEWER))


@dataclass(frozen=True)
class Trial:
    """One variant under one schedule with one seed; nothing is hidden.

    Attributes:
        variant: how rounds are spent.
        schedule: of the learning rate.
        seed: of the run.
        preset: how much is trained.
    """

    variant: Variant
    schedule: str
    seed: int
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        one = self.variant
        return f"{ADULT.dataset} {self.schedule} {one.local_updates} {one.labels} {one.part} {self.seed}"

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the run."""
        return file_name(self.title, [self, SIZES[self.preset]], code(*_DECIDING))

    def run(self) -> dict[str, Any]:
        """Train, and return the score, the exchanges, and the bytes of everybody."""
        from colonnade.learn.train import train

        size, clock = SIZES[self.preset], Clock()
        staged = scene(ADULT, size.train, size.test)
        with TemporaryDirectory() as folder:
            model = train(staged.federation, task=self._task(), seed=self.seed, run=folder, progress=clock)
            sent = [json.loads(path.read_bytes())["sent_bytes"] for path in Path(folder).glob("*/result.json")]
        return {
            "target": model.scores[staged.metric],
            "metric": staged.metric,
            "exchanges": clock.steps,
            "bytes_of_all": sum(sent),
        }

    def _task(self) -> Task:
        return Task.model_validate(
            {
                "kind": "binary",
                "epochs": SIZES[self.preset].epochs // self.variant.part,
                "optimizer": {"learning_rate": _RATE, "schedule": self.schedule},
                "local_updates": self.variant.local_updates,
                "labels": self.variant.labels,
                "checkpoint_every": 10**6,  # none is wanted
            }
        )


@BENCHES.register("equilibrium-local")
def local(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Local updates on Adult: a quarter of the rounds with four steps each, beside all rounds and a bare quarter."""
    progress.message(NOTES[ADULT.dataset].partition(",")[0] + "; nothing is hidden")
    progress.message(
        f"means over seeds, ± the interval of 95 %; Adam at {_RATE:g}; target_cost against one update in all rounds "
        "with the same schedule and seed, largest_cost that of the unluckiest seed; bytes_of_all are tensors that all "
        "parties sent, for training, validation and test"
    )
    work = [Trial(one, way, seed, preset) for way in _SCHEDULES for one in VARIANTS for seed in SEEDS[preset]]
    progress.start(len(work), "equilibrium-local")
    found = {}
    for done, (place, result) in enumerate(finished(work, progress, folder, workers), start=1):
        if result is not None:
            found[work[place]] = result
        progress.advance(done)
    return rows(found)


def rows(found: Mapping[Trial, Mapping[str, Any]]) -> list[Row]:
    """Return one row for each variant and schedule; a seed whose run with all rounds failed is left out."""
    groups: dict[tuple[str, Variant], list[Trial]] = defaultdict(list)
    for trial in found:
        if replace(trial, variant=ALL_ROUNDS) in found:
            groups[trial.schedule, trial.variant].append(trial)
    return [_row(group, found) for group in groups.values()]


def _row(group: Sequence[Trial], found: Mapping[Trial, Mapping[str, Any]]) -> Row:
    first, variant = found[group[0]], group[0].variant
    costs = [found[replace(one, variant=ALL_ROUNDS)]["target"] - found[one]["target"] for one in group]
    return {
        "dataset": ADULT.dataset,
        "method": NONE.name,
        "weights": NONE.weights,
        "parties": ADULT.parties,
        "q_local": variant.local_updates,
        "labels": variant.labels,
        "schedule": group[0].schedule,
        "epochs": SIZES[group[0].preset].epochs // variant.part,
        "seeds": len(group),
        "metric": first["metric"],
        **mean([found[one]["target"] for one in group], "target"),
        **mean(costs, "target_cost"),
        "largest_cost": round(max(costs), 4),
        "exchanges": first["exchanges"],
        "bytes_of_all": first["bytes_of_all"],
    }
