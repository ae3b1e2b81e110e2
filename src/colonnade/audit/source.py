"""What the command line audits: a trained model from the folders that runs leave, and the records to audit it with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.align.simulate import align_federation
from colonnade.data.records import Records
from colonnade.data.split import TEST, assign_split
from colonnade.errors import ConfigError, RunError
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.agreement import Agreement
from colonnade.learn.join import TrainingPlace
from colonnade.learn.model import VerticalModel
from colonnade.learn.part import Part
from colonnade.learn.simulate import federation_of
from colonnade.place import places_of
from colonnade.run import Run


def load_trained(folder: Path, device: str = "cpu") -> VerticalModel:
    """Return the model that a training left in `folder`.

    That may be the folder of a saved model (`train --out`), the folder of all parties' run folders (`train --run`), or
    one party's own run folder (`join`), which holds that party's part alone.
    """
    if (folder / "model.json").is_file():
        return VerticalModel.load(folder, device)
    if (folder / "run.json").is_file():
        return _from_runs([folder], device)
    runs = sorted(path.parent for path in folder.glob("*/run.json"))
    if not runs:
        remedy = "give what 'colonnade train' or 'colonnade join' wrote"
        raise RunError("holds no trained model", where=str(folder), remedy=remedy)
    return _from_runs(runs, device)


def federation_from(federation: Path, parties: Sequence[Path]) -> Federation:
    """Return the aligned federation of these files, as `colonnade train` has it."""
    places = places_of(TrainingPlace, federation, parties)
    return align_federation(federation_of(places), places[0].federation.task.missing)


def own_test_records(model: VerticalModel, federation: Path, party: Path) -> dict[str, Records]:
    """Return those of one party's own records that were not trained on: their ids alone tell which."""
    place, split = TrainingPlace.read(federation, party), model.agreement.task.split
    if split.column is not None:
        remedy = "give records that were not trained on with --data"
        raise ConfigError("only the active party knows which records were tested", where=str(party), remedy=remedy)
    records, _ = place.records()
    parts = assign_split(records.ids, split.train, split.validation, split.test, model.agreement.seed)
    return {place.name: records.take(np.flatnonzero(parts == TEST))}


def _from_runs(runs: Sequence[Path], device: str) -> VerticalModel:
    found = [Run.open(path) for path in runs]
    parts = [Part.load(run.path / "model", device) for run in found]
    return VerticalModel(_agreement(found[0]), {part.party: part for part in parts})


def _agreement(run: Run) -> Agreement:
    """Return what was agreed on, from a run's config: of a party on a network, or of a simulation."""
    config: dict[str, Any] = run.config
    agreed = config.get("federation", config)
    try:
        task = Task.model_validate(config["task"])
        return Agreement(run.name, tuple(agreed["parties"]), agreed["active"], task, int(agreed["seed"]))
    except (KeyError, TypeError, ValueError) as error:
        remedy = "give the run of a training"
        raise RunError("its config is not that of a training", where=str(run.path), remedy=remedy) from error
