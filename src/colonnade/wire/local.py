"""Parties in one process: every party a thread, every pair a mailbox."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from colonnade.errors import DeadlineError, PeerLostError
from colonnade.wire.channel import Channel
from colonnade.wire.message import Message

Address = tuple[str, str, str, int]  # receiver, sender, kind, step


class Hub:
    """The shared mailboxes of one in-process federation."""

    def __init__(self, parties: Sequence[str], run: str, patience: float = 600.0) -> None:
        self.parties, self.run, self.patience = tuple(parties), run, patience
        self.boxes: dict[Address, Message] = {}
        self.reasons: dict[str, str] = {}
        self.changed = {party: threading.Condition() for party in parties}

    def channel(self, party: str) -> LocalChannel:
        """Return `party`'s end."""
        return LocalChannel(self, party)


class LocalChannel(Channel):
    """A channel to parties in the same process; tensors are handed over without a copy."""

    def __init__(self, hub: Hub, name: str) -> None:
        super().__init__(name, tuple(p for p in hub.parties if p != name), hub.run)
        self._hub = hub

    def _deliver(self, to: str, message: Message) -> None:
        with self._hub.changed[to]:
            self._hub.boxes[to, message.sender, message.kind, message.step] = message
            self._hub.changed[to].notify_all()

    def _receive(self, frm: str, kind: str, step: int) -> Message:
        hub, address = self._hub, (self.name, frm, kind, step)
        with hub.changed[self.name]:
            arrived = hub.changed[self.name].wait_for(
                lambda: address in hub.boxes or bool(hub.reasons), timeout=hub.patience
            )
            if address in hub.boxes:
                return hub.boxes.pop(address)
        if not arrived:
            raise DeadlineError(f"no '{kind}' for step {step} within {hub.patience:g} s", where=frm)
        culprit, reason = next(iter(hub.reasons.items()))
        raise PeerLostError(culprit, f"stopped: {reason}")

    def abort(self, reason: str) -> None:
        self._hub.reasons.setdefault(self.name, reason)
        for party in self.peers:
            with self._hub.changed[party]:
                self._hub.changed[party].notify_all()

    def close(self) -> None:
        """Nothing to release: what was sent lies in the peers' boxes."""


def local_channels(parties: Sequence[str], run: str = "local") -> dict[str, LocalChannel]:
    """Return one connected channel per party.

    >>> a, b = local_channels(["a", "b"]).values()
    >>> a.send("b", "greeting", 0, meta={"word": "hello"})
    >>> b.recv("a", "greeting", 0).meta["word"]
    'hello'
    """
    hub = Hub(parties, run)
    return {party: hub.channel(party) for party in parties}
