"""Aligning: the same records in the same order at every party, under one of two policies."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.align.agreement import agree, compare_digests
from colonnade.align.cipher import Cipher
from colonnade.align.circle import Mask, find_common
from colonnade.align.courier import POSITIONS, Courier, Due
from colonnade.align.ids import Ids, Rows, check_ids
from colonnade.errors import AlignmentError, ConfigError, nearest
from colonnade.wire.channel import Channel

Policy = Literal["drop", "impute"]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Where this party holds each aligned record.

    Attributes:
        rows: for each position in the common order, this party's own row, or -1 where it lacks the record.
        digest: the same at every party; two alignments with equal digests have the same records in the same order.
        policy: `drop` (records that all parties hold) or `impute` (all records of the active party).
        anew: made by a run now, as its first one or because not all parties remembered the one before.
    """

    rows: Rows
    digest: str
    policy: Policy
    anew: bool = False

    @property
    def records(self) -> int:
        """Number of aligned records."""
        return len(self.rows)

    @property
    def held(self) -> Mask:
        """For each position, whether this party holds the record."""
        return self.rows >= 0

    def __repr__(self) -> str:
        held = int(self.held.sum())
        return (
            f"Alignment({self.records:,} records, {held:,} held here, policy {self.policy}, digest {self.digest[:12]}…)"
        )


def align(
    channel: Channel,
    ids: pd.Index | pd.Series | npt.NDArray[Any] | Sequence[Any],
    *,
    active: str,
    order: Sequence[str],
    policy: Policy = "drop",
    step: int = 0,
    secret: bytes | None = None,
    may_lack_all: bool = False,
) -> Alignment:
    """Align this party's records with those of its peers, without showing the others.

    All parties call this at the same time. Under `drop` the records are those that all parties hold, in ascending
    order of their ids: the same ids always give the same alignment. Under `impute` they are those of the active
    party, in an order that tells the others nothing about the ids they lack.

    Args:
        channel: this party's line to its peers.
        ids: this party's ids, one per row: all integers or all strings, none missing, none twice.
        active: the active party.
        order: all parties in the order agreed; the first one compares the encrypted lists.
        policy: what happens to records that a party lacks.
        step: step of the first messages; a later alignment on the same channel needs a greater one than any used.
        secret: bytes that only the active party knows; under `impute` the same secret gives the same order again.
            Drawn afresh if not given.
        may_lack_all: under `impute` a party may hold none of the active party's records; usually that is a mistake.

    Raises:
        DataError: this party's ids cannot be used.
        AlignmentError: the parties disagree, or have no record in common.
    """
    _check_arguments(channel, active, order, policy)
    own = check_ids(ids, channel.name)
    courier = Courier(channel, step)
    # Somebody may start hours later, and millions of ids take a party longer than any answer should.
    with channel.patiently():
        sizes = agree(courier, policy=policy, active=active, order=order, kind=own.kind, records=len(own))
        if policy == "drop":
            return _align_common(courier, own, order, sizes)
        if channel.name == active:
            peers = [party for party in order if party != active]
            own_secret = secret or secrets.token_bytes(32)
            return _offer_records(courier, own, peers, sizes, own_secret, may_lack_all=may_lack_all)
        return _take_records(courier, own, active, sizes, may_lack_all=may_lack_all)


def _align_common(courier: Courier, own: Ids, order: Sequence[str], sizes: dict[str, int]) -> Alignment:
    cipher = Cipher()
    rows = own.among(find_common(courier, order, sizes, cipher, cipher.encrypt(own.spelt)))
    digest = own.digest(rows)
    compare_digests(courier, [party for party in order if party != courier.name], digest)
    _refuse_empty(rows, order)
    return Alignment(_sealed(rows), digest, "drop")


def _offer_records(
    courier: Courier, own: Ids, peers: Sequence[str], sizes: dict[str, int], secret: bytes, *, may_lack_all: bool
) -> Alignment:
    """The active party's side of `impute`: tell each peer at which positions its records stand."""
    cipher = Cipher()
    points = cipher.encrypt(own.spelt)
    rows = _secret_order(own, secret)
    digest = hmac.new(secret, own.joined(rows), hashlib.sha256).hexdigest()
    position_of_row = np.empty_like(rows)
    position_of_row[rows] = np.arange(len(rows))
    for peer in peers:
        common = own.among(find_common(courier, (courier.name, peer), sizes, cipher, points))
        compare_digests(courier, [peer], own.digest(common))
        if not may_lack_all:
            _refuse_empty(common, (courier.name, peer))
        courier.tell(peer, POSITIONS, {"digest": digest})
        courier.send(peer, POSITIONS, position_of_row[common])
    return Alignment(_sealed(rows), digest, "impute")


def _take_records(courier: Courier, own: Ids, active: str, sizes: dict[str, int], *, may_lack_all: bool) -> Alignment:
    """A passive party's side of `impute`."""
    cipher = Cipher()
    common = own.among(find_common(courier, (active, courier.name), sizes, cipher, cipher.encrypt(own.spelt)))
    compare_digests(courier, [active], own.digest(common))
    if not may_lack_all:
        _refuse_empty(common, (active, courier.name))
    digest = courier.hear(active, POSITIONS).get("digest")
    positions = courier.receive(active, POSITIONS, Due(np.dtype(np.int64), common.shape))
    outside = bool(((positions < 0) | (positions >= sizes[active])).any())
    if outside or len(np.unique(positions)) != len(positions) or not isinstance(digest, str):
        raise AlignmentError(
            "sent positions that cannot be", where=active, remedy="run the same version of Colonnade at every party"
        )
    rows = np.full(sizes[active], -1, dtype=np.int64)
    rows[positions] = common
    return Alignment(_sealed(rows), digest, "impute")


def _secret_order(own: Ids, secret: bytes) -> Rows:
    """Order rows by a keyed hash: gaps between common ids in a natural order would betray the ids in between."""
    keys = [hmac.digest(secret, spelt, "sha256") for spelt in own.spelt]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _sealed(rows: Rows) -> Rows:
    rows.setflags(write=False)
    return rows


def _refuse_empty(rows: Rows, parties: Sequence[str]) -> None:
    if not len(rows):
        raise AlignmentError(
            f"{', '.join(parties)} have no record in common",
            remedy="check that all use the same id column, spelt the same way (case, spaces, leading zeros)",
        )


def _check_arguments(channel: Channel, active: str, order: Sequence[str], policy: str) -> None:
    if policy not in get_args(Policy):
        raise ConfigError(f"unknown policy '{policy}'", where="policy", remedy=nearest(policy, get_args(Policy)))
    if len(order) < 2 or len(set(order)) != len(order):
        raise ConfigError("alignment needs at least two parties, each once", where="order")
    if active not in order:
        raise ConfigError(f"'{active}' is no party", where="active", remedy=nearest(active, order))
    known = {channel.name, *channel.peers}
    if channel.name not in order or not known.issuperset(order):
        strangers = sorted(set(order) - known) or [channel.name]
        raise ConfigError(
            f"'{strangers[0]}' is not both in the order and on the channel of '{channel.name}'", where="order"
        )
