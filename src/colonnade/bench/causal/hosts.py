"""A discovery between processes, every role one of its own under mutual TLS, and what each of them measured."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.sets import Shares, fresh, split_columns
from colonnade.bench.device import forget_peak_memory, peak_memory
from colonnade.discover.curious import Curious
from colonnade.errors import PeerLostError, RunError

if TYPE_CHECKING:
    from colonnade.discover.agreement import DiscoveryAgreement
    from colonnade.federation.discovery import DiscoverySettings
    from colonnade.wire.channel import Channel

_CONNECT, _REPLY, _HEARTBEAT = 300.0, 900.0, 120.0
"""Seconds. Roles share this machine's cores, and one of them may hold the interpreter for a whole product."""


@dataclass(frozen=True)
class Mark:
    """How far a role was at one of its exchanges: seconds and bytes sent since everybody was there."""

    exchange: int
    seconds: float
    sent_bytes: int


@dataclass(frozen=True)
class Lived:
    """One role's discovery.

    Attributes:
        marks: of a party, whenever it had the others' features; of the coordinator, whenever it had answered.
        end: when the graph was there.
        peak_memory: the most bytes that its process held, with the processes it had started.
    """

    marks: list[Mark]
    end: Mark
    peak_memory: int


@dataclass(frozen=True)
class Hosts:
    """Where everybody is reached, and recognised by which key; the keys themselves are in `folder`."""

    agreement: DiscoveryAgreement
    addresses: Mapping[str, str]
    fingerprints: Mapping[str, str]
    folder: Path

    def connect(self, name: str) -> Channel:
        """Open the channel of `name` and wait for all others."""
        from colonnade.wire.deadline import Deadline
        from colonnade.wire.network import NetworkChannel
        from colonnade.wire.preflight import Peer
        from colonnade.wire.tls import Credentials

        others = [other for other in self.agreement.everybody if other != name]
        channel = NetworkChannel(
            name,
            {other: Peer(self.addresses[other], self.fingerprints[other]) for other in others},
            self.agreement.run,
            Credentials.in_folder(self.folder / name),
            order=self.agreement.everybody,
            listen=self.addresses[name],
            allowed={other: self.agreement.allowed_kinds(other) for other in others},
            deadline=Deadline(_CONNECT, _REPLY, _HEARTBEAT),
        )
        channel.connect()
        return channel


def live_apart(design: Design, parties: Shares, settings: DiscoverySettings, seed: int) -> dict[str, Lived]:
    """Discover the graph of freshly drawn records, every role in a new process; return what each of them measured.

    Raises:
        RunError: a process was ended from outside, as for want of memory.
    """
    from colonnade.discover.agreement import COORDINATOR, DiscoveryAgreement

    holders = tuple(split_columns([str(column) for column in range(design.variables)], parties))
    agreement = DiscoveryAgreement("bench", holders, COORDINATOR, settings, seed)
    with tempfile.TemporaryDirectory() as folder, _pool(len(agreement.everybody)) as pool:
        hosts = _hosts(agreement, Path(folder))
        lives = {name: pool.submit(_live, name, hosts, design, parties) for name in agreement.everybody}
        return _results(lives)


def _hosts(agreement: DiscoveryAgreement, folder: Path) -> Hosts:
    from colonnade.wire.authority import Authority, make_kit

    authority = Authority.open(folder / "ca")
    fingerprints = {name: make_kit(authority, name, folder / name) for name in agreement.everybody}
    addresses = (f"127.0.0.1:{port}" for port in _free_ports(len(agreement.everybody)))
    return Hosts(agreement, dict(zip(agreement.everybody, addresses, strict=True)), fingerprints, folder)


def _free_ports(count: int) -> list[int]:
    """Return different ports: one that is let go may be drawn again at once."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _pool(roles: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(roles, get_context("spawn"))


def _results(lives: Mapping[str, Future[Lived | None]]) -> dict[str, Lived]:
    """Wait for all; raise the error that stopped them."""
    try:
        found = {name: life.result() for name, life in lives.items()}
    except BrokenProcessPool as error:
        remedy = "run it again, with more memory free"
        raise RunError("a role's process was ended from outside", where="hosts", remedy=remedy) from error
    lost = [name for name, life in found.items() if life is None]
    if lost:
        raise RunError(f"lost the others: {', '.join(lost)}", where="hosts", remedy="run it again")
    return {name: life for name in lives if (life := found[name]) is not None}


def _live(name: str, hosts: Hosts, design: Design, parties: Shares) -> Lived | None:
    """A role's process; None where another one failed, which then tells why."""
    from colonnade.discover.coordinator import CoordinatorSeat
    from colonnade.discover.discover import SIMULATION_SECRET, coordinate, take_part
    from colonnade.discover.party import PartySeat
    from colonnade.discover.variables import prepare_columns

    agreement = hosts.agreement
    columns = None
    if name != agreement.coordinator:
        data = fresh(design, agreement.seed, parties)
        columns = prepare_columns(data.frame[data.parties[name]], where=name)
        del data
    forget_peak_memory()
    try:
        with hosts.connect(name) as channel:
            clock = _Clock(channel)
            if columns is None:
                coordinate(channel, agreement, CoordinatorSeat(curious=clock.answered_all))
            else:
                take_part(channel, agreement, PartySeat(name, columns, SIMULATION_SECRET, curious=clock))
            return Lived(clock.marks, clock.mark(-1), peak_memory())
    except PeerLostError:
        return None


class _Clock(Curious):
    def __init__(self, channel: Channel) -> None:
        self._channel, self._started = channel, time.perf_counter()
        self.marks: list[Mark] = []

    def mark(self, exchange: int) -> Mark:
        return Mark(exchange, time.perf_counter() - self._started, self._channel.sent_bytes)

    def saw(self, step: int, *seen: Any) -> None:
        self.marks.append(self.mark(step))

    def answered_all(self, exchanges: int, *seen: Any) -> None:
        self.marks.append(self.mark(exchanges))
