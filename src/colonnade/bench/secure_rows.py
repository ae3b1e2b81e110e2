"""What both secure benches share: the sizes, who is compared, and how a task becomes a row for each backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from math import inf
from operator import add

from colonnade.bench.device import cores, forget_peak_memory, peak_memory
from colonnade.bench.phe_baseline import KEY_BITS as PHE_KEY_BITS
from colonnade.bench.phe_baseline import SMALL, PheCosts, measure_phe, phe_cost
from colonnade.bench.registry import Row
from colonnade.bench.secure_blocks import (
    RULE,
    Extrapolated,
    count_ciphertexts,
    extrapolate,
    is_one_block,
    measure_once_or_more,
)
from colonnade.bench.secure_work import Cost, Parties, Size, Task
from colonnade.progress import Progress
from colonnade.secure import BACKENDS, Backend, backend

DEFAULT_BACKEND = "bfv"

SIZES: dict[str, list[Size]] = {
    "smoke": [Size(16, 10, 2)],
    "default": [Size(n, d, parties) for parties in (2, 3, 5) for n in (16, 256, 1000) for d in (10, 50, 100, 200)],
}
SIZES["paper"] = SIZES["default"]

IN_FULL: dict[str, float] = {"smoke": 300, "default": 300, "paper": inf}
"""Packed Paillier is measured in full up to so many ciphertexts of a row; beyond it is extrapolated from blocks."""

CHECKED: dict[str, Size | None] = {"smoke": Size(16, 10, 2), "default": Size(256, 50, 2), "paper": None}
"""Here the backend `paillier` is measured in full and extrapolated too, so that the rule can be judged."""

WORTH_REPEATING = 10.0
"""What takes `bfv` fewer seconds is done once, so that the columns are encoded, before it is measured."""


@dataclass(frozen=True)
class Comparison:
    """A bench: the same tasks by python-paillier, by `bfv` and by packed Paillier.

    Attributes:
        title: its name.
        tasks: what is measured; those of equal numbers of parties stand together.
        rounds: how often `bfv` does a short task, once the columns are encoded.
        summary: makes one cost of those of all rounds.
        background: whether worker processes make masks of `bfv` ahead, on the cores shared out among all pairs.
    """

    title: str
    tasks: list[Task]
    rounds: int
    summary: Callable[[list[Cost]], Cost]
    background: bool

    def run(self, preset: str, progress: Progress) -> list[Row]:
        """Measure all tasks under all backends; return their rows, those of python-paillier first."""
        phe = measure_phe()
        progress.message(phe.rule())
        progress.message(f"{RULE}; rows of up to {IN_FULL[preset]:.0f} ciphertexts, or of one block, are done in full")
        backends = secure_backends(preset)
        progress.start(len(self.tasks) * len(backends), self.title)
        rows, step = [_phe_row(task, phe) for task in self.tasks], 0
        for engine in backends:
            for task, parties in self._tasks_with_parties(engine):
                rows += self._rows(task, parties, phe, preset, progress)
                progress.advance(step := step + 1, n=task.size.n, d=task.size.d, parties=task.size.parties)
        return rows

    def _tasks_with_parties(self, engine: type[Backend]) -> Iterator[tuple[Task, Parties]]:
        """Yield each task with parties to do it; they keep their keys from task to task."""
        for count, same in groupby(self.tasks, key=lambda task: task.parties):
            with Parties(engine, count, self._workers(engine, count)) as parties:
                for task in same:
                    yield task, parties

    def _workers(self, engine: type[Backend], count: int) -> int:
        if engine.name != DEFAULT_BACKEND:
            return cores()  # threads, and pairs take turns
        return cores() // (count * (count - 1)) if self.background else 0

    def _rows(self, task: Task, parties: Parties, phe: PheCosts, preset: str, progress: Progress) -> list[Row]:
        forget_peak_memory()
        if parties.name == DEFAULT_BACKEND:
            return [_measured_row(task, self._measure(task, parties), parties, phe)]
        checked = parties.name == "paillier" and task.size == CHECKED[preset]
        if not checked and not _is_short(task, parties.key_bits, preset):
            return [_extrapolated_row(task, extrapolate(parties, task), parties, phe)]
        full = measure_once_or_more(parties, task)
        row = _measured_row(task, full, parties, phe)
        if not checked:
            return [row]
        scaled = extrapolate(parties, task)
        progress.message(
            f"the rule judged: {parties.name}, {task}: extrapolated {scaled.cost.seconds:.2f} s, measured in full "
            f"{full.seconds:.2f} s, ratio {scaled.cost.seconds / full.seconds:.3f}"
        )
        return [row, _extrapolated_row(task, scaled, parties, phe)]

    def _measure(self, task: Task, parties: Parties) -> Cost:
        perform = parties.rehearse(task)
        cost = perform()
        return cost if cost.seconds >= WORTH_REPEATING else self.summary([perform() for _ in range(self.rounds)])


def secure_backends(preset: str) -> list[type[Backend]]:
    """Return the backends to compare; a smoke run leaves the weaker Paillier keys out."""
    backend()
    return [BACKENDS[name] for name in BACKENDS if preset != "smoke" or name != "paillier-2048"]


def make_row(
    task: Task,
    name: str,
    key_bits: int,
    cost: Cost,
    phe: PheCosts,
    *,
    memory: int | None = None,
    source: str | None = None,
) -> Row:
    """Return the row of a task under the backend `name`."""
    return {
        "backend": name,
        "n": task.size.n,
        "d": task.size.d,
        "parties": task.size.parties,
        "direction": task.direction,
        "per_second": round(task.multiplications / cost.seconds, 1),
        "ratio_to_phe": round(sum(phe.seconds(step.product) for step in task.steps) / cost.seconds, 1),
        "bytes": cost.wire_bytes,
        "peak_memory": memory,
        "statistical_bits": round(cost.statistical_bits, 1),
        "key_bits": key_bits,
        "extrapolated_from": source,
    }


def _measured_row(task: Task, cost: Cost, parties: Parties, phe: PheCosts) -> Row:
    return make_row(task, parties.name, parties.key_bits, cost, phe, memory=peak_memory())


def _extrapolated_row(task: Task, scaled: Extrapolated, parties: Parties, phe: PheCosts) -> Row:
    return make_row(task, parties.name, parties.key_bits, scaled.cost, phe, source=scaled.source)


def _phe_row(task: Task, phe: PheCosts) -> Row:
    cost = reduce(add, (phe_cost(phe, step.product) for step in task.steps))
    return make_row(task, "phe", PHE_KEY_BITS, cost, phe, source=f"{SMALL.rows} x {SMALL.inner} x {SMALL.columns}")


def _is_short(task: Task, key_bits: int, preset: str) -> bool:
    return count_ciphertexts(task, key_bits) <= IN_FULL[preset] or is_one_block(task, key_bits)
