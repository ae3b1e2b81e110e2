"""What a defense adds to the time of one training step at a passive party, timed when nobody else works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.bench.images.setting import UNDEFENDED
from colonnade.bench.kept import code, file_name
from colonnade.bench.keystone.setting import Ground
from colonnade.bench.keystone.victim import DECIDING, device_of
from colonnade.bench.step import median_seconds, step_of

_RECORDS = 1024


@dataclass(frozen=True)
class Pace:
    """The time of a step under one defense, beside that of an undefended step.

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

    def run(self) -> float:
        """Return the median time of a step as a ratio to that of an undefended one; both are timed now and here."""
        import numpy as np

        device = device_of(self.ground)
        federation, task = self.ground.laid_out(self.preset)
        party = next(name for name in federation.parties if name != federation.active)
        held = federation.records[party]
        records = held.take(np.arange(min(_RECORDS, len(held))))
        steps = [step_of(records, choice, task, device) for choice in (UNDEFENDED, dict(self.defense))]
        bare, defended = median_seconds(steps, self.ground.size(self.preset).steps, device)
        return defended / bare
