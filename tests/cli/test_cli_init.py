"""`colonnade init`: the files it writes are valid as they stand."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.federation import FederationFile, PartyFile, read_federation, read_party
from colonnade.federation.discovery import DiscoverySettings
from colonnade.federation.template import federation_template, party_template


def init(*arguments):
    return CliRunner().invoke(app, ["init", *map(str, arguments)])


def test_the_written_files_are_valid(tmp_path):
    out = tmp_path / "new" / "study"
    result = init("clinic", "lab", "bank", "--active", "clinic", "--label", "outcome", "--out", out)
    assert result.exit_code == 0, result.output
    federation = read_federation(out / "federation.yaml")
    assert (list(federation.parties), federation.active, federation.label) == (
        ["clinic", "lab", "bank"],
        "clinic",
        "outcome",
    )
    assert len({entry.address for entry in federation.parties.values()}) == 3
    for name in federation.parties:
        party = read_party(out / f"{name}.yaml")
        assert party.party == name
        assert party.credentials.key == out / "keys" / name / "key.pem"


def test_the_check_of_fresh_files_asks_for_data_and_keys_only(tmp_path):
    init("clinic", "lab", "--active", "clinic", "--label", "outcome", "--out", tmp_path)
    pd.DataFrame({"id": [1, 2], "age": [3, 4], "outcome": [0, 1]}).to_csv(tmp_path / "clinic.csv", index=False)
    arguments = ["check", str(tmp_path / "federation.yaml"), "--party", str(tmp_path / "clinic.yaml"), "--offline"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 3
    assert "3 problems" in result.stdout
    assert result.stdout.count("credentials.") == 3


def test_every_key_of_both_files_is_shown_with_its_default():
    """A person should find every setting in the file, not in the code."""
    federation, party = federation_template("s", ["a", "b"], "a", "y"), party_template(["a", "b"], "a")
    assert [key for key in FederationFile.model_fields if f"\n{key}:" not in federation] == []
    assert [key for key in PartyFile.model_fields if f"\n{key}:" not in party] == []


def test_a_coordinator_gets_its_entry_and_a_file_without_data(tmp_path):
    result = init("clinic", "lab", "--coordinator", "hub", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    federation, own = read_federation(tmp_path / "federation.yaml"), read_party(tmp_path / "hub.yaml")
    assert (federation.active, federation.label, federation.coordinator.name) == (None, None, "hub")
    assert len({entry.address for entry in federation.everybody.values()}) == 3
    assert (own.party, own.data, own.credentials.key) == ("hub", None, tmp_path / "keys" / "hub" / "key.pem")
    assert federation.discovery == DiscoverySettings(), "what is written is what would be taken anyway"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--coordinator", "lab"], "named twice"),
        (["--coordinator", "Hub"], "no party name"),
        (["--coordinator", "federation"], "federation"),
        (["--active", "clinic"], "--label: is missing"),
        (["--label", "outcome"], "--active: is missing"),
    ],
)
def test_half_a_role_is_refused(tmp_path, arguments, what):
    result = init("clinic", "lab", *arguments, "--out", tmp_path)
    assert (result.exit_code, list(tmp_path.iterdir())) == (3, [])
    assert what in result.stderr


@settings(max_examples=100, deadline=None)
@given(
    name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.isprintable),
    label=st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.isprintable)
    | st.sampled_from(["no", "1e3", "null", "a: b", "#x", "{y}", " padded "]),
    parties=st.lists(
        st.from_regex(r"[a-z0-9][a-z0-9_-]{0,39}", fullmatch=True) | st.sampled_from(["no", "on", "007", "1e3"]),
        min_size=2, max_size=4, unique=True,
    ),
)  # fmt: skip
def test_any_name_survives_the_writing(tmp_path_factory, name, label, parties):
    folder = tmp_path_factory.mktemp("init")
    (folder / "federation.yaml").write_text(federation_template(name, parties, parties[-1], label), "utf-8")
    federation = read_federation(folder / "federation.yaml")
    assert (federation.name, federation.label, list(federation.parties)) == (name, label, parties)
    (folder / "party.yaml").write_text(party_template(parties, parties[0]), "utf-8")
    assert read_party(folder / "party.yaml").party == parties[0]


def test_nothing_is_overwritten_unless_asked(tmp_path):
    arguments = ["clinic", "lab", "--active", "clinic", "--label", "outcome", "--out", tmp_path]
    (tmp_path / "lab.yaml").write_text("mine")
    result = init(*arguments)
    assert (result.exit_code, "lab.yaml" in result.stderr) == (3, True)
    assert [path.name for path in tmp_path.iterdir()] == ["lab.yaml"]
    assert init(*arguments, "--force").exit_code == 0
    assert (tmp_path / "lab.yaml").read_text() != "mine"


@pytest.mark.parametrize(
    ("parties", "active", "what"),
    [
        (["clinic"], "clinic", "at least two parties"),
        (["clinic", "clinic"], "clinic", "named twice"),
        (["clinic", "Lab"], "clinic", "no party name"),
        (["clinic", "a/b"], "clinic", "no party name"),
        (["clinic", "federation"], "clinic", "federation"),
        (["clinic", "lab"], "clinik", "did you mean 'clinic'"),
    ],
)
def test_impossible_federations_are_refused(tmp_path, parties, active, what):
    result = init(*parties, "--active", active, "--label", "y", "--out", tmp_path)
    assert result.exit_code == 3
    assert what in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_label_that_no_file_can_hold_is_refused_before_writing(tmp_path):
    result = init("clinic", "lab", "--active", "clinic", "--label", "", "--out", tmp_path)
    assert result.exit_code == 3
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    result = init("clinic", "lab", "--active", "clinic", "--label", "y", "--out", tmp_path / "file" / "x")
    assert (result.exit_code, "cannot be made" in result.stderr) == (3, True)
