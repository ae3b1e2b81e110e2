"""Parties on hosts: one gRPC stream under mutual TLS for each pair."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from colonnade.errors import (
    AuthenticationError,
    ConfigError,
    PeerLostError,
    RefusedError,
    WireError,
    nearest,
)
from colonnade.wire.channel import Channel
from colonnade.wire.connect import Dialler, Identity, Listener, Verdicts
from colonnade.wire.deadline import Deadline
from colonnade.wire.frame import encode
from colonnade.wire.header import LIMITS, Limits
from colonnade.wire.inbox import Inbox
from colonnade.wire.link import Link
from colonnade.wire.loop import run_on_loop, wire_loop
from colonnade.wire.message import Message
from colonnade.wire.outbox import Outbox
from colonnade.wire.preflight import Peer, describe, split_address, tls_context
from colonnade.wire.protocol import Stop
from colonnade.wire.rules import WINDOW, Rules
from colonnade.wire.tls import Credentials

_SILENCE = 1.5  # heartbeats without a sign of life until a peer is lost; after half of it another connection is tried


class NetworkChannel(Channel):
    """A party's line to parties in other processes or on other hosts.

    Of two parties the one later in `order` dials, so the last one needs no open port. The constructor returns when this
    end listens; peers may start later. What is sent meanwhile waits for them.

    Args:
        name: this party.
        peers: the others, each with its address and, if known, its fingerprint.
        run: name of the run; the same at every party.
        credentials: this party's TLS material.
        order: all parties, in the same order everywhere.
        listen: `host:port` to listen at; None for a party that nobody dials.
        allowed: which kinds each peer may send; None as a value, or instead of the mapping, allows all.
        deadline: how long to wait for anything.
        limits: what a frame may be at most.

    Attributes:
        port: where this party listens, or None.
    """

    def __init__(
        self,
        name: str,
        peers: Mapping[str, Peer],
        run: str,
        credentials: Credentials,
        *,
        order: Sequence[str],
        listen: str | None = None,
        allowed: Mapping[str, frozenset[str] | None] | None = None,
        deadline: Deadline = Deadline(),  # noqa: B008
        limits: Limits = LIMITS,
    ) -> None:
        super().__init__(name, tuple(peers), run, deadline)
        _check(name, peers, order, listen, allowed)
        self.limits = limits
        self.port: int | None = None
        self._closed = False
        self._loss: PeerLostError | None = None
        self._peers = dict(peers)
        self._listener: Listener | None = None
        self._identity = Identity(name, run, secrets.token_hex(8), credentials.load(name), deadline)
        self._links = {peer: self._link(peer, allowed) for peer in peers}
        self._tasks: list[asyncio.Task[None]] = []
        self._dials = [peer for peer in peers if order.index(peer) < order.index(name)]
        run_on_loop(self._open(listen, credentials), deadline.connect)

    def connect(self) -> None:
        """Wait until every peer has come, or raise why one has not."""
        run_on_loop(self._come(), self.deadline.connect + 2 * self.deadline.heartbeat)

    def abort(self, reason: str, culprit: str | None = None) -> None:
        """Tell all peers that this party stops; they learn which party was the first to fail."""
        loss = self._loss
        if culprit is None and loss is not None and loss.what in reason:
            culprit, reason = loss.peer, loss.what
        words = Stop(culprit or self.name, reason, refused=False)
        self._on_loop(self._stop(words), 2 * self.deadline.heartbeat)

    def close(self) -> None:
        """Leave in good order: what was sent still arrives, then the peers hear a goodbye."""
        if self._closed:
            return
        self._closed = True
        alive = [link for link in self._links.values() if not (link.over or link.left)]
        for link in alive:
            with suppress(WireError):
                link.say_goodbye()
        end = time.monotonic() + self.deadline.reply
        for link in alive:
            link.outbox.flush(end - time.monotonic())
        self._on_loop(self._shut(), 3 * self.deadline.heartbeat)

    def _deliver(self, to: str, message: Message) -> None:
        self._at(to).send(lambda sequence: encode(message, sequence, self.limits))

    def _receive(self, frm: str, kind: str, step: int) -> Message:
        link = self._at(frm)
        try:
            return link.take(kind, step, self.patience)
        except RefusedError as error:
            if link.failure is None:
                wire_loop().call_soon_threadsafe(self._refuse, link, error)
            raise

    def _at(self, peer: str) -> Link:
        if peer not in self._links:
            raise ConfigError(f"there is no peer '{peer}'", where=self.name, remedy=nearest(peer, self._links))
        return self._links[peer]

    def _link(self, peer: str, allowed: Mapping[str, frozenset[str] | None] | None) -> Link:
        rules = Rules(peer, self.run, allowed[peer] if allowed is not None else None, self.progress, WINDOW)
        inbox, outbox = Inbox(rules), Outbox(peer, lambda: self.patience, WINDOW)
        heartbeat = self.deadline.heartbeat
        return Link(inbox, outbox, self.limits, heartbeat, on_stop=self._stopped_by, on_refusal=self._refuse)

    async def _open(self, listen: str | None, credentials: Credentials) -> None:
        verdicts = Verdicts(self._fail, self._refuse)
        if listen is not None:
            callers = {peer: link for peer, link in self._links.items() if peer not in self._dials}
            self._listener = Listener(self._identity, callers, self._peers, verdicts)
            self.port = await self._listener.open(listen)
        context = tls_context(credentials)
        for peer in self._dials:
            dialler = Dialler(self._identity, self._links[peer], self._peers[peer], context, verdicts)
            self._tasks.append(asyncio.ensure_future(dialler.keep()))
        self._tasks += [asyncio.ensure_future(self._watch(link)) for link in self._links.values()]

    async def _come(self) -> None:
        while any(not link.incarnation for link in self._links.values()):
            for link in self._links.values():
                if link.failure is not None:
                    raise link.failure.with_traceback(None)
            await asyncio.sleep(0.01)

    async def _watch(self, link: Link) -> None:
        """Give signs of life; give a connection up that gives none, and a peer that does not come, or come back."""
        heartbeat, loop = self.deadline.heartbeat, wire_loop()
        pause, previous = heartbeat / 8, loop.time()
        while True:
            await asyncio.sleep(pause)
            # If it was this process that slept (another thread held the interpreter), that is not the peer's silence.
            link.heard_at += max(loop.time() - previous - 2 * pause, 0)
            previous = loop.time()
            link.beat()
            silence = previous - link.heard_at
            if link.over or link.left:
                continue
            if silence > (_SILENCE * heartbeat if link.incarnation else self.deadline.connect):
                self._fail(link, self._absence(link))
            elif link.connected and silence > _SILENCE * heartbeat / 2:
                link.drop()

    def _absence(self, link: Link) -> WireError:
        problem = f": {describe(link.problem)}" if link.problem is not None else ""
        if link.incarnation:
            what = f"was not heard of for more than a heartbeat of {self.deadline.heartbeat:g} s{problem}"
            return PeerLostError(link.peer, what)
        if isinstance(link.problem, AuthenticationError):
            return link.problem
        where = ""
        remedy = "start it in time; check the firewall, and that its file has our address and our order of parties"
        if link.peer in self._dials:
            where = f" at {self._peers[link.peer].address}"
            remedy = "start it in time; check its address and the firewall"
        what = f"was not there{where} within {self.deadline.connect:g} s{problem}"
        return PeerLostError(link.peer, what, remedy=remedy)

    def _fail(self, link: Link, failure: WireError) -> None:
        if isinstance(failure, PeerLostError):
            self._loss = self._loss or failure
        link.fail(failure)

    def _fail_all(self, failure: WireError) -> None:
        for link in self._links.values():
            self._fail(link, failure)

    def _refuse(self, link: Link, error: RefusedError) -> None:
        if not link.over:
            link.stop(Stop(link.peer, error.what, refused=True))
            self._fail_all(error)

    def _stopped_by(self, link: Link, words: Stop) -> None:
        if words.refused:
            self._fail_all(RefusedError(f"refused by this peer: {words.reason}", where=link.peer))
        elif words.culprit in (link.peer, self.name):
            self._fail_all(PeerLostError(link.peer, f"stopped: {words.reason}"))
        else:
            self._fail_all(PeerLostError(words.culprit, f"{words.reason} (says '{link.peer}')"))

    async def _stop(self, words: Stop) -> None:
        for link in self._links.values():
            if link.connected and not link.left:
                link.stop(words)
        self._fail_all(PeerLostError(words.culprit, f"stopped: {words.reason}"))
        await self._finish()

    async def _shut(self) -> None:
        await self._finish()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            await self._listener.close()

    async def _finish(self) -> None:
        await asyncio.gather(*(link.finish(self.deadline.heartbeat) for link in self._links.values()))

    def _on_loop(self, work: Coroutine[Any, Any, None], patience: float) -> None:
        # A peer that does not let go is its own problem: this party leaves anyway.
        with suppress(TimeoutError):
            run_on_loop(work, patience)


def _check(
    name: str,
    peers: Mapping[str, Peer],
    order: Sequence[str],
    listen: str | None,
    allowed: Mapping[str, frozenset[str] | None] | None,
) -> None:
    if sorted(order) != sorted({name, *peers}) or name in peers:
        raise ConfigError(f"the order must name each of {', '.join(sorted({name, *peers}))} once", where="order")
    before, after = order[: order.index(name)], order[order.index(name) + 1 :]
    for peer in before:
        address = peers[peer].address
        if address is None:
            raise ConfigError("has no address, and we are to dial it", where=peer)
        split_address(address)
    if after and listen is None:
        raise ConfigError(f"must listen: {', '.join(after)} will dial it", where=name)
    for peer in peers:
        if allowed is not None and peer not in allowed:
            raise ConfigError("has no entry in the allowed kinds", where=peer)
