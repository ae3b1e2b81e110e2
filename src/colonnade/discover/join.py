"""Take part in a discovery as one party, or as the coordinator, over the network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from colonnade.align.remembered import align_for_run
from colonnade.data.read import read_table
from colonnade.data.records import Records
from colonnade.discover.agreement import DiscoveryAgreement
from colonnade.discover.coordinator import CoordinatorSeat
from colonnade.discover.discover import coordinate, take_part
from colonnade.discover.graph import CausalGraph
from colonnade.discover.graph_parts import check_name
from colonnade.discover.knowledge import FIELD, Knowledge, combine, own_only
from colonnade.discover.party import PartySeat
from colonnade.discover.recodings import refuse_recodings
from colonnade.discover.variables import PartyColumns, prepare_columns
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.files import FederationFile
from colonnade.federation.knowledge import VariableKind
from colonnade.place import DISCOVERY, Place
from colonnade.progress import Progress
from colonnade.wire.channel import Channel, Observer
from colonnade.wire.message import Message

if TYPE_CHECKING:
    from colonnade.wire.network import NetworkChannel

_TASK: dict[str, Any] = {"kind": DISCOVERY}


@dataclass(frozen=True)
class DiscoveryPlace(Place):
    """A party's, or the coordinator's, place in a discovery."""

    @classmethod
    def read(cls, federation: Path, party: Path, run_name: str | None = None) -> Self:
        """Read both files; raise if the coordinator's own file names data, or a party's names none."""
        place = super().read(federation, party, run_name)
        if place.is_coordinator and place.party.data is not None:
            raise ConfigError("the coordinator holds no data", where=f"{party}: data", remedy="leave it out")
        if not place.is_coordinator and place.party.data is None:
            raise ConfigError("is missing", where=f"{party}: data", remedy="write where your records are")
        return place

    @classmethod
    def usual_run_name(cls, federation: FederationFile) -> str:
        """Return a name that no training of the same federation has."""
        return f"{super().usual_run_name(federation)}-discover"

    @property
    def agreement(self) -> DiscoveryAgreement:
        """What this party believes to be agreed."""
        file = self.federation
        if file.coordinator is None:
            remedy = "name somebody who holds no data; in one process, with all parties' files, none is needed"
            raise ConfigError("is missing", where=f"{self.federation_path}: coordinator", remedy=remedy)
        parties = tuple(file.parties)
        return DiscoveryAgreement(
            self.run_name, parties, file.coordinator.name, file.discovery, file.seed, file.knowledge
        )

    def table(self) -> pd.DataFrame:
        """Read this party's columns, by id; the label, if it holds one, is a column like any other.

        Sensitive columns stay out, unless they are listed: others could reconstruct whatever takes part.
        """
        data, file = self.data, self.federation
        if data.kind == "images":
            remedy = "discovery needs tables: give it columns"
            raise DataError("holds images", where=f"{self.party_path}: data.kind", remedy=remedy)
        frame = read_table(data.path, data.id_column)
        columns = None if data.columns is None else list(data.columns)
        if self.name == file.active:
            # Which records somebody trains on is bookkeeping and has no cause.
            frame = frame.drop(columns=[file.task.split.column or ""], errors="ignore")
            if file.label is not None and file.label not in frame.columns:
                remedy = nearest(file.label, map(str, frame.columns))
                raise DataError(f"no label column '{file.label}'", where=str(data.path), remedy=remedy)
            if columns is not None and file.label is not None and file.label not in columns:
                columns.append(file.label)
        records = Records.from_frame(
            frame, id_column=data.id_column, columns=columns, secrets=self.party.sensitive, where=str(data.path)
        )
        return pd.DataFrame(index=records.ids) if records.table is None else records.table

    def columns(self, table: pd.DataFrame, kinds: Mapping[str, VariableKind] | None = None) -> PartyColumns:
        """Return the variables of a table; raise at the first thing that is wrong with it.

        Args:
            table: this party's columns, or some of them.
            kinds: those that are stated for these columns; None takes all that the party file states.
        """
        settings = self.federation.discovery
        stated = self.party.kinds if kinds is None else kinds
        found = prepare_columns(table, stated, settings.missing, settings.standardise, where=self.name)
        refuse_recodings(table, where=self.name)
        return found

    def check_columns(self, table: pd.DataFrame, kinds: Mapping[str, VariableKind] | None = None) -> None:
        """Raise at the first thing that is wrong with a table, and name the file: nobody else is told yet."""
        for name in table.columns:
            check_name(name, "variable", where=str(self.data.path))
        try:
            self.columns(table, kinds)
        except ConfigError as error:
            raise ConfigError(error.what, where=f"{self.party_path}: kinds", remedy=error.remedy) from error
        except DataError as error:
            # The remedy speaks to people who call `discover`; those who write files set it there.
            remedy = (error.remedy or "").replace("missing='impute'", "discovery.missing to impute")
            raise DataError(error.what, where=str(self.data.path), remedy=remedy) from error

    def column_errors(self, table: pd.DataFrame) -> list[ConfigError | DataError]:
        """Return what is wrong with each column for itself, and then with the others together."""
        errors: list[ConfigError | DataError] = []
        kinds = dict(self.party.kinds)
        for name in table.columns:
            try:
                self.check_columns(table[[name]], {name: kinds[name]} if name in kinds else {})
            except (ConfigError, DataError) as error:
                errors.append(error)
                table = table.drop(columns=name)
                kinds.pop(name, None)
        if not errors or len(table.columns):
            try:
                self.check_columns(table, kinds)
            except (ConfigError, DataError) as error:
                errors.append(error)
        return errors

    def check_knowledge(self, own: Sequence[str]) -> None:
        """Raise if what this party knows is not about its own variables, or contradicts itself or what all know."""
        public, mine = self.federation.knowledge, self.party.knowledge
        own_only(mine, own, where=f"{self.party_path}: knowledge")
        variables = sorted({*own, *_names(public), *_names(mine)})
        for file, stated in ((self.federation_path, [public]), (self.party_path, [public, mine])):
            try:
                combine(stated, variables)
            except ConfigError as error:
                raise ConfigError(error.what, where=f"{file}: knowledge", remedy=error.remedy) from error

    def connect(self, wait: float) -> NetworkChannel:
        """Open the channel to everybody, who may take `wait` seconds to appear."""
        agreement = self.agreement
        return self.open_channel(agreement.everybody, agreement.allowed_kinds, "", wait)


def join(place: DiscoveryPlace, progress: Progress, resume: bool = False, wait: float = 300.0) -> CausalGraph:
    """Live one role of a discovery; return the graph, or the part of it that this party may see."""
    if place.is_coordinator:
        return _join_as_coordinator(place, progress, resume, wait)
    return _join_as_party(place, progress, resume, wait)


def _join_as_coordinator(place: DiscoveryPlace, progress: Progress, resume: bool, wait: float) -> CausalGraph:
    agreement = place.agreement
    with place.run_folder(resume, _TASK) as run, place.connect(wait) as channel:
        channel.connect()  # from the first message on, everybody would notice that the coordinator is gone
        channel.observe(run.ledger.record)
        with _naming(place.federation_path):
            return coordinate(channel, agreement, CoordinatorSeat(agreement.knowledge, run, resume, progress))


def _join_as_party(place: DiscoveryPlace, progress: Progress, resume: bool, wait: float) -> CausalGraph:
    agreement, table = place.agreement, place.table()
    place.check_columns(table)  # what is wrong with them is told before the others have come
    place.check_knowledge([str(name) for name in table.columns])
    with place.run_folder(resume, _TASK) as run, place.connect(wait) as channel:
        channel.connect()
        channel.observe(run.ledger.record)
        secret = run.secret
        alignment = align_for_run(
            channel,
            table.index,
            active=place.lead,
            order=agreement.parties,
            policy="drop",
            run=run,
            resume=resume,
            secret=secret,
        )
        columns = place.columns(table.iloc[alignment.rows])
        known, token = place.party.knowledge, _token(run.path)
        seat = PartySeat(place.name, columns, secret, known, alignment.digest, token, run, resume)
        channel.observe(_reporter(progress, channel))
        return take_part(channel, agreement, seat)


def _token(folder: Path) -> bytes:
    """Return what names the alignment among the parties: the active one drew it, and the coordinator never sees it."""
    with np.load(folder / "alignment.npz", allow_pickle=False) as kept:
        return str(json.loads(str(kept["about"]))["token"]).encode()


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Let an error in what all may know name the federation file: a wrong name shows only once all columns are known.

    Everybody is told of it: they have that file too, and in which folder the coordinator keeps it is not for them.
    """
    try:
        yield
    except ConfigError as error:
        if error.where != FIELD:
            raise
        raise ConfigError(error.what, where=f"{file.name}: {FIELD}", remedy=error.remedy, told=True) from error


def _names(known: Knowledge) -> set[str]:
    groups = [*known.required, *known.forbidden, *known.tiers, known.roots, known.sinks]
    return {name for group in groups for name in group}


def _reporter(progress: Progress, channel: Channel) -> Observer:
    """Return what follows the coordinator's looks by this party's own messages; weighing edges is none of them."""
    progress.start(None, "discover")

    def report(_: str, message: Message) -> None:
        if message.kind == "strength" and message.meta["losses"]:
            loss = float(np.mean(message.meta["losses"]))
            progress.advance(message.meta["look"], loss=loss, sent_bytes=channel.sent_bytes)

    return report
