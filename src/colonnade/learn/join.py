"""Take part in a training as one party, over the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import torch

from colonnade.align.remembered import align_for_run
from colonnade.data.label_preparation import check_labels
from colonnade.data.read import read_records, read_table
from colonnade.data.records import Records
from colonnade.data.split import split_from_column
from colonnade.defend import DEFENSES, Defense, Layered
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.files import PartyFile
from colonnade.learn.agreement import Agreement
from colonnade.learn.choices import require_choices
from colonnade.learn.part import Part
from colonnade.learn.role import Seat, require_labels, require_secrets
from colonnade.learn.team import Team
from colonnade.learn.train import named_defense, take_part
from colonnade.nets.device import require_device
from colonnade.place import Place
from colonnade.progress import Progress

if TYPE_CHECKING:
    from colonnade.wire.network import NetworkChannel


@dataclass(frozen=True)
class TrainingPlace(Place):
    """A party's place in a federation that has a label to learn."""

    @classmethod
    def read(cls, federation: Path, party: Path, run_name: str | None = None) -> Self:
        """Read both files; raise if they do not say what training needs."""
        place = super().read(federation, party, run_name)
        if place.is_coordinator:
            remedy = "use 'colonnade discover', or another party's file"
            raise ConfigError("the coordinator takes part in discovery only", where=f"{party}: party", remedy=remedy)
        for field in ("active", "label"):
            if getattr(place.federation, field) is None:
                remedy = "training needs the party that holds the label, and the label's column; discovery does not"
                raise ConfigError("is missing", where=f"{federation}: {field}", remedy=remedy)
        if place.is_active and place.federation.task.labels == "shared" and not place.party.share_labels:
            remedy = "write 'share_labels: true' if they may see them, or agree on task.labels: server"
            raise ConfigError("the task shows labels to all parties", where=f"{party}: share_labels", remedy=remedy)
        return place

    @property
    def is_active(self) -> bool:
        """Whether this party holds the labels."""
        return self.name == self.federation.active

    @property
    def agreement(self) -> Agreement:
        """What this party believes to be agreed."""
        file = self.federation
        return Agreement(self.run_name, tuple(file.parties), self.lead, file.task, file.seed)

    @property
    def device(self) -> torch.device:
        """Where this party's networks live."""
        if self.party.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return require_device(self.party.device, f"{self.party_path}: device", "use cpu or auto")

    @property
    def defense(self) -> Defense:
        """How this party's uploads are protected, made anew."""
        return defense_of(self.party, self.party_path)

    def records(self, path: Path | None = None, labelled: bool = True) -> tuple[Records, pd.Series[Any] | None]:
        """Read this party's records, and at the active party the column that says what each is for."""
        data = self.data
        where = path or data.path
        if labelled:
            self._check_sensitive()
        label = self.federation.label if self.is_active and labelled else None
        split = self.federation.task.split.column if self.is_active and labelled else None
        if data.kind == "images":
            if data.columns is not None:
                field = f"{self.party_path}: data.columns"
                raise ConfigError("images have no columns", where=field, remedy="leave columns out")
            images = read_records(where, data.id_column or "ids", None, label, self._secrets(labelled))
            _check_answers(images, None, where)
            return images, None
        frame = read_table(where, data.id_column)
        if split is not None and split not in frame:
            raise DataError(f"no column '{split}'", where=str(where), remedy=nearest(split, map(str, frame.columns)))
        if not self.is_active and data.columns is None and self.federation.label in frame.columns:
            remedy = "a passive party has no labels: drop the column, or list data.columns"
            raise DataError(f"holds the label column '{self.federation.label}'", where=str(where), remedy=remedy)
        aside = [column for column in (split, None if labelled else self.federation.label) if column in frame.columns]
        kept = frame.drop(columns=[column for column in aside if column is not None])
        records = Records.from_frame(
            kept,
            id_column=data.id_column,
            columns=data.columns,
            label=label,
            secrets=self._secrets(labelled),
            where=str(where),
            for_training=labelled,
        )
        parts = frame[split].set_axis(records.ids) if split else None
        _check_answers(records, parts, where)
        return records, parts

    def _check_sensitive(self) -> None:
        """Refuse a label as a secret: a passive party should not have it, and the active one learns to tell it."""
        aside = {self.federation.label: "label"}
        if self.is_active:
            aside[self.federation.task.split.column] = "split"
        where = f"{self.party_path}: sensitive"
        for name in self.party.sensitive:
            if name in aside:
                raise ConfigError(f"'{name}' is the {aside[name]}, no secret", where=where, remedy="leave it out")
            if self.party.sensitive.count(name) > 1:
                raise ConfigError(f"'{name}' is listed twice", where=where, remedy="list it once")

    def _secrets(self, labelled: bool) -> tuple[str, ...]:
        """Return the sensitive columns; records to predict need not have them."""
        return self.party.sensitive if labelled else ()

    def connect(self, purpose: str, wait: float) -> NetworkChannel:
        """Open the channel to all other parties, which may take `wait` seconds to appear."""
        agreement = self.agreement
        return self.open_channel(agreement.parties, agreement.allowed_kinds, purpose, wait)


def defense_of(party: PartyFile, path: Path) -> Defense:
    """Return the defense that the party file at `path` chooses; what is wrong with it is said in the file's words.

    Files that its strength names are meant from the party file's own folder.
    """
    name = party.defense.name
    try:
        return named_defense(_with_files_beside(path, {"name": name, **party.defense.strength}, name))
    except ConfigError as error:
        field = "defense.name" if error.where is None else error.where.replace(name, "defense", 1)
        raise ConfigError(error.what, where=f"{path}: {field}", remedy=error.remedy) from error


def _with_files_beside(path: Path, described: Any, where: str) -> Any:
    """Return a described defense with its files, and those of its layers, found beside `path`.

    What describes no defense stays as it is: whoever makes one of it says what is wrong.
    """
    name = described.get("name") if isinstance(described, Mapping) else None
    if not isinstance(name, str) or name not in DEFENSES:
        return described
    found = dict(described)
    for field in getattr(DEFENSES[name], "files", ()):
        if isinstance(found.get(field), str):
            found[field] = str(_file_beside(path, found[field], f"{where}.{field}"))
    if DEFENSES[name] is Layered and isinstance(found.get("layers"), list):
        layers = enumerate(found["layers"])
        found["layers"] = [_with_files_beside(path, layer, f"{where}.layers.{place}") for place, layer in layers]
    return found


def _file_beside(path: Path, named: str, where: str) -> Path:
    found = path.parent / Path(named).expanduser()
    if not found.is_file():
        remedy = "check the path; it is relative to the folder of this file"
        raise ConfigError(f"there is no file {found}", where=where, remedy=remedy)
    return found


def _check_answers(records: Records, split: pd.Series[Any] | None, file: Path) -> None:
    """Raise where a record has no label or is in no part. Here it can be named: in a run all parties would be told."""
    if records.label is not None:
        check_labels(records.label, where=f"{file}: column '{records.label.name}'")
    if split is not None:
        split_from_column(split, validation=0, where=str(file))


def join(
    place: TrainingPlace, progress: Progress, resume: bool = False, wait: float = 300.0, team: Team | None = None
) -> Part:
    """Align, train, and keep this party's part of the model in its run folder; a `team` shares its bottom model."""
    records, split = place.records()
    if not place.is_active and not records.has_features:
        remedy = "list its columns, or take the party out of the federation file"
        raise DataError("a passive party needs columns", where=f"{place.party_path}: data.columns", remedy=remedy)
    if team and not records.has_features:
        what = f"has no columns that {team.size} processes could share"
        raise ConfigError(what, where=place.name, remedy="start it without torchrun")
    defense, device, agreement = place.defense, place.device, place.agreement
    require_labels(defense, agreement, place.name)
    require_secrets(defense, records, place.name)
    if resume:
        require_choices(place.party.runs / place.run_name, defense, records, str(place.party_path))
    # Whether the active party uploads too, nobody else knows yet.
    uploading = len(agreement.passive) + (place.is_active and records.has_features)
    agreement.task.weights.require_room(uploading)
    task = agreement.task.model_dump(mode="json")
    with place.run_folder(resume, task) as run, place.connect("", wait) as channel:
        channel.connect()  # from the first message on, everybody would notice that this party is gone
        channel.observe(run.ledger.record)
        alignment = align_for_run(
            channel,
            records.ids,
            active=agreement.active,
            order=agreement.parties,
            policy=agreement.task.missing,
            run=run,
            resume=resume,
            secret=run.order_secret,
        )
        seat = Seat(place.name, records, alignment, defense, device, run, resume, run.secret, split, team)
        return take_part(channel, agreement, seat, progress)
