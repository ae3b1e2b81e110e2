"""Variants of our method side by side on the same data: another setting or another attack, each with the paper's entry.

`run_table` knows rows that differ in method and data. Here methods differ in what a figure has on its axis, so every
row names that too, and the published correlation beside the published accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from colonnade.bench.causal import sets
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.methods import EmptyGraph, Method, RandomGraph
from colonnade.bench.causal.presets import SEEDS
from colonnade.bench.causal.published import Published
from colonnade.bench.causal.table import Case, run_table
from colonnade.bench.registry import Row
from colonnade.bench.workers import Workers
from colonnade.federation.discovery import RECIPES, DiscoverySettings
from colonnade.progress import Progress

Load = Callable[[int], sets.CausalSet]

_QUICK: dict[str, dict[str, Any]] = {"default": {"epochs": 20, "refit_epochs": 10}, "paper": {"epochs": 2}}
_FRESH_SEED = 1000  # far from every seed that a choice was made on

READING = "the paper gives no number of edges; ours is four an attribute, as in its other tables by our reading"


@dataclass(frozen=True)
class Variant:
    """What is run, what its rows say about it beside the method's name, and what the paper reports."""

    method: Method
    keys: Mapping[str, Any] = field(default_factory=dict)
    published: Published = field(default_factory=Published)


def run_variants(
    title: str,
    variants: Sequence[Variant],
    data: tuple[str, Load],
    preset: str,
    progress: Progress,
    *,
    folder: Path | None,
    workers: Workers,
) -> list[Row]:
    """Return the rows of all variants, and of a random and an empty graph, on one kind of data: means first.

    Args:
        title: of the bench.
        variants: under names that differ.
        data: the name of the kind of data, and what makes the set of a seed.
        preset: decides the seeds.
        progress: is told of every row.
        folder: keeps finished rows; None keeps nothing.
        workers: who run rows.
    """
    named = {variant.method.name: variant for variant in variants}
    assert len(named) == len(variants), "variants of one name would be taken for one another"
    progress.message("rows without a seed are means over seeds, ± the interval of 95 %")
    if preset == "smoke":
        progress.message("a smoke run: small data and a few epochs only, its scores mean nothing")
    methods = [*(variant.method for variant in variants), RandomGraph(), EmptyGraph()]
    said = {name: variant.published for name, variant in named.items()}
    rows = run_table([Case(*data, methods, SEEDS[preset], said)], progress, title, folder, workers)
    keys = dict.fromkeys(key for variant in variants for key in variant.keys)
    return [_told(row, named.get(row["method"], Variant(RandomGraph())), keys) for row in rows]


def recipe_settings(recipe: str, preset: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a recipe, with changes; a smoke run stops long before it has learned anything."""
    return {**RECIPES[recipe], **(_QUICK[recipe] if preset == "smoke" else {}), **changes}


def looks(settings: Mapping[str, Any], records: int) -> int:
    """Return how often the coordinator looks at the graph under these settings."""
    from colonnade.discover.timetable import Blocks

    chosen = DiscoverySettings.model_validate(settings)
    blocks = Blocks(records, chosen, seed=0)
    return blocks.looks(chosen.epochs) + blocks.looks(chosen.refit_epochs)


def suffixed(name: str, recipe: str) -> str:
    """Return a name that tells the recipes apart."""
    return name if recipe == "default" else f"{name}, published recipe"


def fifteen_attributes(preset: str) -> tuple[str, Load]:
    """Return the stored sets of 15 attributes at three parties; for a smoke run small ones, which need no file."""
    if preset == "smoke":
        return drawn(Design(6, 8, records=200), 3)
    return "stored", partial(_stored, 15, 60)


def drawn(design: Design, parties: sets.Shares) -> tuple[str, Load]:
    """Return freshly generated sets."""
    return "fresh", partial(_fresh, design, parties)


def _told(row: Row, variant: Variant, keys: Mapping[str, None]) -> Row:
    method = {"method": row["method"], **keys, **variant.keys}
    return {**method, **row, "published_correlation": variant.published.correlation}


def _stored(variables: int, edges: int, seed: int) -> sets.CausalSet:
    return sets.stored(variables, edges, seed)


def _fresh(design: Design, parties: sets.Shares, seed: int) -> sets.CausalSet:
    return sets.fresh(design, _FRESH_SEED + seed, parties)
