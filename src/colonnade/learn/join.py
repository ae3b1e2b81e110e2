"""Take part in a real federation as one party, over the network."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from colonnade.data.read import read_records, read_table
from colonnade.data.records import Records
from colonnade.defend import make_defense
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.files import FederationFile, PartyFile, read_federation, read_party
from colonnade.learn.agreement import Agreement
from colonnade.learn.alignments import align_for_run
from colonnade.learn.part import Part
from colonnade.learn.role import Seat
from colonnade.learn.train import take_part
from colonnade.progress import Progress
from colonnade.run import Run

if TYPE_CHECKING:
    from colonnade.wire.network import NetworkChannel


@dataclass(frozen=True)
class Place:
    """One party's two files, read and found to fit each other."""

    federation: FederationFile
    party: PartyFile
    run_name: str

    @classmethod
    def read(cls, federation: Path, party: Path, run_name: str | None = None) -> Place:
        """Read both files; raise if the party is none of the federation's."""
        agreed, mine = read_federation(federation), read_party(party)
        if mine.party not in agreed.parties:
            remedy = nearest(mine.party, agreed.parties)
            raise ConfigError(f"'{mine.party}' is no party of the federation", where=f"{party}: party", remedy=remedy)
        return cls(agreed, mine, run_name or re.sub(r"[^A-Za-z0-9._-]+", "-", agreed.name))

    @property
    def name(self) -> str:
        """Who I am."""
        return self.party.party

    @property
    def is_active(self) -> bool:
        """Whether this party holds the labels."""
        return self.name == self.federation.active

    @property
    def agreement(self) -> Agreement:
        """What this party believes to be agreed."""
        file = self.federation
        return Agreement(self.run_name, tuple(file.parties), file.active, file.task, file.seed)

    @property
    def device(self) -> torch.device:
        """Where this party's networks live."""
        if self.party.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if self.party.device.startswith("cuda") and not torch.cuda.is_available():
            raise ConfigError(f"no device '{self.party.device}' here", where="device", remedy="use cpu or auto")
        return torch.device(self.party.device)

    def secret(self) -> bytes:
        """Return what only this party knows, made on first use and kept beside its runs.

        Noise, first weights and the order of imputed records come from it: nobody else can compute them, and a resumed
        run repeats them.
        """
        path = self.party.runs / "secret"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.touch(mode=0o600)
            partial.write_bytes(secrets.token_bytes(32))
            partial.replace(path)
        return path.read_bytes()

    def new_run(self, purpose: str) -> Run:
        """Return a folder for something other than training, so that whatever leaves this party is in a ledger."""
        config = {"party": self.name, "purpose": purpose, "run": self.run_name}
        name = f"{self.run_name}-{purpose}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        return Run.create(name, config, self.party.runs)

    def records(self, path: Path | None = None, labelled: bool = True) -> tuple[Records, pd.Series[Any] | None]:
        """Read this party's records, and at the active party the column that says what each is for."""
        data = self.party.data
        where = path or data.path
        label = self.federation.label if self.is_active and labelled else None
        split = self.federation.task.split.column if self.is_active and labelled else None
        if data.kind == "images":
            return read_records(where, data.id_column or "ids", None, label), None
        frame = read_table(where, data.id_column)
        if split is not None and split not in frame:
            raise DataError(f"no column '{split}'", where=str(where), remedy=nearest(split, map(str, frame.columns)))
        if not self.is_active and data.columns is None and self.federation.label in frame.columns:
            remedy = "a passive party has no labels: drop the column, or list data.columns"
            raise DataError(f"holds the label column '{self.federation.label}'", where=str(where), remedy=remedy)
        aside = [column for column in (split, None if labelled else self.federation.label) if column in frame.columns]
        kept = frame.drop(columns=[column for column in aside if column is not None])
        records = Records.from_frame(
            kept, id_column=data.id_column, columns=data.columns, label=label, where=str(where), for_training=labelled
        )
        return records, frame[split] if split else None

    def connect(self, purpose: str, wait: float) -> NetworkChannel:
        """Open the channel to all other parties, which may take `wait` seconds to appear; mutual TLS, always."""
        from colonnade.wire.deadline import Deadline
        from colonnade.wire.network import NetworkChannel
        from colonnade.wire.preflight import Peer
        from colonnade.wire.tls import Credentials

        mine = self.party
        if mine.credentials is None:
            raise ConfigError(
                "is missing", where=f"{mine.party}: credentials", remedy="make a kit with 'colonnade keys'"
            )
        agreement = self.agreement
        peers = {name: Peer(entry.address, entry.fingerprint) for name, entry in self.federation.parties.items()}
        return NetworkChannel(
            self.name,
            {name: peer for name, peer in peers.items() if name != self.name},
            run=self.run_name + purpose,
            credentials=Credentials(mine.credentials.ca, mine.credentials.certificate, mine.credentials.key),
            listen=mine.listen or peers[self.name].address,
            allowed={name: agreement.allowed_kinds(name) for name in agreement.parties if name != self.name},
            deadline=Deadline(connect=wait, heartbeat=self.federation.heartbeat),
            order=agreement.parties,
        )


def join(place: Place, progress: Progress, resume: bool = False, wait: float = 300.0) -> Part:
    """Align, train, and keep this party's part of the model in its run folder."""
    records, split = place.records()
    defense = make_defense(place.party.defense.name, **place.party.defense.strength)
    device = place.device
    with _run_folder(place, resume) as run, place.connect("", wait) as channel:
        channel.connect()  # from the first message on, everybody would notice that this party is gone
        channel.observe(run.ledger.record)
        secret = place.secret()
        alignment = align_for_run(channel, place.agreement, records, run=run, resume=resume, secret=secret)
        seat = Seat(place.name, records, alignment, defense, device, run, resume, secret, split)
        return take_part(channel, place.agreement, seat, progress)


def _run_folder(place: Place, resume: bool) -> Run:
    root = place.party.runs
    if resume and (root / place.run_name).exists():
        return Run.resume(root / place.run_name)
    config = {"party": place.name, "federation": place.federation.model_dump(mode="json")}
    config["task"] = config["federation"]["task"]  # type: ignore[index]
    return Run.create(place.run_name, config, root)
