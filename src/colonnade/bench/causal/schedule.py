"""Figure 4: how fast acyclicity gains weight, and how many updates parties make between two exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from colonnade.bench.causal.methods import Colonnade
from colonnade.bench.causal.published import FIGURE4_GROWTH, FIGURE4_LOCAL_UPDATES, Published
from colonnade.bench.causal.variants import Variant, fifteen_attributes, looks, recipe_settings, run_variants, suffixed
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.federation.discovery import DiscoverySettings
from colonnade.progress import Progress

_PUBLISHED_EPOCH = 0.5
"""Learning of a published epoch: 50 exchanges at a rate of .01; our growth is per unit of learning."""
_GAMMAS = (0.0, 0.004, 0.005, 0.006, 0.007, 0.02)
_LOCAL_UPDATES = (1, 2, 3, 5)


@BENCHES.register("vfedcd-fig4")
def figure4(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Figure 4: accuracy by the growth of the weight of acyclicity, γ, and by the updates between two exchanges, Q."""
    low, high = FIGURE4_GROWTH
    progress.message(f"published: γ from {low} to {high} hardly changes SHD and F1; without numbers")
    progress.message(
        "gamma is per published epoch, 50 exchanges at a rate of .01; our setting growth is per unit of learning, "
        "2 · gamma, which both recipes share; 0 and .02 lie outside the published range; Q 1 is each recipe as it is, "
        "gamma .0047 and .006"
    )
    progress.message(
        "Q: between two exchanges a target goes Q times through the records of the exchange, on features that grow "
        "stale; its decoders learn each time and the encoders get the sum of Q gradients at once. Updates stay as "
        "many, exchanges become Q times fewer, and the penalties weigh as much for each update. Encoders themselves "
        "cannot move in between, because nobody has their weights. The default recipe has one exchange for all "
        "records, and about 60 minibatches of the decoders in it, for Q = 1 already"
    )
    progress.message("in the clear: encryption changes features by rounding only")
    data = fifteen_attributes(preset)
    records = len(data[1](0).frame)
    variants = [variant for recipe in ("default", "paper") for variant in _variants(recipe, preset, records)]
    return run_variants("vfedcd-fig4", variants, data, preset, progress, folder=folder, workers=workers)


def _variants(recipe: str, preset: str, records: int) -> Iterator[Variant]:
    own = DiscoverySettings.model_validate(recipe_settings(recipe, preset))
    for gamma in _GAMMAS:
        growth = gamma / _PUBLISHED_EPOCH
        if growth != own.growth:  # otherwise it is Q = 1 below
            yield _variant(f"γ {gamma:g}", recipe, recipe_settings(recipe, preset, growth=growth), records)
    for updates in _LOCAL_UPDATES:
        settings = recipe_settings(recipe, preset, **with_local_updates(own, updates))
        said = FIGURE4_LOCAL_UPDATES.get(updates) if recipe == "paper" else None
        yield _variant(f"Q {updates}", recipe, settings, records, said)


def with_local_updates(own: DiscoverySettings, updates: int) -> dict[str, Any]:
    """Return the settings of as many updates in fewer exchanges.

    An exchange moves encoders by the sum of all its updates, but sparsity and acyclicity shrink them once for its
    learning rate, and the weight of acyclicity grows with it: hence the factors.
    """
    return {
        "local_passes": updates,
        "epochs": -(-own.epochs // updates),
        "refit_epochs": -(-own.refit_epochs // updates),
        "validate_every": max(own.validate_every // updates, 1),
        "sparsity": own.sparsity * updates,
        "refit_sparsity": own.refit_sparsity * updates,
        "growth": own.growth * updates**2,
    }


def _variant(
    name: str, recipe: str, settings: Mapping[str, Any], records: int, said: Published | None = None
) -> Variant:
    chosen = DiscoverySettings.model_validate(settings)
    keys = {
        "recipe": recipe,
        "gamma": round(chosen.growth / chosen.local_passes**2 * _PUBLISHED_EPOCH, 6),
        "local_updates": chosen.local_passes,
        "exchanges": looks(settings, records) * chosen.validate_every,
    }
    return Variant(Colonnade(False, settings, suffixed(f"colonnade, {name}", recipe)), keys, said or Published())
