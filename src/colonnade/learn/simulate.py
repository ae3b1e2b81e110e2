"""A federation's own files, lived through in one process: all parties here, nothing on the network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from colonnade.errors import ConfigError
from colonnade.federation.federation import Federation
from colonnade.learn.join import Place
from colonnade.learn.model import VerticalModel
from colonnade.learn.train import train
from colonnade.progress import Progress


def places_of(federation: Path, parties: Sequence[Path]) -> list[Place]:
    """Read all party files; raise unless each party of the federation has exactly one."""
    found = {place.name: place for place in (Place.read(federation, party) for party in parties)}
    expected = list(next(iter(found.values())).federation.parties) if found else []
    missing = [name for name in expected if name not in found]
    if missing or len(found) != len(parties):
        what = f"no party file for {', '.join(missing)}" if missing else "two party files for one party"
        raise ConfigError(what, where="--party", remedy="give one file per party, or take part alone with 'join'")
    return [found[name] for name in expected]


def federation_of(places: Sequence[Place]) -> Federation:
    """Return the federation with every party's own records, not aligned yet."""
    records, split = {}, None
    for place in places:
        records[place.name], given = place.records()
        split = split if given is None else given
    return Federation(records, places[0].federation.active, split=split)


def simulate(
    places: Sequence[Place], federation: Federation, run: Path, progress: Progress, resume: bool
) -> VerticalModel:
    """Train an aligned federation as its files say, every party with its own defense and its own run folder."""
    file = places[0].federation
    return train(
        federation,
        {place.name: {"name": place.party.defense.name, **place.party.defense.strength} for place in places},
        task=file.task,
        seed=file.seed,
        device=str(places[0].device),
        run=run,
        resume=resume,
        progress=progress,
    )
