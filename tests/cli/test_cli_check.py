"""`colonnade check`: defense, keys and peers are tried for real, before anything is sent."""

import json
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.cli.check import check_everything
from colonnade.defend import DEFENSES, Gaussian
from colonnade.wire.authority import Authority, make_kit


class Study:
    """Two parties on this host; keys, records and files in order unless a test changes them."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = Authority.create()
        prints = {name: make_kit(self.authority, name, folder / name) for name in ("clinic", "lab")}
        clinic = free_address()
        addresses = {"clinic": clinic, "lab": free_address([clinic])}
        self.federation = {
            "name": "study", "active": "clinic", "label": "outcome",
            "parties": {name: {"address": addresses[name], "fingerprint": prints[name]} for name in prints},
        }  # fmt: skip
        files = {"ca": "ca.pem", "certificate": "certificate.pem", "key": "key.pem"}
        self.party = {
            "party": "lab", "data": {"path": "lab.csv", "id_column": "id"},
            "credentials": {name: f"lab/{file}" for name, file in files.items()},
        }  # fmt: skip
        pd.DataFrame({"id": [1, 2], "glucose": [1.0, 2.0]}).to_csv(folder / "lab.csv", index=False)

    def become(self, party):
        """Check as `party`, with its own records and keys."""
        self.party["party"], self.party["data"]["path"] = party, f"{party}.csv"
        self.party["credentials"] = {
            name: file.replace("lab/", f"{party}/") for name, file in self.party["credentials"].items()
        }

    def write(self):
        (self.folder / "federation.yaml").write_text(yaml.safe_dump(self.federation))
        (self.folder / "lab.yaml").write_text(yaml.safe_dump(self.party))
        return self.folder / "federation.yaml", self.folder / "lab.yaml"

    def check(self, network=False):
        return check_everything(*self.write(), network=network)

    def command(self, *options):
        federation, party = map(str, self.write())
        arguments = ["check", federation, "--party", party, *options]
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})

    @contextmanager
    def peer(self, kit):
        """Let something listen at clinic's address with the certificate in `kit`, or without TLS for None."""
        port = int(self.federation["parties"]["clinic"]["address"].rpartition(":")[2])
        context = None
        if kit is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(kit / "ca.pem"))
            context.load_cert_chain(kit / "certificate.pem", kit / "key.pem")
            context.verify_mode = ssl.CERT_REQUIRED
        with ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", port)))
            server = threading.Thread(target=answer_until_closed, args=(listener, context))
            server.start()
            stack.callback(server.join)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            yield


def answer_until_closed(listener, context):
    while True:
        try:
            line, _ = listener.accept()
        except OSError:
            return
        line.settimeout(10)
        try:
            if context is not None:
                line = context.wrap_socket(line, server_side=True)
            line.sendall(b"a first byte, as every gRPC listener sends")
            line.recv(1)
        except OSError:
            pass  # the caller turned away, as it should
        finally:
            line.close()


def free_address(taken=()):
    """Return an address that nobody listens on, and none of those taken: a port that is let go may be drawn again."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
        if address not in taken:
            return address


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def only(problems):
    (problem,) = problems
    return problem


def test_a_study_in_order_has_no_problems(study):
    assert study.check() == []
    result = study.command("--offline")
    assert (result.exit_code, result.stdout) == (0, "no problems\n")


def test_problems_end_with_exit_code_3_and_are_all_shown(study):
    study.party |= {"defense": {"name": "gausian"}, "sensitive": ["glucos"], "credentials": None}
    result = study.command("--offline")
    assert result.exit_code == 3
    for part in ("did you mean 'gaussian'?", "did you mean 'glucose'?", "colonnade keys", "3 problems"):
        assert part in result.stdout


def test_machines_get_json(study):
    study.party["colour"] = "red"
    result = study.command("--offline", "--json")
    assert result.exit_code == 3
    problem = only(json.loads(result.stdout))
    assert (problem["severity"], problem["field"], problem["what"]) == ("problem", "colour", "unknown key 'colour'")
    assert problem["file"].endswith("lab.yaml")


def test_the_federation_file_alone(study):
    federation, _ = study.write()
    result = CliRunner().invoke(app, ["check", str(federation)])
    assert result.exit_code == 0


class TestDiscovery:
    """What discovery would stop at is told before, but only where a federation discovers."""

    @pytest.fixture
    def study(self, study):
        study.federation["coordinator"] = {
            "name": "hub",
            "address": free_address([entry["address"] for entry in study.federation["parties"].values()]),
            "fingerprint": "sha256:" + "0" * 64,
        }
        self.table(study, glucose=[1.5, 2.5, 2.0, 7.0], insulin=[1.5, 1.0, 3.5, 9.5])
        return study

    def table(self, study, **columns):
        frame = pd.DataFrame(columns).rename_axis("id")
        frame.to_csv(study.folder / "lab.csv")

    def test_columns_in_order_have_no_problems(self, study):
        assert study.check() == []

    @pytest.mark.parametrize(
        ("columns", "what"),
        [
            ({"glucose": [1.0] * 4, "insulin": [1.5, 1.0, 3.5, 9.5]}, "'glucose' is constant"),
            ({"glucose": [1.5, 2.5, 2.0, 7.0], "twice": [3.0, 5.0, 4.0, 14.0]}, "say the same thing"),
            ({"glucose": [1.5, None, 2.0, 7.0]}, "missing values"),
        ],
    )
    def test_columns_that_cannot_be_variables(self, study, columns, what):
        self.table(study, **columns)
        problem = only(study.check())
        assert (problem.field, what in problem.what) == ("data.columns", True)
        del study.federation["coordinator"]
        assert study.check() == [], "training can use them"

    def test_every_column_that_cannot_be_a_variable_is_named_at_once(self, study):
        """Told one a time, twenty constant columns take twenty looks at the same file."""
        self.table(study, glucose=[1.0] * 4, insulin=[1.5, None, 3.5, 9.5], age=[3, 1, 4, 1], years=[6, 2, 8, 2])
        study.party["kinds"] = {"glucose": "count", "heigth": "count"}
        told = {problem.what: problem.field for problem in study.check()}
        assert told == {
            "discovery: column 'glucose' is constant": "data.columns",
            "discovery: column 'insulin' has 1 missing values": "data.columns",
            "discovery: a kind is stated for 'heigth', no column": "kinds",
        }
        del study.party["kinds"]
        assert any("'age' and 'years' say the same thing" in problem.what for problem in study.check())

    def test_a_kind_for_no_column(self, study):
        study.party["kinds"] = {"glucos": "count"}
        problem = only(study.check())
        assert (problem.field, problem.remedy) == ("kinds", "did you mean 'glucose'?")

    def test_a_kind_that_does_not_fit(self, study):
        study.party["kinds"] = {"glucose": "count"}
        assert "stated to be a count" in only(study.check()).what

    @pytest.mark.parametrize(
        ("knowledge", "what"),
        [
            ({"required": [["glucose", "insulin"], ["insulin", "glucose"]]}, "cycle"),
            ({"required": [["glucose", "age"]], "sinks": ["glucose"]}, "required and also ruled out"),
            ({"roots": ["age"]}, "not about the party's own variables"),
        ],
    )
    def test_knowledge_that_cannot_be_true(self, study, knowledge, what):
        study.party["knowledge"] = knowledge
        problem = only(study.check())
        assert (problem.field, what in problem.what) == ("knowledge", True)

    def test_own_knowledge_against_what_all_know(self, study):
        study.federation["knowledge"] = {"forbidden": [["glucose", "age"]]}
        study.party["knowledge"] = {"required": [["glucose", "age"]]}
        problem = only(study.check())
        assert (problem.file.name, problem.field) == ("lab.yaml", "knowledge")

    def test_what_all_know_contradicts_itself(self, study):
        """The party would search its own file for a mistake that all have agreed on."""
        study.federation["knowledge"] = {"required": [["glucose", "age"], ["age", "glucose"]]}
        problem = only(study.check())
        assert (problem.file.name, problem.field) == ("federation.yaml", "knowledge")
        assert "cycle" in problem.what

    @pytest.mark.parametrize("without", ["data", "columns"])
    def test_what_all_know_is_checked_where_no_column_can_be(self, study, without):
        """A coordinator has no columns, and a party's may not be there yet: all start, and all stop."""
        study.federation["knowledge"] = {"required": [["glucose", "age"], ["age", "glucose"]]}
        if without == "data":
            self.become_hub(study)
        else:
            (study.folder / "lab.csv").unlink()
        told = [problem for problem in study.check() if problem.file.name == "federation.yaml"]
        assert (only(told).field, "cycle" in only(told).what) == ("knowledge", True)

    def test_what_all_know_is_checked_without_a_party_file(self, study):
        study.federation["knowledge"] = {"required": [["glucose", "age"], ["age", "glucose"]]}
        federation, _ = study.write()
        result = CliRunner().invoke(app, ["check", str(federation), "--offline"], env={"COLUMNS": "300"})
        assert (result.exit_code, "cycle" in result.stdout, "1 problem" in result.stdout) == (3, True, True)

    def test_what_all_know_does_not_hide_what_is_wrong_with_ones_own(self, study):
        study.federation["knowledge"] = {"required": [["glucose", "age"], ["age", "glucose"]]}
        study.party["knowledge"] = {"roots": ["age"]}
        assert [problem.file.name for problem in study.check()] == ["federation.yaml", "lab.yaml"]

    def test_the_coordinator_is_a_peer_too(self, study):
        notes = study.check(network=True)
        assert [(note.severity, note.field) for note in notes] == [("note", "peer clinic"), ("note", "peer hub")]

    def become_hub(self, study):
        prints = make_kit(study.authority, "hub", study.folder / "hub")
        study.federation["coordinator"]["fingerprint"] = prints
        files = {name: file.replace("lab/", "hub/") for name, file in study.party["credentials"].items()}
        study.party = {"party": "hub", "credentials": files}

    def test_the_coordinators_own_keys(self, study):
        self.become_hub(study)
        assert study.check() == []


def test_an_unknown_defense_names_the_nearest(study):
    study.party["defense"] = {"name": "gausian"}
    problem = only(study.check())
    assert (problem.field, problem.remedy) == ("defense.name", "did you mean 'gaussian'?")


@pytest.mark.parametrize("used", ["none", "gaussian"])
def test_a_protection_that_does_not_exist_is_no_partys_mistake(study, used):
    study.federation["task"] = {"protection": "gausian"}
    study.party["defense"] = {"name": used} | ({"sigma": 1.0} if used == "gaussian" else {})
    problem = only(study.check())
    assert (problem.file.name, problem.field) == ("federation.yaml", "task.protection")
    assert problem.remedy == "did you mean 'gaussian'?"


def test_other_packages_defenses_may_be_required(study, monkeypatch):
    monkeypatch.setitem(DEFENSES._entries, "theirs", Gaussian)
    study.federation["task"] = {"protection": "theirs"}
    assert only(study.check()).field == "defense.name"


@pytest.mark.parametrize(
    ("strength", "field"),
    [({"sgima": 1.0}, "defense"), ({"sigma": "strong"}, "defense.sigma"), ({"sigma": -1}, "defense.sigma")],
)
def test_a_strength_that_the_defense_does_not_take(study, strength, field):
    study.party["defense"] = {"name": "gaussian", **strength}
    assert only(study.check()).field == field


def test_a_defense_that_needs_labels_at_a_passive_party(study, monkeypatch):
    monkeypatch.setattr(Gaussian, "needs_labels", True)
    study.party["defense"] = {"name": "gaussian", "sigma": 1.0}
    assert "needs labels" in only(study.check()).what


def test_missing_credentials(study):
    study.party["credentials"] = None
    assert only(study.check()).field == "credentials"


def test_missing_credential_files_are_all_named(study):
    (study.folder / "lab" / "key.pem").unlink()
    (study.folder / "lab" / "ca.pem").unlink()
    assert [problem.field for problem in study.check()] == ["credentials.ca", "credentials.key"]


def test_an_expired_certificate(study):
    make_kit(study.authority, "lab", study.folder / "lab", days=-1, renew=True)
    assert "expired" in only(study.check()).what


def test_a_certificate_of_another_party(study):
    study.party["credentials"] = {
        key: file.replace("lab/", "clinic/") for key, file in study.party["credentials"].items()
    }
    assert "not that of 'lab'" in only(study.check()).what


def test_a_certificate_from_another_authority(study):
    make_kit(Authority.create(), "lab", study.folder / "other")
    study.party["credentials"] |= {"certificate": "other/certificate.pem", "key": "other/key.pem"}
    assert "not issued by" in only(study.check()).what


def test_a_private_key_that_others_can_read(study):
    (study.folder / "lab" / "key.pem").chmod(0o644)
    assert "open to other users" in only(study.check()).what


def test_a_fingerprint_that_does_not_match_the_federation_file(study):
    study.federation["parties"]["lab"]["fingerprint"] = "sha256:" + "0" * 64
    assert "fingerprint" in only(study.check()).what


def test_a_peer_that_has_not_started_is_a_note(study):
    problem = only(study.check(network=True))
    assert (problem.severity, "nobody listens" in problem.what) == ("note", True)
    assert study.command().exit_code == 0


def test_an_unknown_host_is_a_problem(study):
    study.federation["parties"]["clinic"]["address"] = "no-such-host.invalid:7101"
    problem = only(study.check(network=True))
    assert (problem.severity, problem.field) == ("problem", "peer clinic")
    assert "no host is known" in problem.what


@pytest.mark.parametrize(
    ("error", "why"), [(TimeoutError(), "no answer"), (OSError(113, "No route to host"), "No route")]
)
def test_an_unreachable_peer_is_a_problem(study, monkeypatch, error, why):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    problem = only(study.check(network=True))
    assert problem.severity == "problem"
    assert "cannot be reached" in problem.what
    assert why in problem.what


def test_a_defense_that_hides_nothing_from_anybody_is_noted(study):
    """With labels at the server the active party's uploads stay at home; its defense would only cost accuracy."""
    pd.DataFrame({"id": [1, 2], "age": [40, 50], "outcome": [0, 1]}).to_csv(study.folder / "clinic.csv", index=False)
    study.become("clinic")
    study.party["defense"] = {"name": "gaussian", "sigma": 0.5}
    problem = only(study.check())
    assert (problem.severity, problem.field) == ("note", "defense.name")
    study.federation["task"] = {"labels": "shared"}
    study.party["share_labels"] = True
    assert study.check() == [], "all parties see its uploads then"


@pytest.mark.parametrize(
    ("party", "columns", "floor", "severity"),
    [
        ("lab", None, 0.3, "problem"),
        ("lab", None, 0.22, "note"),
        ("clinic", None, 0.22, "problem"),
        ("clinic", [], 0.22, None),
        ("lab", None, 0.2, None),
    ],
)
def test_a_floor_that_all_weights_cannot_have_is_told_before_the_run(study, party, columns, floor, severity):
    """The run would end at the active party, while all others wait for it."""
    for name in ("bank", "insurer", "registry"):
        seen = make_kit(study.authority, name, study.folder / name)
        study.federation["parties"][name] = {"address": f"{name}:1", "fingerprint": seen}
    study.federation["task"] = {"weights": {"strategy": "shapley", "floor": floor}}
    pd.DataFrame({"id": [1, 2], "age": [40, 50], "outcome": [0, 1]}).to_csv(study.folder / "clinic.csv", index=False)
    study.become(party)
    study.party["data"]["columns"] = columns
    found = study.check()
    if severity is None:
        assert found == []
        return
    problem = only(found)
    assert (problem.severity, problem.field, problem.file.name) == (severity, "task.weights.floor", "federation.yaml")
    assert f"5 parties can't all weigh {floor}" in problem.what
    assert "at most 0.2" in problem.remedy


def test_a_peer_that_is_who_it_should_be(study):
    with study.peer(study.folder / "clinic"):
        assert study.check(network=True) == []


def test_a_peer_with_the_certificate_of_another_party(study):
    with study.peer(study.folder / "lab"):
        assert "that of another party" in only(study.check(network=True)).what


def test_a_peer_with_a_certificate_of_another_authority(study):
    make_kit(Authority.create(), "clinic", study.folder / "foreign")
    with study.peer(study.folder / "foreign"):
        assert "unknown CA" in only(study.check(network=True)).what


def test_a_peer_whose_fingerprint_is_not_the_expected_one(study):
    """The authority could give anybody clinic's name; the fingerprint is what the parties agreed on."""
    make_kit(study.authority, "clinic", study.folder / "newer")
    with study.peer(study.folder / "newer"):
        assert "fingerprint" in only(study.check(network=True)).what


def test_a_peer_that_does_not_accept_our_certificate(study):
    """It trusts another authority, so it would turn us away in the middle of the start."""
    foreign = study.folder / "foreign"
    make_kit(Authority.create(), "clinic", foreign)
    for file in ("certificate.pem", "key.pem"):
        (foreign / file).write_bytes((study.folder / "clinic" / file).read_bytes())
    with study.peer(foreign):
        assert only(study.check(network=True)).severity == "problem"


def test_something_else_that_listens_there(study):
    with study.peer(None):
        assert "no mutual TLS" in only(study.check(network=True)).what


def test_without_own_keys_a_peer_is_still_tried(study):
    study.party["credentials"] = None
    with study.peer(study.folder / "clinic"):
        assert only(study.check(network=True)).field == "credentials"
