"""Benches by name; other packages add theirs through the entry-point group `colonnade.benches`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from colonnade.progress import Progress
from colonnade.registry import Registry

Preset = Literal["smoke", "default", "paper"]
"""`smoke` shows in a minute that it works, `default` gives the numbers, `paper` the published sizes in full."""

PRESETS: tuple[str, ...] = get_args(Preset)

Row = dict[str, Any]
"""One line of a result: whole words mapped to text, numbers or None."""

Bench = Callable[[str, Progress], list[Row]]
"""Takes a preset and a progress; returns rows. What it says through `progress.message` is kept beside the rows.

One of many rows also takes by name a `folder`, which keeps each row, and the `workers` that run them."""

BENCHES: Registry[Bench] = Registry("bench", "colonnade.benches")
