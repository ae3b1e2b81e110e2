"""Making and keeping gRPC streams under mutual TLS: who dials, who listens, and what both check first.

Beside the streams a listener answers one question, what time it is; `colonnade.wire.clock` asks it.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time
from typing import Any

from cryptography import x509

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC writes to stderr by itself; what matters is raised as an error

import grpc

from colonnade.errors import AuthenticationError, ConfigError, FrameError, PeerLostError, RefusedError, WireError
from colonnade.wire.deadline import Deadline
from colonnade.wire.link import Link
from colonnade.wire.preflight import NotAcceptedError, Peer, knock
from colonnade.wire.protocol import PACKET_BYTES, VERSION, Denied, Hello, PacketKind, pack_words, read_words, unpack
from colonnade.wire.tls import Material, certificate_name, check_identity

_SERVICE, _TALK, _CLOCK = "colonnade.Wire", "Talk", "Clock"
CLOCK_PATH = f"/{_SERVICE}/{_CLOCK}"
TIME = struct.Struct(">d")
"""The whole answer to the question for the time: seconds since 1970, UTC."""
_FIRST_PAUSE = 0.05
_NOT_ACCEPTED_TIMES = 3
_STREAMS = 8  # a peer needs one, and a second for a moment when it dials again
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", PACKET_BYTES),
    ("grpc.max_send_message_length", PACKET_BYTES),
    ("grpc.enable_http_proxy", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_concurrent_streams", _STREAMS),
]
"""The gRPC options of both ends."""


@dataclass(frozen=True)
class Identity:
    """Who this end is."""

    name: str
    run: str
    incarnation: str
    material: Material
    deadline: Deadline

    def hello(self, link: Link) -> bytes:
        """Return this end's first words to a peer."""
        return pack_words(PacketKind.HELLO, Hello(self.name, self.run, self.incarnation, link.incarnation))


@dataclass(frozen=True)
class Verdicts:
    """Where a connection reports what it can't decide itself."""

    fail: Callable[[Link, WireError], None]
    refuse: Callable[[Link, RefusedError], None]


class Listener:
    """Waits for the peers that dial."""

    def __init__(
        self, identity: Identity, links: Mapping[str, Link], peers: Mapping[str, Peer], verdicts: Verdicts
    ) -> None:
        self._identity, self._links, self._peers, self._verdicts = identity, links, peers, verdicts
        self._server: Any = None

    async def open(self, address: str) -> int:
        """Listen at `address` and return the port."""
        material = self._identity.material
        credentials = grpc.ssl_server_credentials(
            [(material.key, material.certificate)], root_certificates=material.ca, require_client_auth=True
        )
        self._server = grpc.aio.server(options=_OPTIONS)
        handlers = {
            _TALK: grpc.stream_stream_rpc_method_handler(self._answer),
            _CLOCK: grpc.unary_unary_rpc_method_handler(self._tell_time),
        }
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, handlers)])
        try:
            port: int = self._server.add_secure_port(address, credentials)
        except RuntimeError:
            port = 0
        if port == 0:
            await self._server.stop(None)
            raise ConfigError("cannot listen here", where=address, remedy="is another process using the port?")
        await self._server.start()
        return port

    async def close(self) -> None:
        """Stop listening."""
        await self._server.stop(None)

    async def _answer(self, _: Any, context: Any) -> None:
        try:
            packet = unpack(await asyncio.wait_for(context.read(), self._identity.deadline.heartbeat))
            hello = read_words(packet, Hello)
        except (FrameError, TimeoutError, TypeError):
            return
        certificate = _shown_certificate(context)
        denied: Denied | None
        if hello.name in self._links:
            denied = self._judge(hello, certificate)
        else:
            denied = Denied("authentication", self._unexpected(hello.name))
        if denied is not None:
            await context.write(pack_words(PacketKind.DENIED, denied))
            return
        link = self._links[hello.name]
        link.incarnation = hello.incarnation
        await context.write(self._identity.hello(link))
        await link.run(context)

    async def _tell_time(self, _: bytes, context: Any) -> bytes:
        """Tell whoever takes part in the run, and nobody else, what time it is here; and nothing else."""
        certificate = _shown_certificate(context)
        if not any(_is_that_of(certificate, name, peer) for name, peer in self._peers.items()):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED)
        return TIME.pack(time())

    def _judge(self, hello: Hello, certificate: x509.Certificate) -> Denied | None:
        link = self._links[hello.name]
        try:
            check_identity(certificate, hello.name, self._peers[hello.name].fingerprint)
        except AuthenticationError as error:
            # Anybody with a kit can do this, so it does not end the run; it is told if the true peer does not come.
            link.problem = error
            return Denied("authentication", error.what)
        unlike = unlike_ours(hello, self._identity)
        if unlike is not None:
            self._note_stranger(link, hello, unlike)
            return Denied("refused", unlike)
        if link.over or link.left:
            return Denied("stale", "the run is over there")
        if link.incarnation not in ("", hello.incarnation):
            self._verdicts.fail(link, PeerLostError(hello.name, "was restarted during the run"))
            return Denied("stale", "an earlier process of this party was part of the run")
        if hello.knows not in ("", self._identity.incarnation):
            return Denied("stale", f"'{self._identity.name}' was restarted during the run")
        return None

    def _unexpected(self, name: str) -> str:
        reason = f"'{name}' is not expected to dial '{self._identity.name}'"
        # Who dials whom follows from the order, so a peer that we dial ourselves has another one in its file.
        return f"{reason}: do both files list the parties in the same order?" if name in self._peers else reason

    def _note_stranger(self, link: Link, hello: Hello, unlike: str) -> None:
        """Take a process of the peer that can't be part of this run for what it is; it is denied in any case."""
        if link.incarnation:
            return  # the peer is here: what else it does, such as a prediction beside a training, is its own business
        if hello.knows not in ("", self._identity.incarnation):
            # What is left of an earlier run dials until it is told. The true peer may be about to start.
            link.problem = RefusedError(f"an earlier process of it came: {unlike}")
        else:
            self._verdicts.refuse(link, RefusedError(unlike, where=hello.name))


def _shown_certificate(context: Any) -> x509.Certificate:
    """Return what the other end showed in the handshake: there always is one, and the CA vouches for it."""
    return x509.load_pem_x509_certificate(context.auth_context()["x509_pem_cert"][0])


def _is_that_of(certificate: x509.Certificate, name: str, peer: Peer) -> bool:
    try:
        check_identity(certificate, name, peer.fingerprint)
    except AuthenticationError:
        return False
    return True


def unlike_ours(hello: Hello, identity: Identity) -> str | None:
    """Return what keeps the two ends from talking at all, if anything."""
    if hello.version != VERSION:
        return f"it speaks version {hello.version} of the protocol, we speak {VERSION}"
    if hello.run != identity.run:
        return f"it is in run '{hello.run}', we are in run '{identity.run}'"
    return None


def trusting_channel(party: str, peer: Peer, certificate: str, material: Material) -> grpc.aio.Channel:
    """Return a gRPC channel to `party` that trusts the `certificate` that was found good, and no other."""
    credentials = grpc.ssl_channel_credentials(certificate.encode(), material.key, material.certificate)
    options = [*_OPTIONS, ("grpc.ssl_target_name_override", certificate_name(party))]
    return grpc.aio.secure_channel(peer.address, credentials, options=options)


class Dialler:
    """Keeps the connection to one peer that listens."""

    def __init__(self, identity: Identity, link: Link, peer: Peer, context: ssl.SSLContext, verdicts: Verdicts) -> None:
        self._identity, self._link, self._peer = identity, link, peer
        self._context, self._verdicts = context, verdicts

    async def keep(self) -> None:
        """Dial, and dial again, until the link is over; what is wrong with a certificate is never tried again."""
        link, pause, not_accepted = self._link, _FIRST_PAUSE, 0
        while not (link.over or link.left):
            try:
                certificate = await knock(link.peer, self._peer, self._context, self._identity.deadline.heartbeat)
                not_accepted = 0
                if link.incarnation:
                    # gRPC's own threads answered: the process lives, even if something long holds its interpreter.
                    link.heard_at = asyncio.get_running_loop().time()
                if await self._talk(certificate):
                    pause = _FIRST_PAUSE
            except AuthenticationError as error:
                self._verdicts.fail(link, error)
            except NotAcceptedError as error:
                # A connection that breaks just then looks the same, hence a second and a third look.
                link.problem, not_accepted = error, not_accepted + 1
                if not_accepted == _NOT_ACCEPTED_TIMES and not link.incarnation:
                    self._verdicts.fail(link, AuthenticationError(str(error), where=link.peer))
            except (OSError, FrameError) as error:
                link.problem = error
            except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
                link.problem = ConnectionResetError("the connection broke")
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0, self._identity.deadline.heartbeat / 8)

    async def _talk(self, certificate: str) -> bool:
        """Use one connection for as long as it lasts; return whether it was of use."""
        material = self._identity.material
        async with trusting_channel(self._link.peer, self._peer, certificate, material) as channel:
            call = channel.stream_stream(f"/{_SERVICE}/{_TALK}")()
            async with asyncio.timeout(self._identity.deadline.heartbeat):
                await call.write(self._identity.hello(self._link))
                answer = await call.read()
            if not isinstance(answer, bytes):
                raise ConnectionResetError("it hung up")
            packet = unpack(answer)
            if packet.kind is PacketKind.DENIED:
                self._denied(read_words(packet, Denied))
                return False
            if not self._greet(read_words(packet, Hello)):
                return False
            await self._link.run(call, end=call.done_writing)
            return True

    def _denied(self, denied: Denied) -> None:
        link = self._link
        if denied.code == "authentication":
            raise AuthenticationError(f"does not accept us: {denied.reason}", where=link.peer)
        if denied.code == "refused":
            self._verdicts.refuse(link, RefusedError(f"refuses to talk: {denied.reason}", where=link.peer))
        elif link.incarnation:
            self._verdicts.fail(link, PeerLostError(link.peer, denied.reason))
        else:
            raise ConnectionRefusedError(denied.reason)

    def _greet(self, hello: Hello) -> bool:
        link = self._link
        unlike = unlike_ours(hello, self._identity)
        if unlike is not None:
            self._verdicts.refuse(link, RefusedError(unlike, where=link.peer))
        elif link.incarnation not in ("", hello.incarnation):
            self._verdicts.fail(link, PeerLostError(link.peer, "was restarted during the run"))
        else:
            link.incarnation = hello.incarnation
            return True
        return False
