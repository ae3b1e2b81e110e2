"""Rows of the equilibrium benches: means over seeds with their intervals, and fronts as one number."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from colonnade.bench.equilibrium.methods import NONE, Method
from colonnade.bench.equilibrium.play import Play
from colonnade.bench.equilibrium.published import AXES, MEASURED, Axes, shown
from colonnade.bench.equilibrium.sets import NOTES, Case
from colonnade.bench.equilibrium.setting import SEEDS
from colonnade.bench.images.matrix import device_here
from colonnade.bench.kept import finished
from colonnade.bench.registry import Row
from colonnade.bench.workers import Workers
from colonnade.measure.front import Axes as Gains
from colonnade.measure.front import hypervolume
from colonnade.measure.interval import interval
from colonnade.progress import Progress

WORST = "max"
"""In place of an attacker: the best of all, chosen anew with each seed."""
EVERYBODY = "all"
"""In place of a client: all uploads together, as the active party has them."""
SAFE = 0.03
"""A leak of at most so much above the majority guess counts as hidden."""
MEASURES = ("target", "target_cost", "target_f1", "leak", "leak_f1", "majority", "ceiling", "hypervolume", "step_ratio")

Results = Mapping[Play, Mapping[str, Any]]
"""What every run found."""
Where = tuple[str, str, str]
"""Client, secret, attacker."""


@dataclass(frozen=True)
class Point:
    """One run as a point of a front: what its seed's undefended run is held against.

    Attributes:
        play: the run.
        result: what it found.
        undefended: what the undefended run with the same seed found.
    """

    play: Play
    result: Mapping[str, Any]
    undefended: Mapping[str, Any]

    @property
    def leaks(self) -> dict[Where, dict[str, Any]]:
        """What each attacker found, and the best of them."""
        return leaks_of(self.result)

    def gains(self, where: Where) -> tuple[float, float]:
        """Return how much of the task is kept and how much of the leak is gone; not numbers where nothing could be."""
        mine, bare = self.leaks[where], leaks_of(self.undefended)[where]
        scale = Gains(self.result["trivial"], self.undefended["target"], mine["majority"], bare["leak"])
        return scale.point(self.result["target"], mine["leak"])

    def measures(self, where: Where) -> dict[str, float | None]:
        """Return the numbers of one row for this seed, all but the front's."""
        took, usual = self.result["seconds"], self.undefended["seconds"]
        timed = took and usual and not self.play.method.heads_idle
        return {
            "target": self.result["target"],
            "target_cost": self.undefended["target"] - self.result["target"],
            "target_f1": self.result["target_f1"],
            **{name: self.leaks[where][name] for name in ("leak", "leak_f1", "majority")},
            "ceiling": leaks_of(self.undefended)[where]["ceiling"],
            "step_ratio": took / usual if timed else None,
        }


def leaks_of(result: Mapping[str, Any]) -> dict[Where, dict[str, Any]]:
    """Return what each attacker found, by client, secret and attacker; and the best of them as one more attacker."""
    found: dict[Where, dict[str, Any]] = {}
    for told in result["leaks"]:
        if told["leak"] is None:
            continue  # it can't read such uploads
        found[told["client"], told["secret"], told["attacker"]] = told
        worst = found.setdefault((told["client"], told["secret"], WORST), dict(told))
        for name in ("leak", "leak_f1", "ceiling"):
            worst[name] = max((value for value in (worst[name], told[name]) if value is not None), default=None)
    return found


def plays(cases: Iterable[Case], compared: Iterable[Method], preset: str, **more: Any) -> list[Play]:
    """Return a run for each case, method, strength and seed; the undefended one is always among them."""
    chosen = list(compared)
    return [
        Play(case, method.suited_to(case.kind), strength, seed, preset, **more)
        for case in cases
        for method in (chosen if NONE in chosen else [NONE, *chosen])
        for strength in method.strengths
        for seed in SEEDS[preset]
    ]


def played(
    work: Sequence[Play], progress: Progress, title: str, folder: Path | None, workers: Workers
) -> dict[Play, Any]:
    """Run everything, say what stands in for what, and return what was found; what failed is said and left out."""
    for dataset in dict.fromkeys(play.case.dataset for play in work):
        if dataset in NOTES:
            progress.message(NOTES[dataset])
    progress.start(len(work), title)
    found = {}
    device = device_here() if any(play.case.kind == "faces" for play in work) else "cpu"
    for done, (place, result) in enumerate(finished(work, progress, folder, workers, device), start=1):
        if result is not None:
            found[work[place]] = result
            progress.advance(done, target=result["target"])
        else:
            progress.advance(done)
    return {play: found[play] for play in work if play in found}  # however they ended


def points(found: Results) -> dict[tuple[Case, Method], list[list[Point]]]:
    """Return each method's points: a list for each strength, with one of each seed; the method counts once a strength.

    Runs whose undefended counterpart failed are left out.
    """
    groups: dict[tuple[Case, Method], dict[float | None, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for play, result in found.items():
        bare = found.get(replace(play, method=NONE, strength=None))
        if bare is not None:
            groups[play.case, play.method][play.strength].append(Point(play, result, bare))
    return {key: list(by_strength.values()) for key, by_strength in groups.items()}


def rows(found: Results, client: str | None = EVERYBODY, attacker: str | None = WORST) -> list[Row]:
    """Return one row for each case, method, strength, client, secret and attacker; None takes all that there are."""
    return [row for key, front in points(found).items() for row in _rows(*key, front, client, attacker)]


def say_measured(progress: Progress) -> None:
    """Tell readers what stands in the rows."""
    progress.message(
        "means over seeds, ± the interval of 95 %; target_cost and step_ratio against the undefended run of the same "
        "seed; hypervolume over all strengths of a method: 1 is the undefended target without any leak, none where one "
        "of the seeds has none; step_ratio is only as good as the machine was quiet, and none for noise alone, which "
        "trains heads that nobody uses; bytes are those that the active party sent"
    )
    progress.message(MEASURED)


def mean(values: Iterable[float | None], name: str) -> Row:
    """Return mean and interval of what was measured, under `name` and `name`_ci."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    half = interval(known)
    return {
        name: round(fmean(known), 4) if known else None,
        f"{name}_ci": None if half is None else round(half, 4),
    }


def front_sizes(front: Sequence[Sequence[Point]], where: Where) -> list[float]:
    """Return the hypervolume of each seed's front; none at all if some undefended run learned or leaked nothing.

    A mean over the other seeds would stand beside numbers that are means over all of them.
    """
    by_seed: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for strength in front:
        for point in strength:
            by_seed[point.play.seed].append(point.gains(where))
    if any(math.isnan(gain) for seed in by_seed.values() for gains in seed for gain in gains):
        return []
    return [hypervolume(seed) for seed in by_seed.values()]


def keys_of(play: Play) -> Row:
    """Return what a row says about the run that it is of."""
    return {
        "dataset": play.case.dataset,
        "task": play.case.target or None,
        "method": play.method.name,
        "weights": play.method.weights,
        "alpha": play.method.choice(play.strength).get("alpha"),
        "strength": play.strength,
        "parties": play.case.parties,
        "q_local": play.local_updates,
    }


def _rows(
    case: Case, method: Method, front: Sequence[Sequence[Point]], client: str | None, attacker: str | None
) -> Iterator[Row]:
    said = AXES.get(case.kind, Axes())
    for where in front[0][0].leaks:
        if client not in (None, where[0]) or attacker not in (None, where[2]):
            continue
        sizes = [] if method == NONE else front_sizes(front, where)
        for group in front:
            measured = [point.measures(where) for point in group]
            row = {**keys_of(group[0].play), "seeds": len(group), "metric": group[0].result["metric"]}
            row |= dict(zip(("client", "secret", "attacker"), where, strict=True))
            for name in MEASURES:
                row |= mean(sizes if name == "hypervolume" else [one[name] for one in measured], name)
            row |= {"bytes": group[0].result["bytes"], "published_target": shown(said.target)}
            yield {**row, "published_leak": shown(said.leak)}
