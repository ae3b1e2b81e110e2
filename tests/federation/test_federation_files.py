"""The two files a person writes: a mistake is told with file, field and remedy, all at once."""

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colonnade.errors import ConfigError
from colonnade.federation.files import (
    FederationFile,
    federation_digest,
    read_federation,
    read_party,
)
from colonnade.federation.problems import ProblemsError
from colonnade.federation.yaml_file import read_value

FEDERATION = """
name: study
parties:
  clinic: {address: "clinic.example.org:7101", fingerprint: "sha256:%s"}
  lab: {address: "[::1]:7102"}
active: clinic
label: outcome
task: {epochs: 3}
seed: 5
""" % ("ab" * 32)

PARTY = """
party: clinic
data: {path: clinic.csv, id_column: id}
"""


@pytest.fixture
def federation(tmp_path):
    def read(text):
        path = tmp_path / "federation.yaml"
        path.write_text(text)
        return read_federation(path)

    return read


@pytest.fixture
def party(tmp_path):
    def read(text):
        path = tmp_path / "party.yaml"
        path.write_text(text)
        return read_party(path)

    return read


def problems_of(read, text):
    with pytest.raises(ProblemsError) as error:
        read(text)
    assert error.value.exit_code == 3
    return error.value.problems


def test_a_good_pair_is_read_with_its_defaults(federation, party, tmp_path):
    file = federation(FEDERATION)
    assert list(file.parties) == ["clinic", "lab"]
    assert (file.active, file.passive, file.label, file.seed, file.heartbeat) == ("clinic", ("lab",), "outcome", 5, 5.0)
    assert (file.task.epochs, file.task.batch_size) == (3, 256)
    own = party(PARTY)
    assert own.data.path == tmp_path / "clinic.csv"
    assert own.runs == tmp_path / "runs"
    assert (own.defense.name, own.defense.strength, own.device, own.missing_party) == ("none", {}, "auto", "refuse")
    assert own.credentials is None


def test_paths_are_meant_from_the_files_own_folder(tmp_path, monkeypatch):
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "clinic.yaml").write_text(
        "party: clinic\ndata: {path: ../data/x.csv, id_column: id}\nruns: /var/runs\n"
        "credentials: {ca: k/ca.pem, certificate: k/c.pem, key: k/k.pem}\n"
    )
    monkeypatch.chdir(tmp_path)
    own = read_party(Path("study/clinic.yaml"))
    assert own.data.path.resolve() == tmp_path / "data" / "x.csv"
    assert own.runs == Path("/var/runs")
    assert own.credentials.key == folder / "k" / "k.pem"


def test_the_strength_of_a_defense_is_every_other_key(party):
    own = party(PARTY + "defense: {name: gaussian, sigma: 0.5}\n")
    assert (own.defense.name, own.defense.strength) == ("gaussian", {"sigma": 0.5})


@pytest.mark.parametrize("written", ["1e-2", "1E-2", "1.e-2", ".1e-1", "+1.0e-2", "0.1e-1", "0.01"])
def test_a_number_with_an_exponent_is_a_number(party, written):
    """PyYAML takes 1e-2 for text, and people would be told that a number is no number."""
    own = party(PARTY + f"defense: {{name: gaussian, sigma: {written}}}\n")
    assert own.defense.strength == {"sigma": 0.01}


@pytest.mark.parametrize("written", ["'1e-2'", "1e", "e-2", "1e-2x", "1e-2.5"])
def test_what_only_looks_like_a_number_stays_text(party, written):
    own = party(PARTY + f"defense: {{name: gaussian, sigma: {written}}}\n")
    assert own.defense.strength == {"sigma": written.strip("'")}


def test_a_value_alone_is_read_as_in_a_file():
    read = {"1e-3": 1e-3, "5": 5, "true": True, "some": "some", "[1, 2]": [1, 2], "": None}
    assert {text: read_value(text, "x") for text in read} == read


@pytest.mark.parametrize("text", ["[", "{a", "a: b: c", "*x", "\0", "2024-99-99", "!!int ''", "!!bool x", "[" * 5000])
def test_a_value_that_can_not_be_read_is_one_clear_error(text):
    with pytest.raises(ConfigError) as error:
        read_value(text, "decoder:epochs")
    assert str(error.value).startswith(f"decoder:epochs: {text!r} is no value")


@pytest.mark.parametrize(
    ("extra", "field", "close"),
    [
        ("heartbeet: 3", "heartbeet", "heartbeat"),
        ("task: {epoch: 3}", "task.epoch", "epochs"),
        ("task: {network: {famly: mlp}}", "task.network.famly", "family"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(federation, extra, field, close):
    (problem,) = problems_of(federation, FEDERATION.replace("task: {epochs: 3}", "") + extra)
    assert (problem.field, problem.remedy) == (field, f"did you mean '{close}'?")
    assert f"federation.yaml: {field}: unknown key" in str(problem)


def test_an_unknown_key_inside_a_party_names_the_nearest_known_one(federation, party):
    (problem,) = problems_of(federation, FEDERATION.replace('address: "[', 'fingerprnt: null, address: "['))
    assert (problem.field, problem.remedy) == ("parties.lab.fingerprnt", "did you mean 'fingerprint'?")
    text = PARTY + "credentials: {ca: a, certificate: b, key: c, keys: d}"
    (problem,) = problems_of(party, text)
    assert (problem.field, problem.remedy) == ("credentials.keys", "did you mean 'key'?")


def test_all_problems_of_a_file_come_at_once(federation):
    text = """
name: study
parties:
  Clinic: {address: "host:7101"}
  lab: {address: nowhere}
  bank: {adress: "bank:7101"}
active: clinik
task: {epochs: 0, kind: binry, split: {train: 0.5}}
seed: -1
colour: red
"""
    fields = {problem.field for problem in problems_of(federation, text)}
    assert fields == {
        "parties.Clinic", "parties.lab.address", "parties.bank.adress", "parties.bank.address", "active", "label",
        "task.epochs", "task.kind", "task.split", "seed", "colour",
    }  # fmt: skip


def test_the_error_prints_one_line_for_each_problem(federation):
    with pytest.raises(ConfigError) as error:
        federation(FEDERATION + "a: 1\nb: 2\n")
    assert len(str(error.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("old", "new", "field", "what"),
    [
        ("seed: 5", "seed: 2.5", "seed", "must be a valid integer"),
        ("seed: 5", "seed: yes", "seed", "must be a valid integer"),
        ("seed: 5", "heartbeat: 0", "heartbeat", "must be greater than 0"),
        ("label: outcome", "label: no", "label", "must be text, not False"),
        ("label: outcome", "label: ''", "label", "at least 1"),
        ("task: {epochs: 3}", "task: 3", "task", "must be a block of 'key: value' lines, not 3"),
        ("task: {epochs: 3}", "task: {epochs: three}", "task.epochs", "must be a valid integer"),
        ("task: {epochs: 3}", "task: {kind: binry}", "task.kind", "must not be 'binry'"),
        ("active: clinic", "active: clinik", "active", "'clinik' is no party"),
        ("abab", "xxxx", "parties.clinic.fingerprint", "is no fingerprint"),
        (":7101", ":71010", "parties.clinic.address", "write host:port"),
        (":7101", "", "parties.clinic.address", "write host:port"),
        ("[::1]:7102", "clinic.example.org:7101", "parties", "2 parties have the same address"),
        ("lab: {", "clinic laboratory: {", "parties.clinic laboratory", "no party name"),
    ],
)
def test_a_wrong_value_is_told_with_its_field(federation, old, new, field, what):
    (problem,) = problems_of(federation, FEDERATION.replace(old, new, 1))
    assert problem.field == field
    assert what in problem.what


def test_one_party_is_no_federation(federation):
    text = FEDERATION.replace('  lab: {address: "[::1]:7102"}\n', "")
    (problem,) = problems_of(federation, text)
    assert "at least 2" in problem.what


@pytest.mark.parametrize(
    ("text", "field", "what"),
    [
        ("data: {path: a.csv, id_column: id}", "party", "is missing"),
        (PARTY + "kinds: {age: contnuous}", "kinds.age", "must not be 'contnuous'"),
        (PARTY + "knowledge: {require: []}", "knowledge.require", "unknown key 'require'"),
        (PARTY + "knowledge: {required: [[age]]}", "knowledge.required.0.1", "is missing"),
        ("party: clinic\ndata: {path: a.csv}", "data.id_column", "is missing"),
        (PARTY + "device: gpu", "device", "'gpu' is no device"),
        (PARTY + "sensitive: age", "sensitive", "must be a list"),
        (PARTY + "listen: 7101", "listen", "must be text"),
        (PARTY + "missing_party: ignore", "missing_party", "must not be 'ignore'"),
    ],
)
def test_a_wrong_party_file_is_told_with_its_field(party, text, field, what):
    (problem,) = problems_of(party, text)
    assert problem.field == field
    assert what in problem.what


def test_what_discovery_needs_is_read(federation, party):
    block = 'coordinator: {name: hub, address: "hub:7103"}\ndiscovery: {epochs: 9}\nknowledge: {roots: [age]}\n'
    file = federation(FEDERATION.replace("active: clinic\nlabel: outcome\n", "") + block)
    assert (file.active, file.label, file.discovers) == (None, None, True)
    assert list(file.everybody) == ["clinic", "lab", "hub"]
    assert (file.coordinator.name, file.discovery.epochs, file.knowledge.roots) == ("hub", 9, ("age",))
    own = party(PARTY + "kinds: {age: count}\nknowledge: {forbidden: [[age, sex]]}\n")
    assert (own.kinds, own.knowledge.forbidden) == ({"age": "count"}, (("age", "sex"),))
    assert party("party: hub").data is None


def test_a_federation_that_only_trains_says_nothing_of_discovery(federation):
    assert not federation(FEDERATION).discovers


@pytest.mark.parametrize(
    ("coordinator", "field", "what"),
    [
        ('{name: lab, address: "hub:7103"}', "coordinator.name", "'lab' is a party"),
        ('{name: hub, address: "[::1]:7102"}', "parties", "2 parties have the same address"),
        ('{name: Hub, address: "hub:7103"}', "coordinator.name", "no party name"),
        ("{name: hub}", "coordinator.address", "is missing"),
        ('{nam: hub, name: hub, address: "hub:7103"}', "coordinator.nam", "unknown key 'nam'"),
    ],
)
def test_a_coordinator_that_cannot_be_is_told(federation, coordinator, field, what):
    (problem,) = problems_of(federation, FEDERATION + f"coordinator: {coordinator}\n")
    assert problem.field == field
    assert what in problem.what


@pytest.mark.parametrize(("given", "missing"), [("active: clinic\n", "active"), ("label: outcome\n", "label")])
def test_label_and_active_party_come_together(federation, given, missing):
    (problem,) = problems_of(federation, FEDERATION.replace(given, ""))
    assert (problem.field, problem.what) == (missing, "is missing")


def test_images_need_no_id_column(party):
    assert party("party: lab\ndata: {path: images.npz, kind: images}").data.id_column is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is no list of"),
        ("- a\n- b", "is no list of"),
        ("just text", "is no list of"),
        ("a: [1", "is no valid YAML"),
        ("a: \t- b: c: d", "is no valid YAML"),
        ("a: !!python/object/apply:os.system [ls]", "is no valid YAML"),
        ("? [1, 2]\n: 3", "is no valid YAML"),
        ("when: 2024-99-99", "is no valid YAML"),
        ("a: !!int ''", "is no valid YAML"),
        ("a: !!bool x", "is no valid YAML"),
        ("a: !!timestamp x", "is no valid YAML"),
        ("a: &x 1\nb: *x", "aliases are not allowed"),
        ("a: \x00", "is no valid YAML"),
        ("[" * 5000, "is no valid YAML"),
        ("a: 1\n---\nb: 2", "is no valid YAML"),
    ],
)
def test_what_is_no_settings_file_is_refused_without_a_traceback(federation, text, what):
    (problem,) = problems_of(federation, text)
    assert what in problem.what
    assert "federation.yaml" in str(problem)


def test_a_repeated_key_is_told_with_its_line(federation):
    """YAML itself would silently take the last one."""
    problems = problems_of(federation, FEDERATION + "label: other\n" + "task: {seed: 1, seed: 2}\n")
    assert [(p.what, p.field) for p in problems[:3]] == [
        ("key 'label' stands twice", "line 10"),
        ("key 'task' stands twice", "line 11"),
        ("key 'seed' stands twice", "line 11"),
    ]


def test_missing_folder_binary_and_huge_files_are_told(tmp_path):
    cases = {"missing": "does not exist", "folder": "cannot be read", "binary": "no UTF-8", "huge": "too large"}
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "huge").write_text("#" * (2 << 20))
    for name, what in cases.items():
        with pytest.raises(ProblemsError, match=what):
            read_federation(tmp_path / name)


def test_parties_notice_any_difference_that_matters(federation):
    digest = federation_digest(federation(FEDERATION))
    assert digest == federation_digest(
        federation(FEDERATION.replace("task: {epochs: 3}\n", "") + "task:\n  epochs: 3\n")
    )
    swapped = yaml.safe_load(FEDERATION)
    swapped["parties"] = dict(reversed(swapped["parties"].items()))
    others = [
        FEDERATION.replace("epochs: 3", "epochs: 4"),
        FEDERATION.replace("seed: 5", "seed: 6"),
        FEDERATION.replace("outcome", "income"),
        FEDERATION.replace("7101", "7109"),
        FEDERATION + "discovery: {epochs: 4}\n",
        FEDERATION + "knowledge: {roots: [age]}\n",
        yaml.safe_dump(swapped, sort_keys=False),
    ]
    digests = {federation_digest(federation(text)) for text in others}
    assert len(digests) == len(others)
    assert digest not in digests


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.dictionaries(st.sampled_from([*FederationFile.model_fields, "other"]), _values, max_size=7)
    | st.text(max_size=60)
)
def test_no_file_content_gives_anything_but_a_clear_error(tmp_path, content):
    path = tmp_path / "federation.yaml"
    text = content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True)
    path.write_text(text, encoding="utf-8", errors="replace")
    for read in (read_federation, read_party):
        with pytest.raises(ProblemsError) as error:
            read(path)
        assert error.value.problems
