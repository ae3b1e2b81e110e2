"""How long certificates last, and whether they are who they should be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from colonnade.doctor.finding import Finding
from colonnade.errors import AuthenticationError, ConfigError
from colonnade.place import Place
from colonnade.wire.tls import Credentials, check_identity, fingerprint, read_certificate

SOON = timedelta(days=30)
"""A certificate that ends sooner should be renewed; one that never lasted much longer, in its last third."""


def examine_keys(place: Place) -> Iterator[Finding]:
    """Yield whether the party's own keys are in order, and until when the certificates are valid."""
    files = place.party.credentials
    if files is None:
        remedy = "'colonnade keys' makes them; parties always talk over TLS"
        yield Finding("keys", "credentials", "the party file names none", state="broken", remedy=remedy)
        return
    expected = place.federation.everybody[place.name].fingerprint
    try:
        material = Credentials(files.ca, files.certificate, files.key).load(place.name)
        certificate = read_certificate(material.certificate, files.certificate)
        check_identity(certificate, place.name, expected)
    except (ConfigError, AuthenticationError) as error:
        where = f"{Path(error.where).name}: " if error.where else ""
        yield Finding("keys", "certificate", where + error.what, state="broken", remedy=error.remedy or "")
        return
    if expected is None:
        value, remedy = f"{fingerprint(certificate)}, not in the federation file", "write it there, at every party"
        yield Finding("keys", "fingerprint", value, state="warning", remedy=remedy)
    else:
        yield Finding("keys", "fingerprint", "that of the federation file")
    yield _validity("certificate", certificate, "'colonnade keys --renew' at whoever holds the CA")
    yield _validity("CA", read_certificate(material.ca, files.ca), "a new CA needs new kits for everybody")


def _validity(name: str, certificate: x509.Certificate, remedy: str) -> Finding:
    """Tell until when a certificate is valid; `remedy` is what to do soon before."""
    end = certificate.not_valid_after_utc
    left, life = end - datetime.now(UTC), end - certificate.not_valid_before_utc
    value = f"valid until {end:%Y-%m-%d %H:%M} UTC, {max(left.days, 0)} days"
    if left < timedelta(0):
        return Finding("keys", name, f"has expired on {end:%Y-%m-%d %H:%M} UTC", state="broken", remedy=remedy)
    if left < min(SOON, life / 3):
        return Finding("keys", name, value, state="warning", remedy=remedy)
    return Finding("keys", name, value)
