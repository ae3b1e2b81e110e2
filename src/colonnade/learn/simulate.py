"""A federation's own files, lived through in one process: all parties here, nothing on the network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from colonnade.federation.federation import Federation
from colonnade.learn.join import TrainingPlace
from colonnade.learn.model import VerticalModel
from colonnade.learn.train import train
from colonnade.progress import Progress


def federation_of(places: Sequence[TrainingPlace]) -> Federation:
    """Return the federation with every party's own records, not aligned yet."""
    records, split = {}, None
    for place in places:
        records[place.name], given = place.records()
        split = split if given is None else given
    return Federation(records, places[0].federation.active, split=split)


def simulate(
    places: Sequence[TrainingPlace],
    federation: Federation,
    run: Path,
    progress: Progress,
    *,
    resume: bool,
    device: torch.device,
) -> VerticalModel:
    """Train an aligned federation as its files say, every party with its own defense and its own run folder."""
    file = places[0].federation
    return train(
        federation,
        {place.name: place.defense for place in places},
        task=file.task,
        seed=file.seed,
        device=str(device),
        run=run,
        resume=resume,
        progress=progress,
    )
