"""Five real parties with secrets, weights and local updates: if these fail, they work in one process and nowhere else.

Over a network every party draws its noise from a secret of its own; here all have that of a simulation, so that runs
can be compared.
"""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from town import COLUMNS, Town

from colonnade.align.simulate import align_federation
from colonnade.data.secrets import prepare_secrets
from colonnade.learn.join import TrainingPlace
from colonnade.learn.part import Part
from colonnade.learn.simulate import federation_of, simulate
from colonnade.progress import Progress
from colonnade.run import Run
from colonnade.wire.channel import Channel

LABELS = ["server", "shared"]
ACTIVE_SAYS = {"server": {"plan", "gradient", "decision"}, "shared": {"plan", "head", "shared", "decision"}}
PASSIVE_SAYS = {"hello", "ready", "upload", "evaluate", "test"}
ALIGNING = {"memory", "align.hello", "align.list", "align.common", "align.digest"}
SECRETS = {"lab": ["sex"], "insurer": ["sex", "mass"], "gym": ["mass"], "bank": ["sex"]}


class SecretTown(Town):
    """Five parties of which all but the clinic have sensitive columns, which NashCoder hides."""

    def __init__(self, folder: Path, labels: str, missing: str = "drop") -> None:
        weights = {"strategy": "shapley", "every": 3}
        task = {"epochs": 3, "labels": labels, "local_updates": 2, "weights": weights, "missing": missing}
        super().__init__(folder, 5, heartbeat=8.0, **task)  # five processes may share two cores
        self.table["sex"] = np.where(self.table["glucose"] > 0, "woman", "man")
        # Like no number that a network computes.
        self.table["mass"] = np.round(70_000 + 9_000 * np.random.default_rng(5).normal(size=len(self.table)), 1)
        consent = {"share_labels": True} if labels == "shared" else {}
        self.write_yaml("clinic.yaml", {**self.file("clinic"), **consent})
        for party, secrets in SECRETS.items():
            held = self.table.iloc[::2] if (party, missing) == ("lab", "impute") else self.table
            held[[*COLUMNS[party], *secrets]].to_csv(folder / f"{party}.csv", index_label="id")
            defense = {"name": "nashcoder", "alpha": 0.3, "head_steps": 1}
            self.write_yaml(f"{party}.yaml", {**self.file(party), "sensitive": secrets, "defense": defense})

    def file(self, party: str) -> dict[str, object]:
        return {**self.own_file(party), "data": {"path": f"{party}.csv", "id_column": "id"}}

    def live(self, *arguments: str) -> None:
        self.start_all(*arguments)
        assert set(self.wait().values()) == {0}, [self.log(party) for party in self.parties]

    def ledger(self, party: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.run_folder(party) / "ledger.jsonl").read_text().splitlines()]

    def result(self, party: str) -> dict[str, Any]:
        return json.loads((self.run_folder(party) / "result.json").read_text())["result"]

    def places(self) -> list[TrainingPlace]:
        return [
            TrainingPlace.read(self.folder / "federation.yaml", self.folder / f"{party}.yaml") for party in self.parties
        ]


@pytest.fixture(scope="module", params=LABELS)
def town(request, tmp_path_factory):
    """A run over TLS that nobody disturbed."""
    made = SecretTown(tmp_path_factory.mktemp(request.param), request.param)
    made.labels = request.param
    made.live()
    return made


@pytest.mark.slow
def test_every_ledger_shows_exactly_what_left_its_party(town):
    for party in town.parties:
        Run.open(town.run_folder(party)).verify_ledger()
        lines = town.ledger(party)
        said = ACTIVE_SAYS[town.labels] if party == "clinic" else PASSIVE_SAYS
        assert {line["kind"] for line in lines} == said | ALIGNING, party
        if party != "clinic":
            heard = {line["to"] for line in lines if line["kind"] in PASSIVE_SAYS}
            assert heard == {"clinic"}, "passive parties tell each other nothing beyond the alignment"
        text = (town.run_folder(party) / "ledger.jsonl").read_text()
        assert not any(word in text for word in ("sex", "woman", "mass")), party


@pytest.mark.slow
def test_labels_travel_where_they_are_shared_and_nowhere_else(town):
    sent = {
        name for line in town.ledger("clinic") if line["kind"] in ("gradient", "shared") for name in line["tensors"]
    }
    if town.labels == "server":
        assert sent == {"gradient"}
        return
    assert {"labels", "mean"} < sent
    for line in town.ledger("clinic"):
        if line["kind"] == "shared":
            place = town.parties.index(line["to"])
            others = {f"upload/{other}" for other in range(5) if other != place}
            assert {name for name in line["tensors"] if name.startswith("upload/")} == others, "all uploads but its own"


@pytest.mark.slow
def test_a_run_over_tls_is_the_run_in_one_process(town, tmp_path, request):
    """Weights, defenses and the weighing of the parties; so what tests in one process show holds between hosts."""
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(1)  # as the processes have; sums over more threads differ in the last digit
    places = town.places()
    aligned = align_federation(federation_of(places))
    model = simulate(places, aligned, tmp_path, Progress(), resume=False, device=places[0].device)
    for party in town.parties:
        apart, together = Part.load(town.run_folder(party) / "model"), model.parts[party]
        for one, other in ((apart.bottom, together.bottom), (apart.top, together.top)):
            assert (one is None) == (other is None)
            if one is not None:
                pairs = zip(one.network.state_dict().values(), other.network.state_dict().values(), strict=True)
                assert all(torch.equal(ours, theirs) for ours, theirs in pairs), party
    result = town.result("clinic")
    weights = [value for name, value in result["history"][-1].items() if name.startswith("weight_")]
    assert len(weights) == 5 and sum(weights) == pytest.approx(1) and max(weights) > min(weights)
    own = town.result("insurer")["history"]
    logged = {"epoch", *(f"{what}_{secret}" for what in ("head_loss", "cost") for secret in ("sex", "mass"))}
    assert set(own[0]) == logged, "the log of a secret stays with its party"
    assert "sex" not in json.dumps(result)


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "missing"), [("server", "drop"), ("shared", "drop"), ("shared", "impute")])
def test_a_killed_passive_party_resumes_with_its_heads_and_the_same_weights(tmp_path, labels, missing):
    undisturbed, disturbed = (SecretTown(tmp_path / name, labels, missing) for name in ("undisturbed", "disturbed"))
    undisturbed.live()
    messages = undisturbed.sent_messages("lab")
    disturbed.start_all()
    assert disturbed.kill_after("lab", messages // 2), "the victim had ended already"
    codes = disturbed.wait(60)
    assert all(codes[party] == 6 for party in disturbed.parties if party != "lab"), codes
    disturbed.live("--resume")
    assert disturbed.weights() == undisturbed.weights()
    assert disturbed.result("lab")["history"] == undisturbed.result("lab")["history"], "what its heads lost"


@pytest.mark.slow
def test_a_finished_run_keeps_its_result_whoever_resumes_it(tmp_path):
    """Services always start with --resume: one that starts alone would lose what the run has found."""
    town = SecretTown(tmp_path, "server")
    town.live()
    weights, results = town.weights(), {party: found(town, party) for party in town.parties}
    town.start("lab", "--resume")
    await_status(town, "lab", "running")
    give_up(town, "lab")
    assert (Run.open(town.run_folder("lab")).status, found(town, "lab")) == ("finished", results["lab"])
    town.start_all("--resume")
    town.kill_after("lab", 3)  # or a little too late: then it has ended as before
    town.wait(60)
    for party in town.parties:
        assert Run.open(town.run_folder(party)).status == "finished" and found(town, party) == results[party]
        Run.open(town.run_folder(party)).verify_ledger()
    town.live("--resume")
    assert town.weights() == weights
    for party in town.parties:
        assert found(town, party) == results[party]
        Run.open(town.run_folder(party)).verify_ledger()


@pytest.mark.slow
def test_another_strength_at_a_resume_is_told_to_its_party_alone(tmp_path):
    """The others would read the name of a secret, or the run would go on less hidden than its party believes."""
    town = SecretTown(tmp_path, "server")
    town.live()
    defense = {"name": "nashcoder", "alpha": 0.9, "head_steps": 1}
    town.write_yaml("lab.yaml", {**town.file("lab"), "sensitive": ["sex"], "defense": defense})
    town.start("lab", "--resume")
    assert town.wait(30)["lab"] == 3
    assert "lab.yaml: defense.alpha: the run began with alpha 0.3, not 0.9" in " ".join(town.log("lab").split())
    assert Run.open(town.run_folder("lab")).status == "finished"


def found(town: SecretTown, party: str) -> dict:
    """What a party's run has found; how much its last attempt sent is another matter."""
    return town.result(party) | {"last_attempt": None}


def give_up(town: SecretTown, party: str) -> None:
    """Press Ctrl-C until it ends: while libraries start, one may be lost."""
    end = time.monotonic() + 60
    while town.processes[party].exitcode is None and time.monotonic() < end:
        os.kill(town.processes[party].pid, signal.SIGINT)
        town.processes[party].join(3)
    assert town.processes[party].exitcode, "it gave up"


def await_status(town: SecretTown, party: str, status: str) -> None:
    end = time.monotonic() + 30
    while Run.open(town.run_folder(party)).status != status:
        assert time.monotonic() < end and town.processes[party].is_alive(), town.log(party)
        time.sleep(0.05)


@pytest.mark.parametrize("labels", LABELS)
def test_no_secret_leaves_its_party(tmp_path, monkeypatch, labels):
    """All messages of a run in one process: no value of a secret, raw or prepared, and no word of it."""
    made = SecretTown(tmp_path / "files", labels)
    places = made.places()
    federation = align_federation(federation_of(places))
    messages, send = [], Channel.send

    def heard(self, to, kind, step, tensors=None, meta=None):
        messages.append((self.name, kind, dict(tensors or {}), dict(meta or {})))
        send(self, to, kind, step, tensors, meta)

    monkeypatch.setattr(Channel, "send", heard)
    simulate(places, federation, tmp_path / "run", Progress(), resume=False, device=places[0].device)
    assert {kind for party, kind, *_ in messages if party != "clinic"} == PASSIVE_SAYS
    assert {kind for party, kind, *_ in messages if party == "clinic"} == ACTIVE_SAYS[labels]
    hidden = [federation.records[party].secrets for party in SECRETS]
    prepared = [one.values for frame in hidden for one in prepare_secrets(frame, np.arange(len(frame)), "")]
    for party, kind, tensors, meta in messages:
        assert not any(word in json.dumps(meta) for word in ("sex", "woman", "mass")), (party, kind)
        for name, tensor in tensors.items():
            if name == "labels" or kind in ("hello", "plan"):
                continue  # labels where they are agreed to be shown; whose record is where, and what it is for
            assert not np.isin(np.round(tensor, 1), made.table["mass"].to_numpy().astype(np.float32)).any(), kind
            rows = np.reshape(tensor, (len(tensor), -1)) if tensor.ndim else np.zeros((0, 0))
            told = rows[:, np.ptp(rows, axis=0) > 0] if len(rows) >= 8 else rows[:0]  # units that are off are all zero
            # A column with no values but a secret's would be that secret.
            assert not any(len(told) and np.isin(told, values).all(0).any() for values in prepared), (kind, name)
