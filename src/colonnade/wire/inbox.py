"""Messages from one peer that wait to be read."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from colonnade.errors import DeadlineError, PeerLostError, RefusedError, WireError
from colonnade.wire.frame import Written
from colonnade.wire.message import Message
from colonnade.wire.rules import Rules, refusal


class Inbox:
    """One peer's messages, from the thread that receives them to the thread that asks for them.

    Attributes:
        read_messages, read_bytes: what was taken out so far; the sender is told, so that it knows how far it may go.
    """

    def __init__(self, rules: Rules) -> None:
        self.peer, self._rules = rules.peer, rules
        self.read_messages, self.read_bytes = 0, 0
        self._waiting: dict[tuple[str, int], tuple[Message, int]] = {}
        self._waiting_bytes = 0
        self._failure: WireError | None = None
        self._peer_left = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: Message, size: int = 0, *, bounded: bool = False) -> None:
        """Judge `message` and let it wait; a repetition is dropped.

        Raises:
            RefusedError: the peer may not say this; where `bounded`, also: it did not wait for its turn.
        """
        with self._changed:
            if not self._rules.is_new(message):
                # The sender counted it among what we have not read; it never will be.
                self._count_read(size)
                return
            window = self._rules.window
            if bounded and self._waiting:
                full = len(self._waiting) >= window.messages or self._waiting_bytes + size > window.bytes
                if full:
                    raise refusal(self.peer, message, "it was sent before earlier messages were read")
            self._waiting[message.kind, message.step] = message, size
            self._waiting_bytes += size
            self._changed.notify_all()

    def take(self, kind: str, step: int, patience: float) -> Message:
        """Wait for one message, for so many seconds.

        Raises:
            WireError: it can't come any more, or did not come in time.
        """
        deadline = time.monotonic() + patience
        with self._changed:
            while (message := self._find(kind, step)) is None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    what = f"no '{kind}' for step {step} within {patience:g} s"
                    raise DeadlineError(what, where=self.peer, remedy="see its log; it may be overloaded")
                self._changed.wait(remaining)
            return message

    def poll(self, kind: str, step: int) -> Message | None:
        """Return one message if it is there already.

        Raises:
            WireError: it can't come any more.
        """
        with self._changed:
            return self._find(kind, step)

    def fail(self, failure: WireError) -> None:
        """Make every pending and later `take` raise; the first failure counts."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def check(self) -> None:
        """Raise the failure, if there is one."""
        with self._changed:
            if self._failure is not None:
                raise self._failure.with_traceback(None)

    def leave(self) -> None:
        """Take note that the peer said goodbye: what is waiting can be read, nothing else will come."""
        with self._changed:
            self._peer_left = True
            self._changed.notify_all()

    def _find(self, kind: str, step: int) -> Message | None:
        if isinstance(self._failure, RefusedError):
            raise self._failure.with_traceback(None)
        if (kind, step) in self._waiting:
            message, size = self._waiting.pop((kind, step))
            self._waiting_bytes -= size
            self._count_read(size)
            return _taken(message)
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._rules.is_past(kind, step):
            what = f"'{kind}' for step {step} can't come any more: it sent a future step, or we took it already"
            raise RefusedError(what, where=self.peer)
        if self._peer_left:
            raise PeerLostError(self.peer, f"left the run without '{kind}' for step {step}")
        return None

    def _count_read(self, size: int) -> None:
        self.read_messages += 1
        self.read_bytes += size


class Told(dict[str, Any]):
    """What a message holds by name; that it lacks what is asked for is its sender's fault, and said to be."""

    def __init__(self, held: Mapping[str, Any], message: Message) -> None:
        super().__init__(held)
        self._sender, self._kind = message.sender, message.kind

    def __missing__(self, name: str) -> Any:
        remedy = "run the same version of Colonnade at every party"
        raise RefusedError(f"sent '{self._kind}' without '{name}'", where=self._sender, remedy=remedy)


def _taken(message: Message) -> Message:
    meta = message.meta.read() if isinstance(message.meta, Written) else message.meta
    return replace(message, meta=Told(meta, message), tensors=Told(message.tensors, message))
