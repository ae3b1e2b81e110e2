"""What two parties' ends say to each other on one stream: packets that carry pieces of frames, and little else.

Every packet confirms what has arrived and what was read, so that confirmations rarely need packets of their own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np

from colonnade.errors import FrameError
from colonnade.wire.message import Array

VERSION = 2
"""Another one wherever parties would misunderstand each other, or draw other batches from the same seed."""
SMALL_CHUNK_BYTES = 1 << 16
CHUNK_BYTES = (1 << 20) + (1 << 16)  # a tensor of 1 MiB and its header are one packet
_PREFIX = struct.Struct("<B7xQQQQQQQ")
_BODY_BYTES = 1 << 16
_WORD_LENGTH = 500  # characters of each text in some words; far below what fits into a body, however it is escaped
PACKET_BYTES = _PREFIX.size + max(CHUNK_BYTES, _BODY_BYTES)


class PacketKind(IntEnum):
    """What a packet is."""

    HELLO = 1
    DENIED = 2
    CHUNK = 3
    GOODBYE = 4
    CONFIRM = 5
    STOP = 6


_KINDS = {int(kind): kind for kind in PacketKind}


class Confirmation(NamedTuple):
    """How far the receiver is.

    Attributes:
        arrived: frames before this one are here.
        read_messages, read_bytes: what its role has read.
        heard: bytes of chunks that came over this stream.
    """

    arrived: int = 0
    read_messages: int = 0
    read_bytes: int = 0
    heard: int = 0


class Packet(NamedTuple):
    """One packet; `sequence`, `total` and `offset` say where the body belongs, in a chunk."""

    kind: PacketKind
    sequence: int
    total: int
    offset: int
    confirmation: Confirmation
    body: memoryview


@dataclass(frozen=True)
class Hello:
    """The first words of both ends.

    Attributes:
        incarnation: a random name of this process; another one under the same party name is a restart.
        knows: the incarnation of the other end that the speaker talked to before, or empty.
    """

    name: str
    run: str
    incarnation: str
    knows: str
    version: int = VERSION


@dataclass(frozen=True)
class Denied:
    """Why the listener does not talk: `authentication`, `refused`, or `stale` (one of the two was restarted)."""

    code: str
    reason: str


@dataclass(frozen=True)
class Stop:
    """The last words of a party that gives up: whose fault it is, and whether the other's message was refused."""

    culprit: str
    reason: str
    refused: bool


Words = TypeVar("Words", Hello, Denied, Stop)


def pack(
    kind: PacketKind,
    body: Iterable[memoryview | bytes] = (),
    *,
    sequence: int = 0,
    total: int = 0,
    offset: int = 0,
    confirmation: Confirmation = Confirmation(),  # noqa: B008
) -> bytes:
    """Return the bytes of one packet."""
    head = _PREFIX.pack(kind, sequence, total, offset, *confirmation)
    return b"".join((head, *body))


def pack_words(kind: PacketKind, words: Hello | Denied | Stop) -> bytes:
    """Return the packet of some `words`, long texts cut."""
    # Whoever stops may quote what somebody else sent: words that can't be read would look like this party's own fault.
    cut = {name: value[:_WORD_LENGTH] if isinstance(value, str) else value for name, value in asdict(words).items()}
    return pack(kind, [json.dumps(cut).encode()])


def unpack(data: bytes) -> Packet:
    """Read one packet.

    Raises:
        FrameError: the bytes are no packet.
    """
    if not _PREFIX.size <= len(data) <= PACKET_BYTES:
        raise FrameError(f"{len(data)} bytes are no packet")
    number, sequence, total, offset, arrived, read_messages, read_bytes, heard = _PREFIX.unpack_from(data)
    kind = _KINDS.get(number)
    if kind is None:
        raise FrameError(f"packet kind {number} is unknown")
    done = Confirmation(arrived, read_messages, read_bytes, heard)
    return Packet(kind, sequence, total, offset, done, memoryview(data)[_PREFIX.size :])


def read_words(packet: Packet, expected: type[Words]) -> Words:
    """Return the words in `packet`.

    Raises:
        FrameError: they are not what `expected` has.
    """
    try:
        found: dict[str, Any] = json.loads(bytes(packet.body[: _BODY_BYTES + 1]))
        types: dict[str, str] = expected.__annotations__
        fits = set(found) == set(types) and all(type(found[name]).__name__ == types[name] for name in types)
    except (ValueError, RecursionError, TypeError):
        fits = False
    if not fits:
        raise FrameError(f"the peer's {expected.__name__.lower()} cannot be read")
    return expected(**{name: _shown(value) for name, value in found.items()})


def _shown(value: Any) -> Any:
    """Make a peer's text safe to print."""
    if not isinstance(value, str):
        return value
    return "".join(letter if letter.isprintable() else "?" for letter in value[:_WORD_LENGTH])


class Assembly:
    """Puts the chunks of one frame together, in order."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer: Array | None = None
        self._filled = 0

    def add(self, packet: Packet) -> memoryview | None:
        """Return the frame when `packet` completes it.

        Raises:
            FrameError: the chunk is oversize, or not the next one.
        """
        if self._buffer is None:
            if packet.total > self._limit:
                raise FrameError(f"oversize: a frame of {packet.total} bytes is larger than {self._limit}")
            if packet.offset == 0 and packet.total == len(packet.body):
                return packet.body
            # The pages are taken from the system only as they are filled, so a peer can't take memory by a big number.
            self._buffer, self._filled = np.empty(packet.total, dtype=np.uint8), 0
        buffer, end = self._buffer, packet.offset + len(packet.body)
        fits = packet.offset == self._filled < end <= len(buffer) == packet.total
        if not fits:
            raise FrameError("a chunk is not where it belongs")
        buffer[packet.offset : end] = packet.body
        self._filled = end
        if end < len(buffer):
            return None
        self._buffer = None
        return buffer.data
