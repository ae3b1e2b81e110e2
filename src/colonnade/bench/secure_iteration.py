"""One whole iteration of discovery's encrypted work: all ordered pairs of parties, forward and backward."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import get_args

from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.secure_rows import SIZES, WORTH_REPEATING, Comparison
from colonnade.bench.secure_work import Cost, Direction, Size, Task
from colonnade.progress import Progress

_ROUNDS = 2


@BENCHES.register("secure-iteration")
def run(preset: str, progress: Progress) -> list[Row]:
    """A whole iteration, all ordered pairs of parties forward and backward, next to python-paillier."""
    progress.message(
        "seconds of an iteration = 20 · n · d² · (1 - 1 / parties) / per_second, but for uneven columns; all pairs "
        "take turns on this machine, the cores shared out among them as bfv's background workers (phe uses one core); "
        f"keys and their tables are made before; an iteration that takes bfv under {WORTH_REPEATING:.0f} seconds is "
        f"done once, so that the columns are encoded, then the mean of {_ROUNDS} without pause counts, so that what "
        "workers make ahead is paid for; packed Paillier repeats only what takes under half a second"
    )
    tasks = [task_of(size) for size in SIZES[preset]]
    return Comparison("secure-iteration", tasks, _ROUNDS, _mean, background=True).run(preset, progress)


def task_of(size: Size) -> Task:
    """Return both products of every ordered pair of parties."""
    pairs = permutations(range(size.parties), 2)
    return Task(size, "both", tuple(size.step(*pair, direction) for pair in pairs for direction in get_args(Direction)))


def _mean(costs: list[Cost]) -> Cost:
    return replace(costs[0], seconds=sum(cost.seconds for cost in costs) / len(costs))
