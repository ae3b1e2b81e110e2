"""One peer, whatever connection leads to it now: what goes out, what comes in, what has been confirmed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from colonnade.errors import FrameError, RefusedError, WireError
from colonnade.wire.frame import Frame, decode
from colonnade.wire.header import Limits
from colonnade.wire.inbox import Inbox
from colonnade.wire.loop import wire_loop
from colonnade.wire.message import Message
from colonnade.wire.outbox import Outbox
from colonnade.wire.protocol import (
    CHUNK_BYTES,
    SMALL_CHUNK_BYTES,
    Assembly,
    Confirmation,
    Packet,
    PacketKind,
    Stop,
    pack,
    pack_words,
    read_words,
    unpack,
)

_CONFIRM_BYTES = 4 << 20
_CONFIRM_MESSAGES = 32
_CONFIRM_SECONDS = 0.2
_GOODBYE = Frame((), 0)


class Stream(Protocol):
    """Both ends of a gRPC stream, as far as a link needs them."""

    async def read(self) -> Any:
        """Return the next bytes; anything else is the end of the stream."""

    async def write(self, data: bytes) -> None:
        """Send `data`."""


class Link:
    """One peer's inbox and outbox, and the loop that moves packets between them and the present stream.

    All methods but `send`, `say_goodbye` and `take` belong to the loop's thread.

    Attributes:
        incarnation: the process that the peer's name stands for in this run; empty until it has come.
        left: the peer said goodbye.
        over: this link has failed or is closed; no connection is wanted any more.
        failure: why it has failed.
        problem: what went wrong with the last attempt to connect.
        connected: whether there is a stream now.
        heard_at, spoken_at: when the last packet came from the peer, and went to it.
    """

    def __init__(
        self,
        inbox: Inbox,
        outbox: Outbox,
        limits: Limits,
        heartbeat: float,
        *,
        on_stop: Callable[[Link, Stop], None],
        on_refusal: Callable[[Link, RefusedError], None],
    ) -> None:
        self.peer, self.inbox, self.outbox = inbox.peer, inbox, outbox
        self.incarnation, self.left, self.over = "", False, False
        self.failure: WireError | None = None
        self.problem: Exception | None = None
        self.connected = False
        self._limits, self._heartbeat, self._loop = limits, heartbeat, wire_loop()
        self.heard_at = self.spoken_at = self._loop.time()
        self._chunk_bytes, self._said, self._heard = SMALL_CHUNK_BYTES, 0, 0
        self._under_way: deque[tuple[int, float]] = deque()
        self._on_stop, self._on_refusal = on_stop, on_refusal
        self._expected, self._arrived_bytes = 0, 0
        self._confirmed, self._confirmed_arrived_bytes = Confirmation(), 0
        self._confirm_now = False
        self._timer: asyncio.TimerHandle | None = None
        self._last_words: deque[bytes] = deque()
        self._work = asyncio.Event()
        self._finishing = False
        self._present: asyncio.Task[None] | None = None
        self._assembly = Assembly(limits.frame_bytes)

    def send(self, make: Callable[[int], Frame]) -> None:
        """Hand a frame over; waits only if the peer reads too slowly."""
        if self.outbox.put(make):
            self._loop.call_soon_threadsafe(self._work.set)

    def say_goodbye(self) -> None:
        """Send the last frame of an orderly end."""
        if self.outbox.put(lambda sequence: _GOODBYE, force=True):
            self._loop.call_soon_threadsafe(self._work.set)

    def take(self, kind: str, step: int, patience: float) -> Message:
        """Wait for one message, for so many seconds."""
        message = self.inbox.take(kind, step, patience)
        unconfirmed = self.inbox.read_bytes - self._confirmed.read_bytes
        if (
            unconfirmed >= _CONFIRM_BYTES
            or self.inbox.read_messages - self._confirmed.read_messages >= _CONFIRM_MESSAGES
        ):
            self._loop.call_soon_threadsafe(self._confirm)
        return message

    def beat(self) -> None:
        """Give a sign of life, unless the peer had one just now."""
        if self.connected and self._loop.time() - self.spoken_at > self._heartbeat / 4:
            self._confirm()

    def drop(self) -> None:
        """Give the present stream up, not the peer."""
        if self._present is not None:
            self._present.cancel()

    def stop(self, words: Stop) -> None:
        """Let `words` be the last that the peer hears."""
        self._last_words.append(pack_words(PacketKind.STOP, words))
        self._work.set()

    def fail(self, failure: WireError) -> None:
        """Give the peer up."""
        self.over = True
        self.failure = self.failure or failure
        self.inbox.fail(failure)
        self.outbox.fail(failure)

    async def finish(self, patience: float) -> None:
        """End the present stream when it has taken everything there is, or after `patience` seconds."""
        self.over = self._finishing = True
        self._work.set()
        if self._present is not None:
            await asyncio.wait({self._present}, timeout=patience)
            await _end(self._present)

    async def run(self, stream: Stream, end: Callable[[], Awaitable[None]] | None = None) -> None:
        """Move packets over `stream` until it ends; an earlier stream ends now.

        Args:
            stream: a new connection to the peer.
            end: tells the peer that nothing more is written; its end of the stream is waited for then.
        """
        if self._present is not None:
            await _end(self._present)
        self._present = present = asyncio.ensure_future(self._run(stream, end))
        try:
            await asyncio.wait({present})
        finally:
            await _end(present)
        if not present.cancelled():
            present.result()

    async def _run(self, stream: Stream, end: Callable[[], Awaitable[None]] | None) -> None:
        self.outbox.rewind()
        self._assembly = Assembly(self._limits.frame_bytes)
        self.connected, self._confirm_now, self.problem = True, True, None
        self.heard_at, self._chunk_bytes = self._loop.time(), SMALL_CHUNK_BYTES
        self._said, self._heard = 0, 0
        self._under_way.clear()
        self._work.set()
        reader, writer = asyncio.ensure_future(self._read(stream)), asyncio.ensure_future(self._write(stream))
        try:
            await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done() and writer.exception() is None and end is not None:
                await end()
                await asyncio.wait({reader})
        finally:
            self.connected = False
            await _end(writer)
            await _end(reader)
        for task in (reader, writer):
            if not task.cancelled():
                task.result()

    async def _write(self, stream: Stream) -> None:
        while True:
            packet = self._next_packet()
            if packet is not None:
                self.spoken_at = self._loop.time()
                await stream.write(packet)
                del packet
            elif self._finishing:
                return
            else:
                self._work.clear()
                await self._work.wait()

    def _pace(self, heard: int) -> None:
        """Make chunks as large as the line is quick: a chunk is a sign of life only when all of it has arrived."""
        while self._under_way and self._under_way[0][0] <= heard:
            took = self._loop.time() - self._under_way.popleft()[1]
            if took < self._heartbeat / 16:
                self._chunk_bytes = min(self._chunk_bytes * 2, CHUNK_BYTES)
            elif took > self._heartbeat / 4:
                self._chunk_bytes = max(self._chunk_bytes // 2, SMALL_CHUNK_BYTES)

    def _next_packet(self) -> bytes | None:
        if self._last_words:
            return self._last_words.popleft()
        chunk = self.outbox.next_chunk(self._chunk_bytes)
        if chunk is None and not self._confirm_now:
            return None
        confirmation = self._confirmation()
        self._confirmed, self._confirmed_arrived_bytes = confirmation, self._arrived_bytes
        self._confirm_now = False
        if chunk is None:
            return pack(PacketKind.CONFIRM, confirmation=confirmation)
        frame = chunk.parcel.frame
        self._said += chunk.length
        if chunk.offset + chunk.length < frame.size:
            self._under_way.append((self._said, self._loop.time()))
        return pack(
            PacketKind.CHUNK if frame.size else PacketKind.GOODBYE,
            frame.parts(chunk.offset, chunk.length),
            sequence=chunk.parcel.sequence,
            total=frame.size,
            offset=chunk.offset,
            confirmation=confirmation,
        )

    async def _read(self, stream: Stream) -> None:
        while isinstance(data := await stream.read(), bytes):
            self.heard_at = self._loop.time()
            if not self._hear(data):
                return
            del data  # a megabyte that would be kept until the next one is here

    def _hear(self, data: bytes) -> bool:
        """Take one packet; return False for the peer's last words."""
        try:
            packet = unpack(data)
            if packet.kind is PacketKind.STOP:
                self._on_stop(self, read_words(packet, Stop))
                return False
            self._handle(packet)
        except FrameError as error:
            self._on_refusal(self, RefusedError(f"a frame was refused: {error.what}", where=self.peer))
        except RefusedError as error:
            self._on_refusal(self, error)
        return True

    def _handle(self, packet: Packet) -> None:
        done = packet.confirmation
        if not self.outbox.confirm(done.arrived, done.read_messages, done.read_bytes):
            raise FrameError("it confirms what it was never sent")
        self._pace(done.heard)
        self._heard += len(packet.body)
        if packet.kind is PacketKind.CONFIRM or self.over or packet.sequence < self._expected:
            return
        if packet.sequence > self._expected:
            raise FrameError(f"frame {self._expected} is missing")
        if packet.kind is PacketKind.GOODBYE:
            self.left = True
            self._expected += 1
            self.inbox.leave()
            self.outbox.leave()
            self._confirm()
        elif packet.kind is PacketKind.CHUNK:
            frame = self._assembly.add(packet)
            if frame is None:
                self._confirm()
            else:
                self._accept(*decode(frame, self._limits), size=len(frame))
        else:
            raise FrameError(f"a packet of kind {packet.kind.name} is out of place")

    def _accept(self, message: Message, sequence: int, size: int) -> None:
        if sequence != self._expected:
            raise FrameError(f"the envelope says frame {sequence}, the packet says {self._expected}")
        self.inbox.put(message, size, bounded=True)
        self._expected += 1
        self._arrived_bytes += size
        unconfirmed = self._arrived_bytes - self._confirmed_arrived_bytes
        if unconfirmed >= _CONFIRM_BYTES or self._expected - self._confirmed.arrived >= _CONFIRM_MESSAGES:
            self._confirm()
        elif self._timer is None:
            self._timer = self._loop.call_later(_CONFIRM_SECONDS, self._confirm_late)

    def _confirmation(self) -> Confirmation:
        return Confirmation(self._expected, self.inbox.read_messages, self.inbox.read_bytes, self._heard)

    def _confirm(self) -> None:
        self._confirm_now = True
        self._work.set()

    def _confirm_late(self) -> None:
        self._timer = None
        if self._confirmation() != self._confirmed:
            self._confirm()
        if len(self.inbox) and not self.over:
            self._timer = self._loop.call_later(_CONFIRM_SECONDS, self._confirm_late)


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel `task` and wait until it is gone; what it says is not of interest any more."""
    task.cancel()
    await asyncio.wait({task})
