"""Every protection on one data set after the other: what it costs the task and what it leaves to fresh attackers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colonnade.bench.equilibrium.methods import ALL, FOR_PICTURES, Method, methods
from colonnade.bench.equilibrium.rows import SAFE, played, plays, rows, say_measured
from colonnade.bench.equilibrium.sets import Case
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

ADULT = Case("adult", 3)
HOSPITAL = Case("hospital", 2)
FACES = Case("faces", 2, "race", ("gender", "gender"))
CELEBA = Case("faces", 2, "Smiling", ("Male", "Male"))


@BENCHES.register("equilibrium-table")
def equilibrium_table(
    preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE
) -> list[Row]:
    """Every protection with its strengths on Adult and in a hospital: target cost, leak, hypervolume."""
    return compare((ADULT, HOSPITAL), preset, progress, folder, workers)


@BENCHES.register("equilibrium-table-faces")
def equilibrium_table_faces(
    preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE
) -> list[Row]:
    """The same on faces; wants a GPU."""
    return compare((faces(),), preset, progress, folder, workers)


def compare(cases: Sequence[Case], preset: str, progress: Progress, folder: Path | None, workers: Workers) -> list[Row]:
    """Return the best strength of every method on every data set, then all the others."""
    say_measured(progress)
    progress.message(
        f"best: of the strengths whose leak is at most the majority guess + {SAFE:g} (hidden), the one that costs the "
        "target least; where no strength hides the secret, the one that leaks least"
    )
    work = [play for case in cases for play in plays([case], _compared(case, preset), preset)]
    return judged(rows(played(work, progress, "equilibrium-table", folder, workers)))


def judged(found: Sequence[Row]) -> list[Row]:
    """Add `hidden` and `best` to rows; the best of each method come first."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row[key] for key in ("dataset", "task", "method", "weights", "secret")), []).append(row)
    first: list[Row] = []
    others: list[Row] = []
    for group in groups.values():
        best = min(group, key=_badness)
        for row in group:
            (first if row is best else others).append({**row, "hidden": _hidden(row), "best": row is best})
    return [*first, *others]


def faces() -> Case:
    """Return the faces that are there: of CelebA, or those that stand in for them."""
    return CELEBA if CELEBA.dataset == "celeba" else FACES


def _compared(case: Case, preset: str) -> Sequence[Method]:
    return methods(preset, FOR_PICTURES if case.kind == "faces" and preset != "paper" else ALL)


def _hidden(row: Row) -> bool:
    return bool(row["leak"] <= row["majority"] + SAFE)


def _badness(row: Row) -> tuple[bool, float]:
    return not _hidden(row), row["target_cost"] if _hidden(row) else row["leak"]
