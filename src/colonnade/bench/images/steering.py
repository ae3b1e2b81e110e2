"""What turns URVFL away: what CausShield unlearns, or that nobody can steer what is uploaded.

URVFL reads uploads because its gradients teach the parties to make them readable. Algorithm 1 copies the generator from
the bottom, and does not say how often. Copied once, it is moved by its own loss alone, and no gradient reaches what is
uploaded (`route="separate"`). A generator that never learns anything can't be steered either: it is the control, and
whatever it keeps from an attacker is not the merit of a causal loss.
"""

from __future__ import annotations

import json
from pathlib import Path

from colonnade.bench.images.matrix import Trial, run_trial
from colonnade.bench.images.published import URVFL, WORSE_THAN_GUESSING
from colonnade.bench.images.setting import UNDEFENDED, Choice
from colonnade.bench.images.tables import oracles
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

DATASET = "cifar10"
RESTING: Choice = {
    "name": "causshield",
    "route": "separate",
    "surrogate": "jitter",
    "rounds": 1,
    "learning_rate": 0.0,
    "mask_source": "none",
}
"""A generator that stays the random network that it began as."""
_DEFENSES: tuple[Choice, ...] = (
    UNDEFENDED,
    {"name": "causshield", "surrogate": "jitter"},
    {"name": "causshield", "route": "separate", "surrogate": "jitter"},
    {"name": "causshield"},
    {"name": "causshield", "route": "separate"},
    RESTING,
)
_CHOSEN = ("route", "learning_rate", "surrogate")
_NOTE = (
    "urvfl sends gradients of its own making, sdar and pcat honest ones, and oracles are given true pairs of pictures "
    "and uploads; the last defense is a random network that learns nothing: what it hides, no loss has hidden"
)


@BENCHES.register("causshield-steer")
@also_smaller
def steer(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """What attackers find in CausShield's uploads where the task's gradient moves them, and where it does not."""
    progress.message(_NOTE)
    progress.message(WORSE_THAN_GUESSING)
    few = preset == "smoke"
    trial = Trial(
        DATASET,
        (UNDEFENDED, RESTING) if few else _DEFENSES,
        ("urvfl", "ridge") if few else ("urvfl", "sdar", "pcat", *oracles(preset, "decoder-strong", "ridge")),
        published={"urvfl": URVFL[DATASET]},
    )
    return [_told(row) for row in run_trial(trial, preset, progress, folder, workers)]


def _told(row: Row) -> Row:
    """Return the row with the settings that tell its defense; the paper has no jitter, and no network at rest."""
    settings = json.loads(row["defense_settings"])
    row = {**row, **{name: settings.get(name) for name in _CHOSEN}}
    if row["surrogate"] in (None, "auto"):
        return row
    return {name: None if name.startswith("published_") else value for name, value in row.items()}
