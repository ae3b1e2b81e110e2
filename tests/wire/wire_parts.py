"""What the wire's tests are built from: kits, parties in one process, a bad network, a dishonest peer."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from colonnade.wire.authority import Authority, make_kit
from colonnade.wire.deadline import Deadline
from colonnade.wire.loop import run_on_loop
from colonnade.wire.network import NetworkChannel
from colonnade.wire.preflight import Peer
from colonnade.wire.protocol import Hello, PacketKind, Stop, pack, pack_words, read_words, unpack
from colonnade.wire.tls import Credentials, Material, certificate_name

import grpc  # isort: skip  (after the wire, which keeps it quiet)

NAMES = ["a", "b", "c", "d", "e"]
QUICK = Deadline(connect=20, reply=20, heartbeat=1)


class Kits:
    """A federation's TLS material."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.open(folder / "ca")
        self.fingerprints = {name: make_kit(self.authority, name, folder / name) for name in NAMES}

    def of(self, name: str) -> Credentials:
        return Credentials.in_folder(self.folder / name)


class Unchecked(Credentials):
    """The credentials of somebody who does not check them himself, as an attacker would not."""

    def load(self, party: str) -> Material:
        return Material(self.ca.read_bytes(), self.certificate.read_bytes(), self.key.read_bytes())


def party(kits: Kits, name: str, ports: dict[str, int | None], names: list[str] | None = None, **options):
    """Open one party's channel; `ports` says where the earlier parties listen."""
    names = names or ["a", "b"]
    peers = {
        other: Peer(f"127.0.0.1:{ports[other]}" if ports.get(other) else None, kits.fingerprints[other])
        for other in names
        if other != name
    }
    settings = {"run": "test", "credentials": kits.of(name), "deadline": QUICK, "order": names} | options
    listen = None if name == names[-1] else "127.0.0.1:0"
    return NetworkChannel(name, peers, listen=settings.pop("listen", listen), **settings)


@contextmanager
def parties(kits: Kits, count: int = 2, through: Callable[[int], int] | None = None, **options) -> Iterator[dict]:
    """Open `count` connected parties in this process; `through` may put something between a party and its port."""
    names, ports, channels = NAMES[:count], {}, {}
    try:
        for name in names:
            channels[name] = party(kits, name, ports, names, **options)
            port = channels[name].port
            ports[name] = through(port) if through is not None and port is not None else port
        for channel in channels.values():
            channel.connect()
        yield channels
    finally:
        closing = [threading.Thread(target=channel.close) for channel in channels.values()]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(60)


class Proxy:
    """A TCP proxy that can be made a bad network."""

    def __init__(self, target: int) -> None:
        self.target, self.cut_after, self.delay = target, None, 0.0
        self.silent, self.refusing = threading.Event(), False
        self.forwarded, self.connections = 0, 0
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Drop every connection, as a router that restarts does."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._sockets.clear()

    def close(self) -> None:
        self.refusing = True
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if self.refusing:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self.connections += 1
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                while self.silent.is_set():
                    time.sleep(0.01)
                time.sleep(self.delay)
                self.forwarded += len(data)
                if self.cut_after is not None and self.forwarded > self.cut_after:
                    self.cut_after = None
                    self.cut()
                    return
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Rogue:
    """A peer that has a good certificate and does not keep to the rules."""

    def __init__(
        self, kits: Kits, name: str, port: int, claims: str | None = None, first_words: bytes | None = None
    ) -> None:
        self._kit, self._port = kits.of(name), port
        hello = Hello(claims or name, "test", os.urandom(4).hex(), "")
        self._channel = self._call = None
        self.answer = run_on_loop(self._connect(first_words or pack_words(PacketKind.HELLO, hello)), 10)

    async def _connect(self, first_words: bytes):
        read = [path.read_bytes() for path in (self._kit.ca, self._kit.key, self._kit.certificate)]
        options = [("grpc.ssl_target_name_override", certificate_name("a"))]
        self._channel = grpc.aio.secure_channel(
            f"127.0.0.1:{self._port}", grpc.ssl_channel_credentials(*read), options=options
        )
        self._call = self._channel.stream_stream("/colonnade.Wire/Talk")()
        await self._call.write(first_words)
        answer = await self._call.read()
        return unpack(answer) if isinstance(answer, bytes) else None

    def say(self, packet: bytes) -> None:
        run_on_loop(self._call.write(packet), 10)

    def say_frame(self, frame: bytes, sequence: int = 0, total: int | None = None, offset: int = 0) -> None:
        total = len(frame) if total is None else total
        self.say(pack(PacketKind.CHUNK, [frame], sequence=sequence, total=total, offset=offset))

    def hear_stop(self) -> Stop:
        """Return the last words of the other end."""

        async def listen() -> Stop:
            while True:
                packet = unpack(await asyncio.wait_for(self._call.read(), 10))
                if packet.kind is PacketKind.STOP:
                    return read_words(packet, Stop)

        return run_on_loop(listen(), 10)

    def leave(self) -> None:
        run_on_loop(self._channel.close(), 10)


def in_thread(work: Callable[[], object]) -> Callable[[], object]:
    """Start `work` in a thread; the function returned waits for it and returns its result or its exception."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait(patience: float = 30.0) -> object:
        thread.join(patience)
        assert found, "it hangs"
        return found[0]

    return wait
