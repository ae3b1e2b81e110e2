"""Who somebody is: names in certificates, fingerprints, and a party's own TLS material."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from colonnade.errors import AuthenticationError, ConfigError

DOMAIN = "colonnade"
_LABEL = re.compile(r"(?!x--)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_RENEW = "make a new one with `colonnade keys --renew`"
_COPY = "copy the kit again"


def certificate_name(party: str) -> str:
    """Return the DNS name that stands for `party` in its certificate; it has nothing to do with a host.

    >>> certificate_name("clinic")
    'clinic.colonnade'
    >>> certificate_name("lab_a")  # no host name, so a digest of it stands in
    'x--51a85fad42b166a471654b9ec816a304.colonnade'
    """
    label = party if _LABEL.fullmatch(party) else "x--" + hashlib.sha256(party.encode()).hexdigest()[:32]
    return f"{label}.{DOMAIN}"


def fingerprint(certificate: x509.Certificate) -> str:
    """Return ``sha256:<hex>`` of the certificate's public key, which stays the same over renewals."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(key).hexdigest()}"


def names_in(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names in `certificate`."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName)


def check_identity(certificate: x509.Certificate, party: str, expected: str | None) -> None:
    """Raise an `AuthenticationError` unless `certificate` is `party`'s and has the `expected` fingerprint, if any."""
    if certificate_name(party) not in names_in(certificate):
        found = ", ".join(names_in(certificate)) or "nobody"
        what = f"the certificate is that of {found}, another party"
        raise AuthenticationError(what, where=party, remedy="check its address and its kit")
    if expected is not None and fingerprint(certificate) != expected:
        raise AuthenticationError(
            f"the certificate's fingerprint is {fingerprint(certificate)}, the federation file says {expected}",
            where=party,
            remedy="ask the party for its fingerprint over another way",
        )


@dataclass(frozen=True)
class Material:
    """Checked PEM texts, ready for TLS."""

    ca: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Credentials:
    """Where one party's TLS material lies."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Credentials:
        """Return the credentials of a kit that `colonnade keys` made."""
        return cls(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")

    def load(self, party: str) -> Material:
        """Read and check everything.

        Raises:
            ConfigError: a file is missing or unreadable, the key is open to others or belongs to another certificate.
            AuthenticationError: the certificate is expired, another party's, or not from the federation's CA.
        """
        ca_pem, certificate_pem, key_pem = (_read(path) for path in (self.ca, self.certificate, self.key))
        ca, certificate = read_certificate(ca_pem, self.ca), read_certificate(certificate_pem, self.certificate)
        check_private(self.key)
        key = read_key(key_pem, self.key)
        if key.public_key() != certificate.public_key():
            what = f"the key does not belong to {self.certificate.name}"
            raise ConfigError(what, where=str(self.key), remedy="take both from the same kit")
        where = str(self.certificate)
        now = datetime.now(UTC)
        if now > certificate.not_valid_after_utc:
            when = f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
            raise AuthenticationError(f"the certificate has expired on {when}", where=where, remedy=_RENEW)
        if now < certificate.not_valid_before_utc:
            raise AuthenticationError("the certificate is not valid yet", where=where, remedy="check this clock")
        try:
            certificate.verify_directly_issued_by(ca)
        except (ValueError, TypeError, InvalidSignature):
            what, remedy = f"the certificate was not issued by {self.ca.name}", "take all kits from one authority"
            raise AuthenticationError(what, where=where, remedy=remedy) from None
        if certificate_name(party) not in names_in(certificate):
            what = f"the certificate is not that of '{party}'"
            raise AuthenticationError(what, where=where, remedy="use this party's own kit")
        return Material(ca_pem, certificate_pem, key_pem)


def read_certificate(pem: bytes, path: Path) -> x509.Certificate:
    """Return the first certificate in `pem`, which came from `path`."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise ConfigError("this is no PEM certificate", where=str(path), remedy=_COPY) from None


def read_key(pem: bytes, path: Path) -> PrivateKeyTypes:
    """Return the private key in `pem`, which came from `path`."""
    try:
        return load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise ConfigError("this is no plain PEM private key", where=str(path), remedy=_COPY) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ConfigError(reason, where=str(path), remedy="`colonnade keys` makes it") from None


def check_private(path: Path) -> None:
    """Raise a `ConfigError` if others could read the private key in `path`: whoever has it can pretend."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ConfigError("the private key is open to other users", where=str(path), remedy=f"chmod 600 {path}")
