"""Attackers that take part in the training, against Keystone: what oracles need true pairs for, these must earn."""

from __future__ import annotations

from pathlib import Path

from colonnade.bench.images.matrix import Trial, run_trial
from colonnade.bench.images.setting import UNDEFENDED, Choice
from colonnade.bench.images.tables import INSIDERS
from colonnade.bench.keystone.setting import KEYSTONE
from colonnade.bench.registry import BENCHES, Row, also_small
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_OURS: tuple[Choice, ...] = ({"name": "keystone"}, KEYSTONE[-2])
_ATTACKS = tuple(name for attack in ("unsplit", *INSIDERS) for name in (attack, f"{attack}-adaptive"))


@BENCHES.register("keystone-insiders")
@also_small
def insiders(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """The published attacks on an undefended upload and on Keystone's, each with and without its public part."""
    progress.message(
        "skill = 1 - error / error of the mean auxiliary picture; rows whose knowledge is 'baseline' saw no upload; "
        "an adaptive attack knows how Keystone rounds and adds noise, and does it to its own copies too; ridge is an "
        "oracle, given true pairs, to compare with"
    )
    few = preset == "smoke"
    attacks = ("unsplit", "urvfl-adaptive", "ridge") if few else (*_ATTACKS, "ridge")
    return run_trial(Trial("cifar10", (UNDEFENDED, *_OURS), attacks), preset, progress, folder, workers)
