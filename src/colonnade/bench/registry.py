"""Benches by name; other packages add theirs through the entry-point group `colonnade.benches`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from colonnade.progress import Progress
from colonnade.registry import Registry

Preset = Literal["smoke", "small", "medium", "default", "paper"]
"""`smoke` shows in a minute that it works, `default` gives the numbers, `paper` the published sizes in full.

`small` and `medium` are for benches that want a GPU: numbers that mean something, of a smaller network, for whoever has
none, or has one for minutes and not for hours. Benches that want none do not have them.
"""

PRESETS: tuple[str, ...] = get_args(Preset)

Row = dict[str, Any]
"""One line of a result: whole words mapped to text, numbers or None."""

Work = TypeVar("Work", bound=Callable[..., Any])
Bench = Callable[[str, Progress], list[Row]]
"""Takes a preset and a progress; returns rows. What it says through `progress.message` is kept beside the rows.

One of many rows also takes by name a `folder`, which keeps each row, and the `workers` that run them."""

_FOR_EVERYBODY = tuple(preset for preset in PRESETS if preset not in ("small", "medium"))


def also_smaller(bench: Work) -> Work:
    """Mark a bench that has the presets `small` and `medium`."""
    bench.presets = PRESETS  # type: ignore[attr-defined]
    return bench


def also_medium(bench: Work) -> Work:
    """Mark a bench that has the preset `medium`, and whose readers would take a processor days even of less."""
    bench.presets = tuple(preset for preset in PRESETS if preset != "small")  # type: ignore[attr-defined]
    return bench


def presets_of(bench: Bench) -> tuple[str, ...]:
    """Return the presets that a bench has."""
    return getattr(bench, "presets", _FOR_EVERYBODY)


BENCHES: Registry[Bench] = Registry("bench", "colonnade.benches")
