"""Table 3: what the validator does for the graph, and secure dispatch against UnSplit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from colonnade.bench.causal.published import OURS, TABLE3, Published
from colonnade.bench.causal.variants import Variant, fifteen_attributes, recipe_settings, run_variants, suffixed
from colonnade.bench.causal.watched import GATHERED, WHOSE, PermutedRecords, Watched
from colonnade.bench.discovery_leak import Case
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_APART, _SUM = Case("unsplit", secure=False), Case("unsplit")


@BENCHES.register("vfedcd-table3")
def table3(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Table 3: the framework, with the validator, with secure dispatch; SHD, F1 and the correlation of UnSplit."""
    progress.message(
        "framework: the weight of acyclicity stays 0; sparsity stays, which the paper's objective counts to the "
        "parties. Our coordinator draws an acyclic graph at the end in any case; 'cycles kept' takes all edges above "
        "the threshold instead. The paper does not say which of the two it did, so its entry stands beside both"
    )
    progress.message(
        "the published recipe takes 31,500 exchanges, hours if they were encrypted: its last step is the same "
        "discovery as the one before, seen as a sum"
    )
    progress.message(f"{WHOSE}; {GATHERED}")
    progress.message(
        "UnSplit is a weak attack: the row of 'verdict', one party alone on the same features, says what they show"
    )
    variants = [*_variants(preset), Variant(PermutedRecords())]
    data = fifteen_attributes(preset)
    return run_variants("vfedcd-table3", variants, data, preset, progress, folder=folder, workers=workers)


def _variants(preset: str) -> Iterator[Variant]:
    for recipe in ("default", "paper"):
        settings = recipe_settings(recipe, preset)
        free = {**settings, "growth": 0.0}
        yield _variant("framework", recipe, Watched(suffixed("framework", recipe), _APART, free))
        if recipe == "paper":
            cyclic = Watched(suffixed("framework, cycles kept", recipe), _APART, free, cycles=True)
            yield _variant("framework", recipe, cyclic)
        step = "framework + validator"
        yield _variant(step, recipe, Watched(suffixed(step, recipe), _APART, settings))
        full = Watched(suffixed("colonnade", recipe), _SUM, settings, encrypted=recipe == "default")
        yield _variant(OURS, recipe, full)
    stronger = Watched("colonnade, verdict", Case("verdict"), recipe_settings("default", preset))
    yield _variant(None, "default", stronger)


def _variant(entry: str | None, recipe: str, method: Watched) -> Variant:
    return Variant(method, {"recipe": recipe, **method.keys}, TABLE3[entry] if entry else Published())
