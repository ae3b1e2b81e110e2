"""The records an audit works with: none was trained on; some the attacker knows, the others it wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from colonnade.data.records import Records
from colonnade.data.split import TEST, assign_split, id_shares, split_from_column
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.federation import Federation
from colonnade.learn.agreement import Agreement
from colonnade.learn.model import Frames, VerticalModel

FEWEST = 4
"""Two records to know and two to want: with fewer there is no mean to guess and no other record to mistake one for."""

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HeldOut:
    """Records of every audited party: the same people, in the same order, none of them trained on.

    Attributes:
        records: each audited party's own.
        labels: class numbers, or standardised targets of a regression; None where nobody here holds the label.
        own: the active party's own columns of these people, under its name; empty where it has none. An attacker
            inside training uploads them to itself.
    """

    records: Mapping[str, Records]
    labels: Tensor | None = None
    own: Mapping[str, Records] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.records.values())))

    def take(self, rows: Positions) -> HeldOut:
        """Return the people at these rows, in this order."""
        records, own = ({party: held.take(rows) for party, held in part.items()} for part in (self.records, self.own))
        return HeldOut(records, None if self.labels is None else self.labels[torch.from_numpy(rows)], own)

    def with_own(self) -> HeldOut:
        """Return the same people with the active party's columns as if they were a victim's."""
        return HeldOut({**self.records, **self.own}, self.labels)


def held_out_of(model: VerticalModel, federation: Federation | None, records: Frames | None) -> HeldOut:
    """Return what can be attacked: the test records of the federation, or `records` that nobody trained on.

    Args:
        model: its parties whose uploads leave them, and whose part is here, are audited.
        federation: whom the model was trained with; None takes the one that the model remembers.
        records: other records, as `model.predict` takes them; all of them count as held out.
    """
    parties = audited_parties(model)
    if records is not None:
        if federation is not None:
            raise ConfigError("give a federation or records, not both", where="records")
        return _given(model, parties, records)
    known = federation or model.federation
    if known is None:
        remedy = "give federation=, or records= that it was not trained on"
        raise DataError("the model does not carry the records it was tested on", where="audit", remedy=remedy)
    return _tested(model, parties, known)


def audited_parties(model: VerticalModel) -> list[str]:
    """Return the parties whose bottom model is here and whose uploads leave them.

    Those of the active party leave it where labels are shared: then all others are shown them.
    """
    agreed = model.agreement
    uploading = agreed.parties if agreed.task.labels == "shared" else agreed.passive
    parties = [party for party in uploading if party in model.parts and model.parts[party].bottom]
    if not parties:
        remedy = "give a model that holds a passive party's part"
        raise ConfigError("there is no passive party's bottom model here", where="audit", remedy=remedy)
    return parties


def divide(held: HeldOut, share: float, most: int, seed: int) -> tuple[HeldOut, HeldOut]:
    """Return the auxiliary records and the targets: a random `share` and at most `most` of the others.

    A keyed hash of each id decides, so that the order in which records came does not matter.
    """
    if len(held) < FEWEST:
        remedy = f"an audit needs at least {FEWEST}; raise split.test, or give more records"
        raise DataError(f"{len(held)} records were held out", where="audit", remedy=remedy)
    order = np.argsort(id_shares(next(iter(held.records.values())).ids, seed, "audit"), kind="stable")
    known = int(np.clip(round(share * len(held)), 2, len(held) - 2))
    return held.take(order[:known]), held.take(order[known : known + most])


def people_at(federation: Federation, parties: Iterable[str], positions: Positions) -> HeldOut:
    """Return these parties' records of the people at aligned positions, whether they were trained on or not."""
    assert federation.rows is not None
    return HeldOut({party: federation.records[party].take(federation.rows[party][positions]) for party in parties})


def split_of(agreement: Agreement, federation: Federation) -> npt.NDArray[np.uint8]:
    """Return what each aligned position was for in the run of `agreement`: its own rule, applied again."""
    active, settings = agreement.active, agreement.task.split
    if federation.rows is None:
        remedy = "call co.align(federation) first"
        raise DataError("the records are not aligned", where="federation", remedy=remedy)
    rows = federation.rows[active]
    if federation.split is not None:
        return split_from_column(federation.split.iloc[rows], validation=settings.validation, seed=agreement.seed)
    ids = federation.records[active].ids[rows]
    return assign_split(ids, settings.train, settings.validation, settings.test, agreement.seed)


def _tested(model: VerticalModel, parties: list[str], federation: Federation) -> HeldOut:
    for party in model.agreement.parties:
        if party not in federation.records:
            raise ConfigError(f"no party '{party}'", where="federation", remedy=nearest(party, federation.records))
    positions = np.flatnonzero(split_of(model.agreement, federation) == TEST)
    rows = {party: held[positions] for party, held in (federation.rows or {}).items()}
    everybody = np.all([rows[party] >= 0 for party in parties], axis=0)
    chosen = {party: federation.records[party].take(rows[party][everybody]) for party in parties}
    active = model.agreement.active
    owner = federation.records[active].take(rows[active][everybody])
    own = {active: owner} if owner.has_features else {}
    return HeldOut(chosen, _prepared_labels(model, owner.label), own)


def _given(model: VerticalModel, parties: list[str], frame: Frames) -> HeldOut:
    found = {party: model.records_of(party, frame) for party in parties}
    held = {party: records for party, records in found.items() if records is not None}
    if not held:
        remedy = f"give the records of {' or '.join(parties)}"
        raise DataError("no audited party holds any of the records", where="records", remedy=remedy)
    ids: pd.Index[Any] = next(iter(held.values())).ids
    for records in held.values():
        ids = ids[ids.isin(records.ids)]
    chosen = {party: records.take(records.ids.get_indexer(ids)) for party, records in held.items()}
    return HeldOut(chosen, _prepared_labels(model, _label_in(model, frame, ids)))


def _label_in(model: VerticalModel, frame: Frames, ids: pd.Index[Any]) -> pd.Series[Any] | None:
    """Return the label of these records, if the active party's part is here and its records hold it."""
    active = model.parts.get(model.agreement.active)
    owner = frame.get(model.agreement.active) if isinstance(frame, Mapping) else frame
    if active is None or active.top is None or owner is None:
        return None
    label = owner.label if isinstance(owner, Records) else None
    if isinstance(owner, pd.DataFrame) and active.top.label_name in owner:
        label = owner[active.top.label_name]
    return label.loc[ids] if label is not None and ids.isin(label.index).all() else None


def _prepared_labels(model: VerticalModel, label: pd.Series[Any] | None) -> Tensor | None:
    active = model.parts.get(model.agreement.active)
    if label is None or active is None or active.top is None:
        return None
    return torch.from_numpy(active.top.label.transform(label))
