"""A discovery from a federation's own files, lived through in one process: nothing on the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from colonnade.align.together import align_together
from colonnade.discover.agreement import COORDINATOR
from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.discover.join import DiscoveryPlace
from colonnade.discover.knowledge import check_together
from colonnade.progress import Progress


def simulate(
    places: Sequence[DiscoveryPlace], run: Path, progress: Progress, resume: bool, confidence: int = 0
) -> CausalGraph:
    """Align and discover as the files say; where they name no coordinator, one is made up.

    `confidence` is how many further searches, on resampled records, tell how sure each edge is.
    """
    file = places[0].federation
    progress.message("aligning records")
    tables = {place.name: place.table() for place in places}
    for place in places:
        place.check_columns(tables[place.name])
        place.check_knowledge([str(name) for name in tables[place.name].columns])
    _check_all_knowledge(places, tables)
    aligned = align_together({name: table.index for name, table in tables.items()}, places[0].lead)
    return discover_tables(
        {name: table.iloc[aligned[name].rows] for name, table in tables.items()},
        file.discovery,
        seed=file.seed,
        knowledge={place.name: place.party.knowledge for place in places},
        kinds={name: kind for place in places for name, kind in place.party.kinds.items()},
        confidence=confidence,
        run=run,
        resume=resume,
        progress=progress,
        public=file.knowledge,
        coordinator=file.coordinator.name if file.coordinator else COORDINATOR,
    )


def _check_all_knowledge(places: Sequence[DiscoveryPlace], tables: Mapping[str, pd.DataFrame]) -> None:
    """Raise, before there are run folders, if a name is no column of anybody or the files contradict each other.

    A single place cannot see either: others' columns and others' knowledge are none of its business.
    """
    first = places[0]
    check_together(
        first.federation.knowledge,
        {place.name: place.party.knowledge for place in places},
        {name: [str(column) for column in table.columns] for name, table in tables.items()},
        where=f"{first.federation_path}: knowledge",
        files={place.name: f"{place.party_path}: knowledge" for place in places},
    )
