"""Somebody's place in a real federation: two files, a secret, run folders, and the channel to the others."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pandas as pd

from colonnade.data.read import read_records, read_table
from colonnade.data.records import Records
from colonnade.errors import ConfigError, RunError, nearest
from colonnade.federation.files import DataSettings, FederationFile, PartyFile, read_federation, read_party
from colonnade.run import Run

if TYPE_CHECKING:
    from colonnade.wire.network import NetworkChannel

DISCOVERY = "discovery"
"""What the config of a discovery's run names as its task's kind."""

_LONGEST = 100
"""Characters that the name of a run may have."""
_USUAL_LENGTH = 60
"""Of the name of a run that nobody named; what is done with the run adds its own words."""
_DIGITS = 12


@dataclass(frozen=True)
class Place:
    """A party's, or the coordinator's, two files, read and found to fit each other.

    Attributes:
        federation: what all have agreed on.
        party: what this one keeps to itself.
        run_name: what the run is called.
        federation_path, party_path: where the two files are, for errors.
    """

    federation: FederationFile
    party: PartyFile
    run_name: str
    federation_path: Path = Path("federation.yaml")
    party_path: Path = Path("party.yaml")

    @classmethod
    def read(cls, federation: Path, party: Path, run_name: str | None = None) -> Self:
        """Read both files; raise if who they speak of does not take part."""
        agreed, mine = read_federation(federation), read_party(party)
        if mine.party not in agreed.everybody:
            remedy = nearest(mine.party, agreed.everybody)
            raise ConfigError(f"'{mine.party}' is no party of the federation", where=f"{party}: party", remedy=remedy)
        if run_name is not None and len(run_name) > _LONGEST:
            what = f"a run's name of {len(run_name)} characters is too long"
            raise ConfigError(what, where="--run", remedy=f"use up to {_LONGEST}")
        return cls(agreed, mine, run_name or cls.usual_run_name(agreed), federation, party)

    @classmethod
    def usual_run_name(cls, federation: FederationFile) -> str:
        """Return the name of a run that nobody named, the same at every party.

        A digest stands for letters that a run's name can't have, and for what is too long.
        """
        name = federation.name
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("._-")
        lost = any(letter.isalnum() and not letter.isascii() for letter in name)
        if plain and not lost and len(plain) <= _USUAL_LENGTH:
            return plain
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
        kept = plain[: _USUAL_LENGTH - _DIGITS - 1].rstrip("._-") or "federation"
        return f"{kept}-{digest}"

    @property
    def name(self) -> str:
        """Who I am."""
        return self.party.party

    @property
    def is_coordinator(self) -> bool:
        """Whether this is the coordinator of discoveries, which holds no data."""
        return self.name not in self.federation.parties

    @property
    def lead(self) -> str:
        """The party that leads an alignment: the active one, or the first where there is none."""
        return self.federation.active or next(iter(self.federation.parties))

    @property
    def data(self) -> DataSettings:
        """Where this party's records are; an error where its file does not say."""
        if self.party.data is None:
            raise ConfigError("is missing", where=f"{self.party_path}: data", remedy="write where your records are")
        return self.party.data

    def ids(self) -> pd.Index:
        """Read the ids of this party's records."""
        data = self.data
        if data.kind == "images":
            return read_records(data.path, data.id_column or "ids").ids
        frame = read_table(data.path, data.id_column)
        return Records.from_frame(frame, id_column=data.id_column, columns=[], where=str(data.path)).ids

    def new_run(self, purpose: str) -> Run:
        """Return a folder for something short, so that whatever leaves this party is in a ledger."""
        config = {"party": self.name, "purpose": purpose, "run": self.run_name}
        ending = f"-{purpose}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        return Run.create(self.run_name[: _LONGEST - len(ending)] + ending, config, self.party.runs)

    def run_folder(self, resume: bool, task: dict[str, Any]) -> Run:
        """Return the folder of the run; when resuming, the one that is there, if it is one of the same task."""
        folder = self.party.runs / self.run_name
        config = {"party": self.name, "federation": self.federation.model_dump(mode="json"), "task": task}
        if resume and folder.exists():
            # The checkpoints of another kind of run could not be read, and would be cleared away.
            stored = Run.open(folder).config.get("task") or {}
            if (stored.get("kind") == DISCOVERY) != (task.get("kind") == DISCOVERY):
                raise RunError("is the run of another task", where=str(folder), remedy="name another one with --run")
            return Run.resume(folder, config)
        return Run.create(self.run_name, config, self.party.runs)

    def open_channel(
        self, order: Sequence[str], allowed: Callable[[str], frozenset[str]], purpose: str, wait: float
    ) -> NetworkChannel:
        """Open the channel to all others of `order`, which may take `wait` seconds to appear; mutual TLS, always.

        Args:
            order: everybody who takes part, in the order agreed.
            allowed: the message kinds that each of them may send.
            purpose: what the channel is for, where it is not the run itself.
            wait: seconds.
        """
        from colonnade.wire.deadline import Deadline
        from colonnade.wire.network import NetworkChannel
        from colonnade.wire.preflight import Peer
        from colonnade.wire.tls import Credentials

        mine = self.party.credentials
        if mine is None:
            remedy = "make a kit with 'colonnade keys'"
            raise ConfigError("is missing", where=f"{self.party_path}: credentials", remedy=remedy)
        entries = self.federation.everybody
        peers = {name: Peer(entries[name].address, entries[name].fingerprint) for name in order if name != self.name}
        return NetworkChannel(
            self.name,
            peers,
            run=self.run_name + purpose,
            credentials=Credentials(mine.ca, mine.certificate, mine.key),
            listen=self.party.listen or entries[self.name].address,
            allowed={name: allowed(name) for name in peers},
            deadline=Deadline(connect=wait, heartbeat=self.federation.heartbeat),
            order=order,
        )


AnyPlace = TypeVar("AnyPlace", bound=Place)


def places_of(kind: type[AnyPlace], federation: Path, parties: Sequence[Path]) -> list[AnyPlace]:
    """Read all party files; raise unless each party of the federation has exactly one. The coordinator needs none."""
    places = [kind.read(federation, party) for party in parties]
    found = {place.name: place for place in places}
    expected = list(places[0].federation.parties) if places else []
    missing = [name for name in expected if name not in found]
    if missing or len(found) != len(parties):
        what = f"no party file for {', '.join(missing)}" if missing else "two party files for one party"
        remedy = "give one file per party, or one's own alone to take part over the network"
        raise ConfigError(what, where="--party", remedy=remedy)
    return [found[name] for name in expected]
