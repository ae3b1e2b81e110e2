"""Joint prediction over a channel: the active party asks, every passive party uploads, the top model answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from colonnade.align.alignment import Alignment, align
from colonnade.data.records import Records
from colonnade.errors import DataError, DeadlineError, PeerLostError, RefusedError, RunError
from colonnade.learn.agreement import Agreement
from colonnade.learn.model import Missing, Prediction, answer
from colonnade.learn.part import ANSWER_BATCH, Part, require_same_model
from colonnade.learn.tensors import to_array, to_tensor
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array, Message

KIND = "answer"


def serve(channel: Channel, agreement: Agreement, part: Part, records: Records) -> int:
    """A passive party's side: upload what it holds of the records asked for; return how many those are."""
    if part.bottom is None:
        raise RunError("this part has no bottom model", where=part.party, remedy="give the run that trained it")
    alignment = _align_pair(channel, agreement.active, part.party, records)
    rows = alignment.rows[alignment.held]
    channel.send(agreement.active, KIND, 0, {"held": alignment.held}, {"model": part.model})
    for step, start in enumerate(range(0, len(rows), ANSWER_BATCH), start=1):
        upload = part.bottom.upload(records.take(rows[start : start + ANSWER_BATCH]))
        channel.send(agreement.active, KIND, step, {"upload": to_array(upload, channel)})
    return len(rows)


def ask(channel: Channel, agreement: Agreement, part: Part, records: Records, missing: Missing) -> Prediction:
    """The active party's side: answer for each of its `records`.

    Under `refuse` a party that does not answer, or that lacks a record, is an error; under `impute` its mean upload
    stands in, and the prediction says for which records.
    """
    if part.top is None:
        raise RunError("this part has no top model", where=part.party, remedy="give the active party's run")
    uploads: dict[str, Tensor] = {}
    imputed = pd.DataFrame(False, index=records.ids, columns=list(part.top.means))
    if part.bottom:
        uploads[part.party] = part.bottom.upload(records)
    for party in agreement.passive:
        try:
            # It may have as much to compute as the ones before it; that it lives shows all the while.
            with channel.patiently():
                held, upload = _hear(channel, agreement, party, part, records)
        except (PeerLostError, DeadlineError) as error:
            if missing == "refuse":
                raise
            held, upload = np.zeros(len(records), bool), None
            channel_note = str(error)
            imputed.attrs[party] = channel_note
        if missing == "refuse" and not held.all():
            lacking = int((~held).sum())
            remedy = "give it the records, or predict with --missing impute"
            if not held.any():
                remedy += "; check that all use the same id column, spelt the same way (case, spaces, leading zeros)"
            raise DataError(f"lacks {lacking} of {len(records)} records", where=party, remedy=remedy)
        imputed[party] = ~held
        if upload is not None:
            uploads[party] = upload
    return answer(part.top, records.ids, uploads, imputed)


def _hear(
    channel: Channel, agreement: Agreement, party: str, part: Part, records: Records
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Tensor | None]:
    """Return which of the active party's records `party` holds, and its uploads in that order; None if it has none."""
    alignment = _align_pair(channel, agreement.active, party, records)
    first = channel.recv(party, KIND, 0)
    require_same_model(part.model, first.meta.get("model"), party)
    held = _as_due(party, "held", first, (len(records),), "bool")
    count = int(held.sum())
    if not count:
        return np.zeros(len(records), bool), None
    if part.top is None or party not in part.top.means:
        remedy = "use the federation file that it was trained with"
        raise RunError("the model here knows no upload of this party", where=party, remedy=remedy)
    arrays = _uploads(channel, party, tuple(part.top.means[party].shape), count)
    upload = to_tensor(np.concatenate(arrays), torch.device("cpu"))
    # The alignment has its own secret order of the records: bring the answers into the order of the question.
    rows = alignment.rows[held]
    mask = np.zeros(len(records), bool)
    mask[rows] = True
    return mask, upload[torch.from_numpy(np.argsort(rows))]


def _uploads(channel: Channel, party: str, shape: tuple[int, ...], count: int) -> list[Array]:
    """Return `party`'s uploads for `count` records, each of this `shape`, in the pieces that they come in."""
    pieces = []
    for step, start in enumerate(range(0, count, ANSWER_BATCH), start=1):
        due = (min(ANSWER_BATCH, count - start), *shape)
        pieces.append(_as_due(party, "upload", channel.recv(party, KIND, step), due))
    return pieces


def _as_due(party: str, name: str, message: Message, shape: tuple[int, ...], dtype: str | None = None) -> Array:
    """Return the array `name` of a message; refuse one that is not what is due."""
    array = message.tensors.get(name)
    if array is None or array.shape != shape or dtype not in (None, str(array.dtype)):
        found = "nothing" if array is None else f"{array.dtype} {array.shape}"
        raise RefusedError(
            f"sent {found} as '{name}' where {dtype or 'an array of shape'} {shape} was due",
            where=party,
            remedy="run the same version of Colonnade at every party",
        )
    return array


def _align_pair(channel: Channel, active: str, party: str, records: Records) -> Alignment:
    return align(channel, records.ids, active=active, order=(active, party), policy="impute", may_lack_all=True)
