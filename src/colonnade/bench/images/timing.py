"""Fig. 14: what a defense adds to the time of one training step at a passive party."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from colonnade.bench.images.matrix import device_here
from colonnade.bench.images.setting import ALL_DEFENSES, CUT, UNDEFENDED, Choice, task_of
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.step import bottom_of, median_seconds, step_on
from colonnade.progress import Progress

if TYPE_CHECKING:
    from colonnade.data.records import Records

_SHAPE = (3, 32, 16)
_BATCH = 128
_BYTES = 4
"""Of one number: uploads, and the gradients that come back for them, travel in full precision."""
_STEPS = {"smoke": (1, 2), "small": (2, 5), "medium": (5, 20), "default": (5, 20), "paper": (5, 50)}
"""Steps that are not timed, because caches and schedules settle, and steps that are."""
_ROUNDS = (1, 3, 5, 10, 20, 30)


@BENCHES.register("causshield-fig14")
@also_smaller
def figure14(preset: str, progress: Progress) -> list[Row]:
    """Fig. 14: seconds of a training step under every defense, as a ratio to an undefended step timed beside it."""
    progress.message(
        "one passive party's own step: bottom, defense, way back; batches of 128 halves, ResNet-18 cut at 6; "
        "upload_bytes are those of a record, round_bytes those of a batch, there and back"
    )
    few = preset == "smoke"
    defenses = list(ALL_DEFENSES[:2] if few else ALL_DEFENSES)
    if not few:
        defenses += [{"name": "causshield", "rounds": rounds} for rounds in _ROUNDS]
    progress.start(len(defenses), "causshield-fig14")
    rows: list[Row] = []
    for done, defense in enumerate(defenses, start=1):
        rows.append(_row(defense, preset))
        progress.advance(done, step_ratio=rows[-1]["step_ratio"])
    return rows


def _row(defense: Choice, preset: str) -> Row:
    from colonnade.audit.rows import settings_of, strength_of
    from colonnade.learn.train import named_defense
    from colonnade.nets import upload_shape

    device = device_here()
    # The network of every other preset: what is timed under `smoke` is the same step, fewer times.
    task = task_of("cifar10", "default", CUT).model_copy(update={"batch_size": _BATCH})
    bottoms = [bottom_of(_pictures(8 * _BATCH), choice, task, device) for choice in (UNDEFENDED, defense)]
    bare, defended = median_seconds([step_on(bottom, _BATCH) for bottom in bottoms], _STEPS[preset], device)
    sent = _BYTES * math.prod(upload_shape(bottoms[1].network, _SHAPE))
    made = named_defense(defense)
    strength = strength_of(made)
    return {
        "dataset": "random pictures",
        "cut": CUT,
        "defense": made.name,
        "strength": None if math.isnan(strength) else strength,
        "seconds": round(defended, 6),
        "step_ratio": round(defended / bare, 3),
        "upload_bytes": sent,
        "round_bytes": 2 * sent * _BATCH,
        "cost": made.cost,
        "defense_settings": settings_of(made.describe()),
    }


def _pictures(count: int) -> Records:
    import pandas as pd
    import torch

    from colonnade.data.records import Records

    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, *_SHAPE), generator=generator, dtype=torch.uint8).numpy()
    return Records(pd.RangeIndex(count), images=pixels)
