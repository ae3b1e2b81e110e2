"""Parties in one process: every party a thread, every pair a mailbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from colonnade.errors import ConfigError, PeerLostError, RefusedError, WireError, nearest
from colonnade.wire.channel import Channel
from colonnade.wire.deadline import Deadline
from colonnade.wire.frame import check, decode_meta, encode_meta
from colonnade.wire.inbox import Inbox
from colonnade.wire.message import Message
from colonnade.wire.rules import Rules


class LocalChannel(Channel):
    """A channel to parties in the same process; tensors are handed over without a copy.

    The rules are those of the network: what works here works between hosts.
    """

    def __init__(
        self,
        name: str,
        peers: tuple[str, ...],
        run: str,
        deadline: Deadline,
        allowed: Mapping[str, frozenset[str] | None],
    ) -> None:
        super().__init__(name, peers, run, deadline)
        self.give_way: Callable[[], None] | None = None
        self._others: dict[str, LocalChannel] = {}
        self._inboxes = {peer: Inbox(Rules(peer, run, allowed.get(peer), self.progress)) for peer in peers}

    @property
    def hands_over(self) -> bool:
        """Whether tensors may stay on their device: nobody but the peer, in this process, looks at them."""
        return not self._observers

    def meet(self, others: Mapping[str, LocalChannel]) -> None:
        """Let this end know the others."""
        self._others = {name: channel for name, channel in others.items() if name != self.name}

    def abort(self, reason: str, culprit: str | None = None) -> None:
        """Stop the run for everybody."""
        self.fail_all(PeerLostError(culprit or self.name, f"stopped: {reason}"))

    def close(self) -> None:
        """Leave in good order; what was sent lies in the peers' inboxes."""
        for other in self._others.values():
            other._inboxes[self.name].leave()

    def _deliver(self, to: str, message: Message) -> None:
        # What can't be sent over a network is refused here too, but for tensors that stay on their device.
        check(replace(message, tensors=message.arrays))
        if message.meta:
            message = replace(message, meta=decode_meta(encode_meta(message.meta)))
        self._check_peer(to)
        self._inboxes[to].check()
        try:
            self._others[to]._inboxes[self.name].put(message)
        except RefusedError as error:
            self.fail_all(error)
            raise

    def _receive(self, frm: str, kind: str, step: int) -> Message:
        self._check_peer(frm)
        inbox = self._inboxes[frm]
        try:
            if self.give_way is None:
                return inbox.take(kind, step, self.patience)
            while (message := inbox.poll(kind, step)) is None:
                self.give_way()
            return message
        except RefusedError as error:
            self.fail_all(error)
            raise

    def _check_peer(self, peer: str) -> None:
        if peer not in self._inboxes:
            raise ConfigError(f"there is no peer '{peer}'", where=self.name, remedy=nearest(peer, self._inboxes))

    def fail_all(self, failure: WireError) -> None:
        """Make every pending and later `recv` of every party raise `failure`."""
        for channel in (self, *self._others.values()):
            for inbox in channel._inboxes.values():
                inbox.fail(failure)


def local_channels(
    parties: Sequence[str],
    run: str = "local",
    *,
    deadline: Deadline = Deadline(),  # noqa: B008
    allowed: Mapping[str, frozenset[str] | None] | None = None,
) -> dict[str, LocalChannel]:
    """Return one connected channel per party.

    Args:
        parties: their names.
        run: name of the run.
        deadline: how long `recv` waits.
        allowed: which kinds each party may send; None as a value, or instead of the mapping, allows all.

    >>> a, b = local_channels(["a", "b"]).values()
    >>> a.send("b", "greeting", 0, meta={"word": "hello"})
    >>> b.recv("a", "greeting", 0).meta["word"]
    'hello'
    """
    channels = {
        party: LocalChannel(party, tuple(p for p in parties if p != party), run, deadline, allowed or {})
        for party in parties
    }
    for channel in channels.values():
        channel.meet(channels)
    return channels
