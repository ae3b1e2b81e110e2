"""Fig. 14: what a defense adds to the time of one training step at a passive party."""

from __future__ import annotations

import math
import time
from statistics import median
from typing import Any

import pandas as pd

from colonnade.bench.images.matrix import device_here
from colonnade.bench.images.setting import ALL_DEFENSES, CUT, Choice
from colonnade.bench.registry import BENCHES, Row
from colonnade.progress import Progress

_SHAPE = (3, 32, 16)
_BATCH = 128
_STEPS = {"smoke": (1, 2), "default": (5, 20), "paper": (5, 50)}
"""Steps that are not timed, because caches and schedules settle, and steps that are."""
_ROUNDS = (1, 3, 5, 10, 20, 30)


@BENCHES.register("causshield-fig14")
def figure14(preset: str, progress: Progress) -> list[Row]:
    """Fig. 14: seconds of a training step under every defense, as a ratio to the undefended step of the same run."""
    progress.message(
        "one passive party's own step: bottom, defense, way back; batches of 128 halves, ResNet-18 cut at 6"
    )
    few = preset == "smoke"
    defenses = list(ALL_DEFENSES[:2] if few else ALL_DEFENSES)
    if not few:
        defenses += [{"name": "causshield", "rounds": rounds} for rounds in _ROUNDS]
    progress.start(len(defenses), "causshield-fig14")
    rows: list[Row] = []
    for done, defense in enumerate(defenses, start=1):
        rows.append(_row(defense, preset, rows[0]["seconds"] if rows else None))
        progress.advance(done, step_ratio=rows[-1]["step_ratio"])
    return rows


def _row(defense: Choice, preset: str, undefended: float | None) -> Row:
    from colonnade.audit.rows import settings_of, strength_of
    from colonnade.learn.train import named_defense

    # What is done once before training is not timed, so it need not be done well.
    once = {"causshield": {"surrogate_epochs": 1}, "ressfl": {"warm_up": 1}}
    made = named_defense({**defense, **once.get(str(defense["name"]), {})})
    strength = strength_of(made)
    seconds = _seconds(made, preset)
    return {
        "dataset": "random pictures",
        "cut": CUT,
        "defense": made.name,
        "strength": None if math.isnan(strength) else strength,
        "seconds": round(seconds, 6),
        "step_ratio": round(seconds / (undefended or seconds), 3),
        "cost": made.cost,
        "defense_settings": settings_of(made.describe()),
    }


def _seconds(defense: Any, preset: str) -> float:
    """Return the median time of a step: upload, a gradient that comes at once, the way back."""
    import torch

    from colonnade.data.image_preparation import ImagePreparation
    from colonnade.data.records import Records
    from colonnade.federation.task import OptimizerSettings
    from colonnade.learn.bottom import Bottom
    from colonnade.nets import build_bottom

    device = torch.device(device_here())
    generator = torch.Generator().manual_seed(0)
    records = 2 * _BATCH if preset == "smoke" else 8 * _BATCH
    pixels = torch.randint(256, (records, *_SHAPE), generator=generator, dtype=torch.uint8).numpy()
    given = Records(pd.RangeIndex(records), images=pixels)
    preparation = ImagePreparation().fit(given)
    features = torch.from_numpy(preparation.transform(given)).to(device)
    defense.seed(0, device)
    defense.meet(preparation)
    network = defense.extend(build_bottom("resnet18", _SHAPE, cut=CUT, seed=0), _SHAPE)
    settings = OptimizerSettings(name="sgd", learning_rate=1e-3)
    bottom = Bottom(network, features, defense, settings=settings, device=device, mixed=device.type == "cuda")
    defense.prepare(bottom.network, features)
    untimed, timed = _STEPS[preset]
    taken = []
    for step in range(untimed + timed):
        rows = torch.arange(_BATCH) + (step * _BATCH) % (records - _BATCH + 1)
        _settle(device)
        started = time.perf_counter()
        upload = bottom.upload(rows, train=True)
        bottom.learn(torch.full_like(upload, 1e-6), rate=1e-3)
        _settle(device)
        taken.append(time.perf_counter() - started)
    return median(taken[untimed:])


def _settle(device: Any) -> None:
    """Wait for what was asked of the accelerator: it works while Python goes on."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
