"""A party's own records, as its file and the federation file say."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from colonnade.data.read import read_records, read_table
from colonnade.data.records import Records
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.files import FederationFile, PartyFile

IMAGE_IDS = "ids"
"""The array with the ids in an archive of images, where the party file names no other."""


@dataclass(frozen=True)
class OwnRecords:
    """What one party brings.

    Attributes:
        records: its records; with the label at the active party.
        split: the active party's word on train, validation and test by id, if the task names a column for it.
    """

    records: Records
    split: pd.Series | None = None


def read_own_records(federation: FederationFile, party: PartyFile) -> OwnRecords:
    """Read a party's records. The label and the split column never count as features."""
    if party.party not in federation.parties:
        remedy = nearest(party.party, federation.parties)
        raise ConfigError(
            f"'{party.party}' is no party of federation '{federation.name}'", where="party", remedy=remedy
        )
    data, active = party.data, party.party == federation.active
    label, split = (federation.label, federation.task.split.column) if active else (None, None)
    if data.kind == "images":
        if split is not None:
            raise DataError("images have no split column", where=str(data.path), remedy="leave task.split.column out")
        return OwnRecords(read_records(data.path, data.id_column or IMAGE_IDS, data.columns, label))
    frame = read_table(data.path, data.id_column)
    columns = feature_columns(federation, party, [str(name) for name in frame.columns])
    if not active and federation.label in columns:
        remedy = "list data.columns without it"
        raise DataError(f"a passive party holds the label '{federation.label}'", where=str(data.path), remedy=remedy)
    records = Records.from_frame(frame, id_column=data.id_column, columns=columns, label=label, where=str(data.path))
    return OwnRecords(records, None if split is None else frame[split].set_axis(records.ids))


def feature_columns(federation: FederationFile, party: PartyFile, columns: list[str]) -> list[str]:
    """Return which of a table's columns the party takes part with."""
    if party.data.columns is not None:
        return list(party.data.columns)
    own = {party.data.id_column}
    if party.party == federation.active:
        own |= {federation.label, federation.task.split.column}
    return [column for column in columns if column not in own]
