"""How many multiplications a second one encrypted product does, end to end, next to python-paillier."""

from __future__ import annotations

from typing import get_args

from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.secure_rows import SIZES, WORTH_REPEATING, Comparison
from colonnade.bench.secure_work import Cost, Direction, Size, Task
from colonnade.progress import Progress

_ROUNDS = 3


@BENCHES.register("secure-matmul")
def run(preset: str, progress: Progress) -> list[Row]:
    """One encrypted product between two parties, end to end: multiplications per second next to python-paillier."""
    progress.message(
        "end to end: encrypt, load, multiply, re-randomise and mask, decrypt, one after the other in one process, no "
        "background workers, but all cores may be used (phe uses one); keys and their tables are made before; a "
        f"product that takes bfv under {WORTH_REPEATING:.0f} seconds is done once, so that the columns are encoded, "
        f"then the best of {_ROUNDS} counts; packed Paillier repeats only what takes under half a second"
    )
    tasks = [task for size in SIZES[preset] for task in tasks_of(size)]
    return Comparison("secure-matmul", tasks, _ROUNDS, _best, background=False).run(preset, progress)


def tasks_of(size: Size) -> list[Task]:
    """Return the product between the first two parties, forward and backward."""
    return [Task(size, direction, (size.step(0, 1, direction),)) for direction in get_args(Direction)]


def _best(costs: list[Cost]) -> Cost:
    return min(costs, key=lambda cost: cost.seconds)
