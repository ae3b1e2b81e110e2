"""Figure 5: noise on edge strengths, against a party and a coordinator that put their views together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.published import FIGURE5, FIGURE5_WITHOUT_ACYCLICITY, Published
from colonnade.bench.causal.variants import READING, Variant, drawn, looks, recipe_settings, run_variants, suffixed
from colonnade.bench.causal.watched import GATHERED, WHOSE, PermutedRecords, Watched
from colonnade.bench.discovery_leak import Case
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_LEVELS: tuple[tuple[str, dict[str, Any], Published], ...] = (
    *(
        (f"epsilon {epsilon:g}" if epsilon else "no noise", {"strength_epsilon": epsilon}, said)
        for epsilon, said in FIGURE5.items()
    ),
    ("no acyclicity", {"growth": 0.0}, FIGURE5_WITHOUT_ACYCLICITY),
)


@BENCHES.register("vfedcd-fig5")
def figure5(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Figure 5: SHD and what a party learns with the coordinator's help, by the noise on edge strengths."""
    progress.message(READING)
    progress.message(
        "epsilon is that of one look, as published, for a sensitivity of 1 that nobody has shown; the same graph is "
        "looked at many times, and epsilon_spent is what all looks at one edge cost together (pure composition); one "
        "record may move all edges, which together cost as many times more"
    )
    progress.message(
        "noise goes on squared strengths, 1 / epsilon once, which is also what the published protocol leaves against a "
        "party that knows its own part; in our encrypted runs it is 1 / (√2 · epsilon) against such a party"
    )
    progress.message(
        "the paper's text has SHD 42 without noise, the caption of its figure 35; growth 0 is 'without acyclicity', "
        "though our coordinator draws an acyclic graph in any case"
    )
    progress.message(f"{WHOSE}; {GATHERED}; 'coordinator' solves the equations that UnSplit only descends on")
    progress.message(
        "noise comes from secure randomness, so rows with noise do not repeat to the last digit; their seconds hold "
        "the accounting too, up to half a minute"
    )
    design = Design(6, 8, records=200) if preset == "smoke" else Design(20, 80)
    variants = [*_variants(preset, design.records), Variant(PermutedRecords())]
    return run_variants("vfedcd-fig5", variants, drawn(design, 2), preset, progress, folder=folder, workers=workers)


def _variants(preset: str, records: int) -> Iterator[Variant]:
    for recipe, attack in (("default", "unsplit"), ("paper", "unsplit"), ("default", "coordinator")):
        # A smoke run takes the two ends: to account for little noise takes longest.
        for name, changes, said in _LEVELS[:4:3] if preset == "smoke" else _LEVELS:
            settings = recipe_settings(recipe, preset, **changes)
            method = Watched(suffixed(f"{attack}, {name}", recipe), Case(attack, "party and coordinator"), settings)
            keys = {"recipe": recipe, **method.keys, **_spent(settings, records)}
            yield Variant(method, keys, said if attack == "unsplit" else Published(said.shd))


def _spent(settings: Mapping[str, Any], records: int) -> dict[str, float | None]:
    epsilon, seen = settings.get("strength_epsilon"), looks(settings, records)
    return {"epsilon": epsilon, "looks": seen, "epsilon_spent": None if epsilon is None else epsilon * seen}
