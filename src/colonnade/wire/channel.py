"""How a role talks to its peers: blocking `send` and `recv`, whatever lies beneath."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from colonnade.errors import FrameError, PeerLostError
from colonnade.wire.deadline import Deadline
from colonnade.wire.frame import check
from colonnade.wire.message import Array, Message
from colonnade.wire.reason import reason_to_tell
from colonnade.wire.rules import Progress

Observer = Callable[[str, Message], None]
"""Called with (receiver, message) before a message is handed to the transport: the ledger listens here."""


class Channel(ABC):
    """One party's line to all its peers. Role code sees nothing else of the network.

    Attributes:
        name: the party that holds this end.
        peers: the other parties.
        run: name of the run; every message carries it.
        sent_bytes, received_bytes: tensor payload so far.
        sent_messages: how many messages have been sent so far.
        progress: the highest step that this party has sent or asked for.
        patient: whether we wait as long as a peer may learn, and not as long as it may take to answer.
    """

    def __init__(self, name: str, peers: tuple[str, ...], run: str, deadline: Deadline) -> None:
        self.name, self.peers, self.run, self.deadline = name, peers, run, deadline
        self.patient = False
        self.sent_bytes = 0
        self.sent_messages = 0
        self.received_bytes = 0
        self.progress = Progress()
        self._observers: list[Observer] = []

    @property
    def patience(self) -> float:
        """How many seconds `recv`, and `send` for a peer that reads too slowly, wait now."""
        return self.deadline.learn if self.patient else self.deadline.reply

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait as long as a living peer may take, while this lasts; one that has died is noticed all the same."""
        before, self.patient = self.patient, True
        try:
            yield
        finally:
            self.patient = before

    @property
    def hands_over(self) -> bool:
        """Whether a tensor may be given as it is, on its device, instead of as an array."""
        return False

    def observe(self, observer: Observer) -> None:
        """Let `observer` see everything from now on before it leaves this party; where it raises, nothing leaves."""
        self._observers.append(observer)

    def send(
        self,
        to: str,
        kind: str,
        step: int,
        tensors: Mapping[str, Array] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Send one message; returns when the transport has taken it, not when the peer has read it.

        Within a kind, steps to one peer must grow. The tensors are not copied: do not change them afterwards.
        """
        step = _whole(step, kind)
        self.progress.reach(step)
        message = Message(self.run, self.name, kind, step, tensors or {}, meta or {})
        if self._observers:
            check(message)  # what cannot be sent is no part of the ledger
        # First: a kill or a full disk in between leaves a line too many in the ledger, and never an upload without one.
        for observer in self._observers:
            observer(to, message)
        self._deliver(to, message)
        self.sent_bytes += message.payload_bytes
        self.sent_messages += 1

    def recv(self, frm: str, kind: str, step: int) -> Message:
        """Wait for the message of `kind` and `step` from `frm`; raise a `WireError` if it can't come any more.

        The tensors may be read-only: they lie in the buffer that came over the wire.
        """
        step = _whole(step, kind)
        self.progress.reach(step)
        message = self._receive(frm, kind, step)
        self.received_bytes += message.payload_bytes
        return message

    @abstractmethod
    def _deliver(self, to: str, message: Message) -> None:
        """Hand `message` to the transport."""

    @abstractmethod
    def _receive(self, frm: str, kind: str, step: int) -> Message:
        """Wait for one message."""

    @abstractmethod
    def abort(self, reason: str, culprit: str | None = None) -> None:
        """Tell all peers that this party stops, and why; their pending `recv` raise `PeerLostError`.

        Args:
            reason: one sentence.
            culprit: the party that was the first to fail, if it is not this one; the peers' errors name it.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave in good order. Messages already sent still arrive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, PeerLostError):
            self.abort(error.what, culprit=error.peer)
        elif error is not None:
            self.abort(reason_to_tell(error, self.peers))
        self.close()


def _whole(step: int, kind: str) -> int:
    try:
        return operator.index(step)
    except TypeError:
        raise FrameError(f"step must be a whole number, not {step!r}", where=kind) from None
