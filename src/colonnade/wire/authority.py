"""The federation's own certificate authority, and the kit it gives to each party."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from colonnade.errors import ConfigError
from colonnade.wire.tls import DOMAIN, certificate_name, check_private, fingerprint, read_certificate, read_key

CA_DAYS = 1825
_RESTORE = "restore the file from a backup, or make all kits anew in another folder"
_CLOCKS_DIFFER = timedelta(minutes=10)


@dataclass(frozen=True)
class Authority:
    """A certificate authority: its certificate, which everybody has, and its key, which stays in its folder."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Read the authority in `folder`, or make one where there is none."""
        certificate_path, key_path = folder / "ca.pem", folder / "key.pem"
        if certificate_path.exists() and key_path.exists():
            certificate = read_certificate(certificate_path.read_bytes(), certificate_path)
            check_private(key_path)
            key = read_key(key_path.read_bytes(), key_path)
            if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
                raise ConfigError("the key does not belong to ca.pem", where=str(key_path), remedy=_RESTORE)
            return cls(certificate, key)
        if certificate_path.exists() or key_path.exists():
            lacking = key_path if certificate_path.exists() else certificate_path
            raise ConfigError("half of the certificate authority is missing", where=str(lacking), remedy=_RESTORE)
        authority = cls.create()
        _make_folder(folder)
        _write(key_path, _key_pem(authority.key))
        _write(certificate_path, authority.certificate.public_bytes(Encoding.PEM))
        return authority

    @classmethod
    def create(cls) -> Authority:
        """Make a new authority that can vouch for names in our own domain only."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Colonnade federation CA")])
        builder = _certificate(name, name, key, key, days=CA_DAYS)
        only_ours = x509.NameConstraints(permitted_subtrees=[x509.DNSName(DOMAIN)], excluded_subtrees=None)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        builder = builder.add_extension(only_ours, critical=True)
        return cls(builder.sign(key, SHA256()), key)

    def issue(self, party: str, key: ec.EllipticCurvePrivateKey, days: float) -> x509.Certificate:
        """Return a certificate that binds `party`'s name to `key`."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, certificate_name(party))])
        both_ways = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        names = x509.SubjectAlternativeName([x509.DNSName(certificate_name(party))])
        builder = _certificate(name, self.certificate.subject, key, self.key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(both_ways, critical=False)
        builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, SHA256())


def make_kit(authority: Authority, party: str, folder: Path, days: float = 30, renew: bool = False) -> str:
    """Write `party`'s kit (ca.pem, certificate.pem, key.pem) into `folder` and return its fingerprint.

    Nothing is overwritten, but for the certificate when `renew` is asked for; the key and with it the fingerprint stay.
    """
    key_path, certificate_path = folder / "key.pem", folder / "certificate.pem"
    if key_path.exists():
        if not renew:
            raise ConfigError(f"'{party}' has a kit already", where=str(folder), remedy="--renew keeps its key")
        check_private(key_path)
        key = read_key(key_path.read_bytes(), key_path)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError("this is no elliptic-curve key", where=str(key_path))
    else:
        key = ec.generate_private_key(ec.SECP256R1())
        _make_folder(folder)
        _write(key_path, _key_pem(key))
    certificate = authority.issue(party, key, days)
    _write(certificate_path, certificate.public_bytes(Encoding.PEM))
    _write(folder / "ca.pem", authority.certificate.public_bytes(Encoding.PEM))
    return fingerprint(certificate)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    days: float,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCKS_DIFFER + min(timedelta(days=days), timedelta(0)))
    builder = builder.not_valid_after(now + timedelta(days=days))
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    issuer_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return builder.add_extension(issuer_identifier, critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def _write(path: Path, content: bytes) -> None:
    """Write atomically, never readable by others, not even for a moment."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)
