"""One cell of a matrix: a victim trained under one defense with one seed, and one attack on it."""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import colonnade
from colonnade.audit.attacks import chosen_attacks
from colonnade.audit.audit import audit
from colonnade.audit.result import AuditResult
from colonnade.audit.settings import Settings
from colonnade.errors import ColonnadeError
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.model import VerticalModel
from colonnade.learn.train import named_defense, train

Choice = Mapping[str, Any]
"""`{"name": ..., parameters...}`: what another process can make again."""

MADE_WITH = "made_with"

Files = Mapping[str, bytes]
"""All files of a saved model, by their path in its folder."""


@dataclass(frozen=True)
class Study:
    """What all cells of a matrix share.

    Attributes:
        federation: who takes part.
        task: what is learned.
        settings: of the audits.
        made_with: which source its cells are computed with; a result of several says so. It decides no name: a kept
            cell stays good where a change was none to it, and whoever goes on with it is told.
    """

    federation: Federation
    task: Task
    settings: Settings
    made_with: str | None = None


@dataclass(frozen=True)
class Failed:
    """Why a cell is missing from the result."""

    reason: str


@dataclass(frozen=True)
class Victim:
    """A model to be trained: one defense, one seed."""

    defense: Choice
    seed: int

    def name(self, study: str) -> str:
        """Return the name of its folder, which changes with everything that decides the model."""
        decides = [study, named_defense(self.defense).describe(), dict(self.defense), self.seed]
        return _file_name(f"{_title(self.defense)} {self.seed}", decides)


@dataclass(frozen=True)
class Saved:
    """A saved model: a folder here, its files once it has travelled to another process or another machine."""

    folder: Path | None
    files: Files | None = None

    def __reduce__(self) -> tuple[type[Saved], tuple[None, Files]]:
        return Saved, (None, self.read())

    def read(self) -> Files:
        """Return all files of the model."""
        if self.folder is None:
            return self.files or {}
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def load(self, device: str) -> VerticalModel:
        """Return the model."""
        if self.folder is not None:
            return VerticalModel.load(self.folder, device)
        with TemporaryDirectory() as folder:
            write_files(Path(folder), self.read())
            return VerticalModel.load(folder, device)


@dataclass(frozen=True)
class Cell:
    """A victim and an attack on it."""

    victim: Victim
    attack: Choice

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{_title(self.attack)} on {_title(self.victim.defense)}, seed {self.victim.seed}"

    @property
    def seed(self) -> int:
        """The seed of its model."""
        return self.victim.seed

    def name(self, study: str, settings: Settings) -> str:
        """Return the name of its file, which changes with everything that decides its rows."""
        described = chosen_attacks(self.attack)[0].describe()
        audited = {name: value for name, value in asdict(settings).items() if name != "device"}
        return _file_name(self.title, [self.victim.name(study), described, dict(self.attack), audited])


def study_digest(study: Study) -> str:
    """Return a digest of the records and of the task: a kept cell of other ones is not taken for this one's."""
    digest = hashlib.sha256(study.task.model_dump_json().encode())
    digest.update(colonnade.__version__.encode())
    federation = study.federation
    for party, records in federation.records.items():
        digest.update(f"{party} {party == federation.active}".encode())
        for part in (records.table, records.label, records.secrets):
            if part is not None:
                digest.update(pd.util.hash_pandas_object(part).to_numpy().tobytes())
                digest.update(repr(list(part.columns) if isinstance(part, pd.DataFrame) else part.name).encode())
        digest.update(pd.util.hash_pandas_object(pd.Series(records.ids)).to_numpy().tobytes())
        if records.images is not None:
            digest.update(np.ascontiguousarray(records.images).data)
        if federation.rows is not None:
            digest.update(np.ascontiguousarray(federation.rows[party]).data)
    if federation.split is not None:
        digest.update(pd.util.hash_pandas_object(federation.split).to_numpy().tobytes())
    return digest.hexdigest()


def train_victim(study: Study, victim: Victim) -> Files | Failed:
    """Train a model and return its files."""
    try:
        model = train(
            study.federation,
            dict(victim.defense),
            task=study.task,
            seed=victim.seed,
            device=study.settings.device,
            progress=False,
        )
    except Exception as error:
        return Failed(_reason(error))
    with TemporaryDirectory() as folder:
        return Saved(model.save(folder)).read()


def attack_victim(study: Study, job: tuple[Cell, Saved]) -> AuditResult | Failed:
    """Audit a trained model with one attack."""
    cell, saved = job
    try:
        found = audit(
            saved.load(study.settings.device),
            cell.attack,
            federation=study.federation,
            seeds=[cell.victim.seed],
            progress=False,
            **asdict(study.settings),
        )
    except Exception as error:
        return Failed(_reason(error))
    return replace(found, settings={**found.settings, MADE_WITH: study.made_with})


def write_files(folder: Path, files: Files) -> None:
    """Write files under `folder`."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _reason(error: Exception) -> str:
    """Say why a cell is missing; a mistake in somebody's code, with its place, costs this cell and no other."""
    if isinstance(error, ColonnadeError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"


def _title(choice: Choice) -> str:
    parameters = [f"{name}={value}" for name, value in choice.items() if name != "name"]
    return " ".join([str(choice["name"]), *parameters])


def _file_name(title: str, decides: Any) -> str:
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:16]
    readable = re.sub("[^a-z0-9.]+", "-", title.lower()).strip("-")[:80]
    return f"{readable}-{digest}"
