"""What a defense costs: the time of a passive party's step and of everybody's, and the bytes of an upload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colonnade.bench.images.setting import UNDEFENDED, Choice
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.keystone.setting import FEW, FEW_OF_TABLES, KEYSTONE, KEYSTONE_OF_TABLES, PICTURES, TABLES, Ground
from colonnade.bench.keystone.victim import DECIDING, device_of
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.step import bottom_of, first_of, median_seconds, step_of_all, step_on
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_BYTES = 4
"""Of a number on the wire: uploads travel in single precision, rounded ones too."""


@dataclass(frozen=True)
class Pace:
    """The time of a step and the size of an upload under one defense, beside those of an undefended party.

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
        return file_name(self.title, [self, self.ground.size(self.preset).steps], code(*DECIDING))

    def run(self) -> Row:
        """Return the median time of steps as a ratio to that of undefended ones, both timed now; bytes alike."""
        import torch

        device = device_of(self.ground)
        federation, task = self.ground.laid_out(self.preset)
        party = next(name for name in federation.parties if name != federation.active)
        records, choices = first_of(federation.records[party]), (UNDEFENDED, dict(self.defense))
        bottoms = [bottom_of(records, choice, task, device) for choice in choices]
        own = [step_on(bottom, task.batch_size) for bottom in bottoms]
        whole = [step_of_all(federation, choice, task, device) for choice in choices]
        # Each beside its like: a long step between two short ones would cool their caches.
        (bare, defended), (bare_whole, defended_whole) = (
            median_seconds(steps, self.ground.size(self.preset).steps, device) for steps in (own, whole)
        )
        plain, sent = (_BYTES * bottom.upload(torch.arange(1), train=False).numel() for bottom in bottoms)
        return {
            "step_ratio": defended / bare,
            "whole_ratio": defended_whole / bare_whole,
            "upload_bytes": sent,
            "upload_ratio": sent / plain,
        }


@BENCHES.register("keystone-pace")
def keystone_pace(
    preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE
) -> list[Row]:
    """What Keystone costs: seconds of a party's step and of everybody's, bytes of an upload, beside undefended ones."""
    progress.message(
        "step is a party's own: bottom, defense, way back; whole is everybody's, the top model's included, nothing "
        "travels; timed in turns with undefended ones, nobody else at work; upload_bytes are those of one record"
    )
    work = [
        Pace(ground, tuple(choice.items()), preset)
        for ground in (*TABLES, PICTURES)
        for choice in _ours(ground, preset)
    ]
    progress.start(len(work), "keystone-pace")
    rows = []
    for done, (place, found) in enumerate(finished(work, progress, folder, workers.one_by_one), start=1):
        if found is not None:
            rows.append((place, _row(work[place], found)))
        progress.advance(done)
    return [row for _, row in sorted(rows, key=lambda row: row[0])]


def _ours(ground: Ground, preset: str) -> Sequence[Choice]:
    if preset == "smoke":
        return (FEW if ground.cut else FEW_OF_TABLES)[-1:]
    return KEYSTONE if ground.cut else KEYSTONE_OF_TABLES


def _row(pace: Pace, found: Row) -> Row:
    choice = dict(pace.defense)
    return {
        "dataset": pace.ground.dataset,
        "cut": pace.ground.cut,
        "defense": choice.pop("name"),
        **{name: choice.get(name) for name in ("veil", "levels", "channels", "grid")},
        **{name: round(value, 4) if isinstance(value, float) else value for name, value in found.items()},
    }
