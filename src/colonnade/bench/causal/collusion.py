"""Table 7: does UnSplit gain from parties that put their views together?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.published import TABLE7, Published
from colonnade.bench.causal.variants import READING, Variant, drawn, recipe_settings, run_variants, suffixed
from colonnade.bench.causal.watched import GATHERED, WHOSE, PermutedRecords, Watched
from colonnade.bench.discovery_leak import Case
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_ATTACKERS = {"single party": "one party", "three of four parties": "all but one"}


@BENCHES.register("vfedcd-table7")
def table7(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Table 7: UnSplit by one party and by three of four, 30 attributes held 8/8/7/7; beside a stronger attack."""
    progress.message(READING)
    progress.message(f"{WHOSE}; accomplices take their own features out of each other's sums")
    progress.message(GATHERED)
    progress.message(
        "alone, the first party guesses 22 columns, three parties together guess the 7 of the fourth: the correlations "
        "are means over other columns. UnSplit is a weak attack; 'verdict' sees the same features and the same factors"
    )
    data = drawn(Design(8, 12, records=200), 4) if preset == "smoke" else drawn(Design(30, 120), (8, 8, 7, 7))
    variants = [*_variants(preset), Variant(PermutedRecords())]
    return run_variants("vfedcd-table7", variants, data, preset, progress, folder=folder, workers=workers)


def _variants(preset: str) -> Iterator[Variant]:
    for recipe, attack in (("default", "unsplit"), ("paper", "unsplit"), ("default", "verdict")):
        for who, attackers in _ATTACKERS.items():
            name = suffixed(f"{attack}, {who}", recipe)
            method = Watched(name, Case(attack, attackers), recipe_settings(recipe, preset))
            said = TABLE7[who] if attack == "unsplit" else Published()
            yield Variant(method, {"recipe": recipe, **method.keys}, said)
