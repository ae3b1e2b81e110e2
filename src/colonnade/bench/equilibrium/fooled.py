"""Whom a protection fools: each fresh attacker by itself, where the other benches tell of the best one alone."""

from __future__ import annotations

from pathlib import Path

from colonnade.bench.equilibrium import methods as known
from colonnade.bench.equilibrium.rows import played, plays, rows, say_measured
from colonnade.bench.equilibrium.table import ADULT, HOSPITAL
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_ALPHA = 1.0
_COMPARED = (known.NONE, known.PUBLISHED.at(_ALPHA), known.CAPPED.at(_ALPHA), known.SHAPLEY.middle)


@BENCHES.register("equilibrium-attackers")
def attackers(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """What linear attackers, networks and boosted trees each find under the published form and under ours."""
    say_measured(progress)
    progress.message("attacker 'max' is the best of all, chosen anew with each seed")
    work = plays((ADULT, HOSPITAL), _COMPARED, preset)
    return rows(played(work, progress, "equilibrium-attackers", folder, workers), attacker=None)
