"""Who leaves least to a reader at a given cost: fronts of cost and skill, one defense against all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

K = TypeVar("K")

OURS = "keystone"
COSTS = tuple(half / 2 for half in range(1, 17))
"""Points of accuracy, from a half to eight."""


@dataclass(frozen=True)
class Point:
    """One defense at one strength.

    Attributes:
        defense: its name.
        strength: and how strong it was, in words.
        cost: of accuracy, in points; below 0 where the defended model is the better one.
        skill: of the reader.
    """

    defense: str
    strength: str
    cost: float
    skill: float


@dataclass(frozen=True)
class Contest:
    """What is left to the reader for at most some cost.

    Attributes:
        cost: in points.
        ours: the point of ours that leaves least; None where all cost more.
        other: that of all others.
    """

    cost: float
    ours: Point | None
    other: Point | None

    @property
    def won(self) -> bool:
        """Whether ours leaves less than all others; a draw is none."""
        return self.ours is not None and (self.other is None or self.ours.skill < self.other.skill)


def contests(points: Iterable[Point], costs: Sequence[float] = COSTS, ours: str = OURS) -> list[Contest]:
    """Return for each cost who leaves least to the reader.

    >>> points = [Point("none", "", 0.0, 0.9), Point("prune", "0.9", 2.0, 0.5), Point("keystone", "8", 1.0, 0.2)]
    >>> [(one.cost, one.won) for one in contests(points, (0.5, 1.0, 8.0))]
    [(0.5, False), (1.0, True), (8.0, True)]
    """
    known = list(points)
    return [
        Contest(
            cost,
            _least(point for point in known if point.defense == ours and point.cost <= cost),
            _least(point for point in known if point.defense != ours and point.cost <= cost),
        )
        for cost in costs
    ]


def told(found: Sequence[Contest]) -> str:
    """Return in one sentence at which costs ours leaves least, and who does at the others.

    >>> points = [Point("none", "", 0.0, 0.9), Point("keystone", "8", 1.0, 0.2)]
    >>> print(told(contests(points, (0.5, 1.0, 1.5, 2.0))))
    keystone leaves least at costs of 1 to 2 points; not at 0.5 (none 0.900, keystone –)
    """
    won = [_costs(run) for flag, run in _runs(found, lambda one: one.won) if flag]
    lost = [
        f"{_costs(run)} ({_named(run[0].other)}, {OURS} {_skill(run[0].ours)})"
        for (flag, *_), run in _runs(found, lambda one: (one.won, one.other, one.ours))
        if not flag
    ]
    first = f"{OURS} leaves least at costs of {' and '.join(won)} points" if won else f"{OURS} leaves least at no cost"
    return "; not at ".join([first, ", ".join(lost)] if lost else [first])


def efficient(points: Sequence[Point]) -> list[bool]:
    """Return of each point whether no other one costs no more and leaves no more, and less of one of them.

    >>> efficient([Point("a", "", 0.0, 0.9), Point("b", "", 1.0, 0.95), Point("c", "", 1.0, 0.1)])
    [True, False, True]
    """
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(one: Point, other: Point) -> bool:
    better = one.cost < other.cost or one.skill < other.skill
    return better and one.cost <= other.cost and one.skill <= other.skill


def _least(points: Iterable[Point]) -> Point | None:
    return min(points, key=lambda point: point.skill, default=None)


def _runs(found: Sequence[Contest], key: Callable[[Contest], K]) -> Iterator[tuple[K, list[Contest]]]:
    """Yield the contests that follow one another and are alike."""
    yield from ((value, list(run)) for value, run in groupby(found, key))


def _costs(run: Sequence[Contest]) -> str:
    return " to ".join(dict.fromkeys(f"{one.cost:g}" for one in (run[0], run[-1])))


def _named(point: Point | None) -> str:
    if point is None:
        return "nobody"
    return " ".join(part for part in (point.defense, point.strength, _skill(point)) if part)


def _skill(point: Point | None) -> str:
    return "–" if point is None else f"{point.skill:.3f}"
