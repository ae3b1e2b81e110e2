"""Messages to one peer that it has not confirmed yet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from colonnade.errors import DeadlineError, WireError
from colonnade.wire.frame import Frame
from colonnade.wire.rules import WINDOW, Window


class Parcel(NamedTuple):
    """One frame under way."""

    sequence: int
    frame: Frame


class Chunk(NamedTuple):
    """A piece of a parcel, as it goes into one transport message."""

    parcel: Parcel
    offset: int
    length: int


class Outbox:
    """Frames for one peer, kept until it has confirmed them, so that a cut connection loses nothing.

    Only references to the tensors are kept, no copies. The peer confirms twice: when a frame has arrived (then it is
    forgotten here) and when its role has read it (then there is room for more in the peer's memory).
    """

    def __init__(self, peer: str, patience: Callable[[], float], window: Window = WINDOW) -> None:
        self.peer, self._patience, self._window = peer, patience, window
        self._parcels: deque[Parcel] = deque()
        self._next_sequence = 0
        self._cursor, self._offset = 0, 0  # sequence and offset of the next byte to send
        self._sent_bytes, self._read_messages, self._read_bytes = 0, 0, 0
        self._failure: WireError | None = None
        self._closed = False
        self._order = threading.Lock()
        self._changed = threading.Condition()

    def put(self, make: Callable[[int], Frame], *, force: bool = False) -> bool:
        """Take the frame that `make` returns for a sequence number.

        Waits until the peer has room for it, unless `force`.

        Returns:
            False if the peer has left in good order: then nobody will read the frame, and it is dropped.
        """
        with self._order:
            frame = make(self._next_sequence)
            with self._changed:
                self._wait_for_room(frame.size, force)
                if self._closed:
                    return False
                self._parcels.append(Parcel(self._next_sequence, frame))
                self._next_sequence += 1
                self._sent_bytes += frame.size
        return True

    def next_chunk(self, size: int) -> Chunk | None:
        """Return the next piece to send and move on."""
        with self._changed:
            if self._cursor == self._next_sequence:
                return None
            parcel = self._parcels[self._cursor - self._parcels[0].sequence]
            chunk = Chunk(parcel, self._offset, min(size, parcel.frame.size - self._offset))
            self._offset += chunk.length
            if self._offset == parcel.frame.size:
                self._cursor, self._offset = self._cursor + 1, 0
            return chunk

    def confirm(self, arrived: int, read_messages: int, read_bytes: int) -> bool:
        """Forget frames before `arrived`, and take note of what was read.

        Returns:
            False if the peer confirms what it was never sent.
        """
        with self._changed:
            if arrived > self._next_sequence or read_messages > arrived or read_bytes > self._sent_bytes:
                return False
            while self._parcels and self._parcels[0].sequence < arrived:
                self._parcels.popleft()
            if self._cursor < arrived:
                self._cursor, self._offset = arrived, 0
            self._read_messages = max(self._read_messages, read_messages)
            self._read_bytes = max(self._read_bytes, read_bytes)
            self._changed.notify_all()
            return True

    def rewind(self) -> None:
        """Start again with the first frame that was not confirmed: the connection is a new one."""
        with self._changed:
            self._cursor = self._parcels[0].sequence if self._parcels else self._next_sequence
            self._offset = 0

    def flush(self, patience: float) -> None:
        """Wait until everything has arrived, the peer is gone, or `patience` seconds have passed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._parcels or self._closed or self._failure is not None, patience)

    def fail(self, failure: WireError) -> None:
        """Make every pending and later `put` raise; the first failure counts."""
        with self._changed:
            self._failure = self._failure or failure
            self._forget()
            self._changed.notify_all()

    def leave(self) -> None:
        """Take note that the peer said goodbye and reads nothing any more."""
        with self._changed:
            self._closed = True
            self._forget()
            self._changed.notify_all()

    def _forget(self) -> None:
        self._parcels.clear()
        self._cursor, self._offset = self._next_sequence, 0

    def _has_room(self, size: int) -> bool:
        unread = self._next_sequence - self._read_messages
        unread_bytes = self._sent_bytes - self._read_bytes
        return unread == 0 or (unread < self._window.messages and unread_bytes + size <= self._window.bytes)

    def _wait_for_room(self, size: int, force: bool) -> None:
        deadline: float | None = None
        while self._failure is None and not (force or self._closed or self._has_room(size)):
            patience = self._patience()
            deadline = deadline or time.monotonic() + patience
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                what = f"does not read what it is sent, waited {patience:g} s"
                raise DeadlineError(what, where=self.peer)
            self._changed.wait(remaining)
        if self._failure is not None:
            raise self._failure.with_traceback(None)
