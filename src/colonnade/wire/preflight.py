"""Knocking at a peer's door: a plain TLS handshake that says exactly why a peer can't be talked to.

gRPC tells little about a failed handshake and nothing about the listener's certificate. So the handshake is done here
first; the certificate that was found good then is the only one that the gRPC connection behind it trusts.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from cryptography import x509

from colonnade.errors import AuthenticationError, ConfigError, DeadlineError
from colonnade.wire.tls import Credentials, certificate_name, check_identity

_REASONS = {
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: "unknown CA: its certificate was not issued by this federation's CA",
    19: "unknown CA: its certificate was not issued by this federation's CA",
    20: "unknown CA: its certificate was not issued by this federation's CA",
    21: "unknown CA: its certificate was not issued by this federation's CA",
    62: "its certificate is that of another party",
}


@dataclass(frozen=True)
class Peer:
    """How to reach a peer, and how to recognise it.

    Attributes:
        address: `host:port`; None for a peer that dials us.
        fingerprint: `sha256:<hex>` of its public key; None trusts whomever the CA vouches for.
    """

    address: str | None = None
    fingerprint: str | None = None


class NotAcceptedError(ConnectionError):
    """The listener closed the connection when it saw our certificate; or the connection broke just then."""


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``.

    >>> split_address("[::1]:7000")
    ('::1', 7000)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ConfigError("an address is written host:port", where=address)
    return host.strip("[]"), int(port)


def tls_context(credentials: Credentials) -> ssl.SSLContext:
    """Return our side of mutual TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cafile=credentials.ca)
    context.load_cert_chain(credentials.certificate, credentials.key)
    context.set_alpn_protocols(["h2"])
    return context


async def knock(party: str, peer: Peer, context: ssl.SSLContext, patience: float) -> str:
    """Shake hands with `party` and return its certificate as PEM.

    Raises:
        AuthenticationError: it is not who it should be; final.
        OSError: it can't be reached now.
    """
    host, port = split_address(peer.address or "")
    transport: asyncio.WriteTransport | None = None
    try:
        async with asyncio.timeout(patience):
            name = certificate_name(party)
            reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
            transport = writer.transport
            found = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            # In TLS 1.3 the listener judges our certificate after our handshake is over: its first byte is the proof.
            if not await reader.read(1):
                raise NotAcceptedError("it closes the connection as soon as it has seen our certificate")
    except ssl.SSLCertVerificationError as error:
        reason = _REASONS.get(error.verify_code, error.verify_message)
        raise AuthenticationError(reason, where=party, remedy="compare the kits") from None
    except ssl.SSLEOFError as error:
        raise ConnectionResetError("the connection broke during the handshake") from error
    except ssl.SSLError as error:
        reason = (error.reason or "unknown reason").lower().replace("_", " ")
        raise AuthenticationError(f"no mutual TLS at {peer.address}: {reason}", where=party) from None
    finally:
        if transport is not None:
            transport.abort()
    check_identity(x509.load_der_x509_certificate(found), party, peer.fingerprint)
    return ssl.DER_cert_to_PEM_cert(found)


def check_peer(party: str, peer: Peer, credentials: Credentials, patience: float = 5.0) -> None:
    """Raise an error that says why `party` can't be talked to at its address now, if so.

    Raises:
        AuthenticationError: it, or we, did not show the right certificate.
        DeadlineError: nobody answers there.
    """
    try:
        asyncio.run(knock(party, peer, tls_context(credentials), patience))
    except NotAcceptedError as error:
        raise AuthenticationError(str(error), where=party) from None
    except OSError as error:
        what = f"cannot be reached at {peer.address}: {describe(error)}"
        raise DeadlineError(what, where=party, remedy="it may not have started yet") from None


def describe(error: BaseException) -> str:
    """Return a network error in few words."""
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
