"""Attackers that take part in the training, against Keystone: what oracles need true pairs for, these must earn."""

from __future__ import annotations

import json
from pathlib import Path

from colonnade.bench.images.matrix import Trial, run_trial
from colonnade.bench.images.setting import UNDEFENDED, Choice
from colonnade.bench.images.tables import INSIDERS
from colonnade.bench.keystone.setting import KEYSTONE
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_OURS: tuple[Choice, ...] = ({"name": "keystone"}, KEYSTONE[-2])
_ATTACKS = tuple(name for attack in ("unsplit", *INSIDERS) for name in (attack, f"{attack}-adaptive"))


@BENCHES.register("keystone-insiders")
@also_smaller
def insiders(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """The published attacks on an undefended upload and on Keystone's, each with and without its public part."""
    progress.message(
        "skill = 1 - error / error of the mean auxiliary picture; rows whose knowledge is 'baseline' saw no upload; "
        "an adaptive attack knows what Keystone does, and does it too: veil and coins to its own pictures, rounding "
        "and noise to its own uploads; ridge is an oracle, given true pairs, to compare with"
    )
    few = preset == "smoke"
    attacks = ("unsplit", "urvfl-adaptive", "ridge") if few else (*_ATTACKS, "ridge")
    rows = run_trial(Trial("cifar10", (UNDEFENDED, *_OURS), attacks), preset, progress, folder, workers)
    return [{**row, **_form(row)} for row in rows]


def _form(row: Row) -> Row:
    """Return what tells two of ours of one strength apart."""
    settings = json.loads(row["defense_settings"])
    return {name: settings.get(name) for name in ("channels", "levels")}
