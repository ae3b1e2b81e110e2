"""If these fail, people can't make keys, or make them in a way that leaks or breaks them."""

import re
import stat

import pytest
import typer
import yaml
from typer.testing import CliRunner

from colonnade.cli.keys import register
from colonnade.errors import ConfigError
from colonnade.wire.tls import Credentials, fingerprint, read_certificate


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command in an empty folder."""
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        return CliRunner().invoke(app, ["keys", *arguments])

    return call


def test_kits_and_fingerprints_are_made_as_the_federation_file_wants_them(run, tmp_path):
    """What is printed can be pasted, and it is what the certificates have."""
    result = run("clinic", "lab")
    assert result.exit_code == 0
    printed = yaml.safe_load(result.stdout)["parties"]
    for party in ("clinic", "lab"):
        credentials = Credentials.in_folder(tmp_path / "keys" / party)
        certificate = read_certificate(credentials.load(party).certificate, credentials.certificate)
        assert printed[party] == {"fingerprint": fingerprint(certificate)}
        assert stat.S_IMODE(credentials.key.stat().st_mode) == 0o600
    assert "PRIVATE" not in result.output


def test_the_coordinator_gets_a_kit_of_its_own(run, tmp_path):
    """It is no party: its fingerprint is printed where the federation file wants it."""
    printed = yaml.safe_load(run("clinic", "lab", "--coordinator", "hub").stdout)
    credentials = Credentials.in_folder(tmp_path / "keys" / "hub")
    certificate = read_certificate(credentials.load("hub").certificate, credentials.certificate)
    assert printed["coordinator"] == {"name": "hub", "fingerprint": fingerprint(certificate)}
    assert list(printed["parties"]) == ["clinic", "lab"]
    assert "named twice" in str(run("bank", "--coordinator", "bank").exception)


def test_existing_kits_are_kept_unless_renewed(run, tmp_path):
    """A second call by mistake changes nothing; --renew keeps the fingerprints; new parties join the same CA."""
    first = yaml.safe_load(run("clinic").stdout)
    before = {path: path.read_bytes() for path in (tmp_path / "keys").rglob("*.pem")}
    again = run("clinic", "lab")
    assert isinstance(again.exception, ConfigError) and "kits for clinic already" in str(again.exception)
    assert {path: path.read_bytes() for path in (tmp_path / "keys").rglob("*.pem")} == before
    assert yaml.safe_load(run("clinic", "--renew", "--days", "5").stdout) == first
    assert run("lab").exit_code == 0
    assert (tmp_path / "keys/lab/ca.pem").read_bytes() == (tmp_path / "keys/clinic/ca.pem").read_bytes()


@pytest.mark.parametrize("names", [["ca"], ["../up"], ["a", "a"], ["Bad Name"], [""]])
def test_names_that_cannot_be_are_refused_before_anything_is_written(run, tmp_path, names):
    """No key is written for a party that can't exist, and none outside the folder."""
    result = run(*names)
    assert isinstance(result.exception, ConfigError)
    assert not list(tmp_path.rglob("*.pem"))


def test_help_has_an_example(run):
    """A person can start from the help alone."""
    text = re.sub(r"\s+", " ", run("--help").output)
    assert "colonnade keys clinic lab insurer" in text and "--renew" in text
