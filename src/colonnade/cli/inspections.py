"""What `check` asks of the layers above the files: defense, keys, peers."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from colonnade.errors import AuthenticationError, ConfigError
from colonnade.federation.files import FederationFile, PartyEntry, PartyFile, split_address
from colonnade.federation.problems import Problem
from colonnade.wire.tls import Credentials, certificate_name, check_identity, read_certificate

PATIENCE = 3.0
"""Seconds that a peer has to answer."""


def inspect_defense(federation: FederationFile, party: PartyFile, path: Path) -> Iterable[Problem]:
    """Check that the defense exists, takes this strength and needs nothing that the party lacks."""
    if party.defense.name == "none" and not party.defense.strength:
        return []
    from colonnade.defend import make_defense

    try:
        defense = make_defense(party.defense.name, **party.defense.strength)
    except ConfigError as error:
        return [Problem(error.what, path, "defense", error.remedy or "")]
    if defense.needs_labels and party.party != federation.active:
        what = f"'{party.defense.name}' needs labels, which a passive party does not have"
        return [Problem(what, path, "defense.name", "choose another defense")]
    return []


def inspect_credentials(federation: FederationFile, party: PartyFile, path: Path) -> Iterable[Problem]:
    """Check that the keys are there, valid, this party's own and those that the federation file names."""
    files = party.credentials
    if files is None:
        return [Problem("is missing", path, "credentials", "'colonnade keys' makes them; parties always talk over TLS")]
    named = {"ca": files.ca, "certificate": files.certificate, "key": files.key}
    missing = [
        Problem(f"there is no {file}", path, f"credentials.{name}", "'colonnade keys' makes it")
        for name, file in named.items()
        if not file.is_file()
    ]
    if missing:
        return missing
    try:
        material = Credentials(**named).load(party.party)
        certificate = read_certificate(material.certificate, files.certificate)
        check_identity(certificate, party.party, federation.parties[party.party].fingerprint)
    except (ConfigError, AuthenticationError) as error:
        return [Problem(error.what, path, "credentials", error.remedy or "")]
    return []


def inspect_peers(federation: FederationFile, party: PartyFile, path: Path) -> Iterable[Problem]:
    """Try every other party at once: can it be reached, and is it who it should be?"""
    caller = _Caller(path, _tls_context(party))
    peers = {name: entry for name, entry in federation.parties.items() if name != party.party}
    with ThreadPoolExecutor(len(peers)) as pool:
        found = pool.map(caller.try_peer, peers, peers.values())
    return [problem for problem in found if problem is not None]


def _tls_context(party: PartyFile) -> ssl.SSLContext | None:
    """Return what a call needs, None if the own keys are not in order, which `inspect_credentials` tells."""
    files = party.credentials
    with suppress(ConfigError, AuthenticationError, ssl.SSLError):
        if files is not None:
            Credentials(files.ca, files.certificate, files.key).load(party.party)
            context = ssl.create_default_context(cafile=str(files.ca))
            context.load_cert_chain(files.certificate, files.key)
            context.set_alpn_protocols(["h2"])
            return context
    return None


@dataclass(frozen=True)
class _Caller:
    path: Path
    context: ssl.SSLContext | None

    def try_peer(self, peer: str, entry: PartyEntry) -> Problem | None:
        try:
            line = socket.create_connection(split_address(entry.address), timeout=PATIENCE)
        except ConnectionRefusedError:
            what = f"nobody listens at {entry.address} yet"
            return Problem(what, self.path, f"peer {peer}", "it may not have started", severity="note")
        except socket.gaierror:
            return self._problem(peer, f"no host is known by the name in {entry.address}", "check its address")
        except OSError as error:
            why = "no answer" if isinstance(error, TimeoutError) else error.strerror
            return self._problem(
                peer, f"{entry.address} cannot be reached: {why}", "check its address and the firewall"
            )
        with line:
            return None if self.context is None else self._identify(line, self.context, peer, entry)

    def _identify(self, line: socket.socket, context: ssl.SSLContext, peer: str, entry: PartyEntry) -> Problem | None:
        try:
            with context.wrap_socket(line, server_hostname=certificate_name(peer)) as secured:
                certificate = secured.getpeercert(binary_form=True) or b""
            check_identity(x509.load_der_x509_certificate(certificate), peer, entry.fingerprint)
        except ssl.SSLCertVerificationError as error:
            what = f"its certificate is not accepted: {error.verify_message}"
            return self._problem(peer, what, "ask the party which certificate it uses")
        except AuthenticationError as error:
            return self._problem(peer, error.what, error.remedy or "")
        except (OSError, ValueError):
            return self._problem(peer, f"what listens at {entry.address} does not speak TLS", "check its address")
        return None

    def _problem(self, peer: str, what: str, remedy: str) -> Problem:
        return Problem(what, self.path, f"peer {peer}", remedy)
