"""How alignment uses a channel: counted messages, long arrays in bounded pieces, nothing accepted unmeasured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from colonnade.errors import AlignmentError
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array

HELLO, LIST, COMMON, POSITIONS, DIGEST = "align.hello", "align.list", "align.common", "align.positions", "align.digest"
ALIGN_KINDS = (HELLO, LIST, COMMON, POSITIONS, DIGEST)
"""Every kind of message that alignment sends, for a channel's list of allowed kinds."""

PIECE_BYTES = 1 << 20
"""Payload of one message at most."""


class Due(NamedTuple):
    """What a peer has to send next."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Courier:
    """Carries one party's messages of one alignment.

    Steps grow by one with each message of a kind on a link, starting at `first_step`; both ends count, so no
    message needs to say which piece it is.
    """

    def __init__(self, channel: Channel, first_step: int) -> None:
        self.name, self._channel, self._first_step = channel.name, channel, first_step
        self._sent: Counter[tuple[str, str]] = Counter()
        self._received: Counter[tuple[str, str]] = Counter()

    def tell(self, to: str, kind: str, meta: Mapping[str, Any]) -> None:
        """Send a few words."""
        self._send(to, kind, None, meta)

    def hear(self, frm: str, kind: str) -> Mapping[str, Any]:
        """Wait for a few words."""
        return self._channel.recv(frm, kind, self._next(self._received, frm, kind)).meta

    def send(self, to: str, kind: str, array: Array) -> None:
        """Send an array in pieces."""
        for piece in _pieces(array.shape, array.dtype):
            self._send(to, kind, {"piece": array[piece]})

    def receive(self, frm: str, kind: str, due: Due) -> Array:
        """Wait for an array of exactly the type and shape that is due."""
        pieces = [self._receive_piece(frm, kind, due, piece) for piece in _pieces(due.shape, due.dtype)]
        return np.concatenate(pieces) if pieces else np.empty(due.shape, due.dtype)

    def exchange(self, kind: str, to: str, array: Array, frm: str, due: Due) -> Array:
        """Send one array and receive another, piece by piece in turn, so that a circle never waits on full buffers."""
        arrived = []
        for going, coming in zip_longest(_pieces(array.shape, array.dtype), _pieces(due.shape, due.dtype)):
            if going is not None:
                self._send(to, kind, {"piece": array[going]})
            if coming is not None:
                arrived.append(self._receive_piece(frm, kind, due, coming))
        return np.concatenate(arrived)

    def _send(
        self, to: str, kind: str, tensors: Mapping[str, Array] | None, meta: Mapping[str, Any] | None = None
    ) -> None:
        self._channel.send(to, kind, self._next(self._sent, to, kind), tensors, meta)

    def _receive_piece(self, frm: str, kind: str, due: Due, piece: slice) -> Array:
        array = self._channel.recv(frm, kind, self._next(self._received, frm, kind)).tensors.get("piece")
        shape = (piece.stop - piece.start, *due.shape[1:])
        if array is None or array.dtype != due.dtype or array.shape != shape:
            found = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise AlignmentError(
                f"sent {found} as '{kind}' where {due.dtype} {shape} was due",
                where=frm,
                remedy="run the same version of Colonnade at every party",
            )
        return array

    def _next(self, counter: Counter[tuple[str, str]], peer: str, kind: str) -> int:
        counter[peer, kind] += 1
        return self._first_step + counter[peer, kind] - 1


def _pieces(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[slice]:
    row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    rows = max(1, PIECE_BYTES // row_bytes)
    return (slice(at, min(at + rows, shape[0])) for at in range(0, shape[0], rows))
