"""Figure 3: layers of the networks, and edges inside a party against edges between parties."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from colonnade.bench.causal.methods import Colonnade
from colonnade.bench.causal.published import FIGURE3
from colonnade.bench.causal.variants import Variant, fifteen_attributes, recipe_settings, run_variants, suffixed
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_LAYERS = (1, 2, 3)


@BENCHES.register("vfedcd-fig3")
def figure3(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Figure 3: F1 of edges inside a party and between parties, by the hidden layers of the decoders."""
    progress.message(f"published: {FIGURE3}")
    progress.message(
        "only decoders grow here. Encoders are one linear map by design: linear maps are what can be computed under "
        "encryption, and an edge's strength is the norm of its weights in that map. A deep encoder, which the figure "
        "sets against this, cannot be run, so its claim is not tested"
    )
    progress.message(
        "with linear encoders the features are the same whoever holds which column, so dividing the columns makes no "
        "gap: what gap there is comes from which edges of these graphs fall where; gap is intra_f1 - inter_f1"
    )
    progress.message("in the clear: encryption leaves decoders alone and changes features by rounding only")
    progress.message("the default recipe was chosen with one hidden layer; deeper decoders run on it as it is")
    variants, data = list(_variants(preset)), fifteen_attributes(preset)
    rows = run_variants("vfedcd-fig3", variants, data, preset, progress, folder=folder, workers=workers)
    return [{**row, "gap": _gap(row)} for row in rows]


def _variants(preset: str) -> Iterator[Variant]:
    for recipe in ("default", "paper"):
        for layers in _LAYERS:
            settings = recipe_settings(recipe, preset, depth=layers)
            name = suffixed(f"colonnade, depth {layers}", recipe)
            yield Variant(Colonnade(False, settings, name), {"recipe": recipe, "decoder_layers": layers})


def _gap(row: Row) -> float | None:
    intra, inter = row["intra_f1"], row["inter_f1"]
    return None if intra is None or inter is None else round(intra - inter, 4)
