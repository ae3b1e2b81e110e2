"""What a defense costs a passive party: the time of one training step and the bytes of an upload."""

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
from colonnade.bench.step import bottom_of, median_seconds, step_on
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_RECORDS = 1024
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
        """Return the median time of a step as a ratio to that of an undefended one, both timed now; bytes alike."""
        import numpy as np
        import torch

        device = device_of(self.ground)
        federation, task = self.ground.laid_out(self.preset)
        party = next(name for name in federation.parties if name != federation.active)
        held = federation.records[party]
        records = held.take(np.arange(min(_RECORDS, len(held))))
        bottoms = [bottom_of(records, choice, task, device) for choice in (UNDEFENDED, dict(self.defense))]
        steps = [step_on(bottom, task.batch_size) for bottom in bottoms]
        bare, defended = median_seconds(steps, self.ground.size(self.preset).steps, device)
        plain, sent = (_BYTES * bottom.upload(torch.arange(1), train=False).numel() for bottom in bottoms)
        return {"step_ratio": defended / bare, "upload_bytes": sent, "upload_ratio": sent / plain}


@BENCHES.register("keystone-pace")
def keystone_pace(
    preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE
) -> list[Row]:
    """What Keystone costs a party: seconds of a step and bytes of an upload, beside an undefended party's."""
    progress.message(
        "a party's own step: bottom, defense, way back, timed in turns with an undefended one, nobody else at work; "
        "upload_bytes are those of one record"
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
