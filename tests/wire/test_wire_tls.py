"""If these fail, keys leak or kits do not fit: a party can't join, or somebody else can in its name."""

import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from colonnade.errors import AuthenticationError, ConfigError
from colonnade.wire.authority import Authority, make_kit
from colonnade.wire.preflight import Peer, check_peer, split_address
from colonnade.wire.tls import Credentials, certificate_name, check_identity, fingerprint, names_in, read_certificate


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def folder(tmp_path):
    authority = Authority.open(tmp_path / "ca")
    for party in ("clinic", "lab"):
        make_kit(authority, party, tmp_path / party)
    return tmp_path


def certificate(folder, party):
    path = folder / party / "certificate.pem"
    return read_certificate(path.read_bytes(), path)


def test_private_keys_are_for_their_owner_only(folder):
    """Keys are mode 600 in folders of mode 700, and the authority's key is in no kit."""
    secrets = {path.read_bytes() for path in folder.rglob("key.pem")}
    assert len(secrets) == 3
    for path in folder.rglob("key.pem"):
        assert mode(path) == 0o600 and mode(path.parent) == 0o700
    kit = {path.name for path in (folder / "clinic").iterdir()}
    assert kit == {"ca.pem", "certificate.pem", "key.pem"}
    assert (folder / "clinic" / "key.pem").read_bytes() != (folder / "ca" / "key.pem").read_bytes()


def test_certificates_are_short_lived_and_say_who_and_what_for(folder):
    """A leaf names one party, lives 30 days, can't sign others; the authority can vouch for our own names only."""
    leaf = certificate(folder, "clinic")
    assert names_in(leaf) == ["clinic.colonnade"]
    assert timedelta(days=29) < leaf.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=30)
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    root = read_certificate((folder / "ca" / "ca.pem").read_bytes(), folder)
    constraints = root.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical and constraints.value.permitted_subtrees == [x509.DNSName("colonnade")]
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 0


def test_renewal_keeps_key_and_fingerprint(folder):
    """The federation file stays true when certificates are renewed; nothing is overwritten without being asked."""
    before, key = certificate(folder, "lab"), (folder / "lab" / "key.pem").read_bytes()
    authority = Authority.open(folder / "ca")
    with pytest.raises(ConfigError, match="'lab' has a kit already"):
        make_kit(authority, "lab", folder / "lab")
    assert make_kit(authority, "lab", folder / "lab", days=7, renew=True) == fingerprint(before)
    after = certificate(folder, "lab")
    assert after.serial_number != before.serial_number and (folder / "lab" / "key.pem").read_bytes() == key
    Credentials.in_folder(folder / "lab").load("lab")


@pytest.mark.parametrize("open_to", [0o640, 0o604])
def test_keys_that_others_could_read_sign_nothing_and_are_not_kept(folder, open_to):
    """Whoever has read the authority's key can pretend to be any party; a renewed kit would go on with a known key."""
    key, authority = folder / "ca" / "key.pem", Authority.open(folder / "ca")
    (folder / "lab" / "key.pem").chmod(open_to)
    before = certificate(folder, "lab")
    with pytest.raises(ConfigError, match=r"lab/key\.pem: the private key is open to other users"):
        make_kit(authority, "lab", folder / "lab", renew=True)
    assert certificate(folder, "lab") == before
    key.chmod(open_to)
    with pytest.raises(ConfigError, match=r"ca/key\.pem: the private key is open to other users"):
        Authority.open(folder / "ca")


def test_half_an_authority_is_not_replaced(folder):
    """A lost CA key is told, not papered over by a new CA that nobody trusts."""
    (folder / "ca" / "key.pem").unlink()
    with pytest.raises(ConfigError, match="half of the certificate authority is missing"):
        Authority.open(folder / "ca")


def test_good_credentials_load(folder):
    """A fresh kit works as it is."""
    material = Credentials.in_folder(folder / "clinic").load("clinic")
    assert b"PRIVATE KEY" in material.key and b"CERTIFICATE" in material.certificate


def test_each_thing_wrong_with_credentials_is_named(folder, tmp_path_factory):
    """Missing, open, foreign, mismatched, expired, not yet valid, somebody else's: each is its own sentence."""
    kit = Credentials.in_folder(folder / "clinic")
    lab = Credentials.in_folder(folder / "lab")

    def wrong(match, kind=ConfigError, party="clinic", ca=kit.ca, certificate=kit.certificate, key=kit.key):
        with pytest.raises(kind, match=match):
            Credentials(ca, certificate, key).load(party)

    wrong("no such file", key=folder / "nowhere.pem")
    wrong("no PEM certificate", certificate=kit.key)
    wrong("no plain PEM private key", key=_private(folder / "x.pem", kit.certificate.read_bytes()))
    wrong("the key does not belong to certificate.pem", key=lab.key)
    wrong("is not that of 'lab'", AuthenticationError, party="lab")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    Authority.open(elsewhere)
    wrong("not issued by ca.pem", AuthenticationError, ca=elsewhere / "ca.pem")
    make_kit(Authority.open(folder / "ca"), "clinic", folder / "clinic", days=-1, renew=True)
    wrong("has expired on", AuthenticationError)
    make_kit(Authority.open(folder / "ca"), "clinic", folder / "clinic", renew=True)
    kit.key.chmod(0o640)
    wrong("open to other users")


def _private(path, content):
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_identity_is_name_and_key(folder):
    """Another party's certificate, or another key under the same name, is not that party."""
    leaf = certificate(folder, "clinic")
    check_identity(leaf, "clinic", fingerprint(leaf))
    check_identity(leaf, "clinic", None)
    with pytest.raises(AuthenticationError, match=r"lab: the certificate is that of clinic\.colonnade"):
        check_identity(leaf, "lab", None)
    with pytest.raises(AuthenticationError, match="clinic: the certificate's fingerprint is"):
        check_identity(leaf, "clinic", "sha256:" + "0" * 64)


def test_every_party_name_has_its_own_certificate_name():
    """Names that are no host names still get one, and no two get the same."""
    names = ["clinic", "Clinic", "x--clinic", "lab_a", "lab-a", "-", "ä", "a b", "a.b", "n" * 63, "n" * 64, "*"]
    found = [certificate_name(name) for name in names]
    assert len(set(found)) == len(names) and found[0] == "clinic.colonnade"
    assert all(len(name) < 80 and name.endswith(".colonnade") and "*" not in name for name in found)


@pytest.mark.parametrize("address", ["", "host", "host:", ":80", "host:port", "host:99999", "host:-1"])
def test_bad_addresses_are_told(address):
    """An address is host:port."""
    with pytest.raises(ConfigError, match="host:port"):
        split_address(address)


def test_nobody_there_is_no_authentication_error(folder):
    """A peer that has not started yet is told apart from one that is not who it should be."""
    from colonnade.errors import DeadlineError

    with pytest.raises(DeadlineError, match="lab: cannot be reached at 127.0.0.1:1: connection refused"):  # noqa: RUF043
        check_peer("lab", Peer("127.0.0.1:1"), Credentials.in_folder(folder / "clinic"))


def test_a_simulation_needs_neither_grpc_nor_torch():
    """`import colonnade.wire` stays quick."""
    code = "import colonnade.wire, sys; print([m for m in ('grpc', 'torch', 'cryptography') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
