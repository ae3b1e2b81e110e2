"""Every error of the reference is made here: if one fails, people look up a line and find another, or none.

The page tells for each error when it happens, what to do, the command or call, and the line that comes out. Here stand
the mistakes themselves, under the same rooms and the same words. Page and table must name the same errors.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import socket
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from PIL import Image
from typer.testing import CliRunner

import colonnade as co
import colonnade.errors
import test_docs
from colonnade.audit.challenge import read_challenge
from colonnade.audit.source import federation_from
from colonnade.cli import app
from colonnade.learn.join import TrainingPlace, join
from colonnade.progress import make_progress
from colonnade.run import Run
from colonnade.wire.authority import Authority
from colonnade.wire.deadline import Deadline
from colonnade.wire.frame import encode
from colonnade.wire.header import Limits
from colonnade.wire.local import local_channels
from colonnade.wire.message import Message
from colonnade.wire.network import NetworkChannel
from colonnade.wire.preflight import Peer
from colonnade.wire.tls import Credentials

STUDY = "/home/ada/study"
PAGE = test_docs.REFERENCE / "errors.md"
BASES = {"ColonnadeError", "WireError"}
"""Never raised themselves."""
PARTY_FILES = "--party clinic.yaml --party lab.yaml"
TRAINED = {"Predicting", "Auditing", "Challenges", "Auditing secrets", "Runs, reports and benches"}
"""The rooms whose commands need what a training has left."""

Mistake = Callable[[Path], Any]
"""Makes a mistake in the folder of a study. It may return a context to keep while the command runs, or, for a call in
Python, what the names in the call mean."""


# -- how mistakes are made --------------------------------------------------------------------------------------------


def nothing(folder: Path) -> None:
    """The command itself is the mistake."""


def edit(name: str, old: str, new: str) -> Mistake:
    """`old` becomes `new` in a file."""

    def make(folder: Path) -> None:
        file = folder / name
        changed = re.sub(old, new, file.read_text(), flags=re.MULTILINE)
        assert changed != file.read_text()
        file.write_text(changed)

    return make


def table(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Mistake:
    """A table becomes another one."""

    def make(folder: Path) -> None:
        change(pd.read_csv(folder / name)).to_csv(folder / name, index=False)

    return make


def column(name: str, title: str, values: Any) -> Mistake:
    """A column of a table gets other values, or is new."""
    return table(name, lambda frame: frame.assign(**{title: values}))


def write(name: str, content: str | bytes) -> Mistake:
    """A file holds something else."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def damage(name: str) -> Mistake:
    """The last byte of a file changes."""

    def make(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    return make


def all_of(*mistakes: Mistake) -> Mistake:
    """Several things are done, in this order."""

    def make(folder: Path) -> dict[str, Any] | None:
        return [mistake(folder) for mistake in mistakes][-1]

    return make


def defense(name: str, **strength: Any) -> Mistake:
    """The lab chooses a defense."""
    chosen = yaml.safe_dump({"name": name, **strength}).strip().replace("\n", "\n  ")
    return edit("lab.yaml", "^  name: none.*", f"  {chosen}")


def sensitive(*names: str) -> Mistake:
    """The lab names sensitive columns."""
    return edit("lab.yaml", r"^sensitive: \[\]", f"sensitive: [{', '.join(names)}]")


def site(values: Callable[[pd.DataFrame], Any]) -> Mistake:
    """The lab names a sensitive column that is no feature."""
    return all_of(sensitive("site"), table("lab.csv", lambda frame: frame.assign(site=values(frame))))


def pictures(path: str) -> Mistake:
    """The lab's records are pictures."""
    return all_of(edit("lab.yaml", "lab.csv", path), edit("lab.yaml", "^  kind: table", "  kind: images"))


def coordinator(name: str = "hub") -> Mistake:
    """The federation has a coordinator, who has a file of its own."""
    entry = f"coordinator: {{name: {name}, address: '127.0.0.1:7103'}}"
    return all_of(
        edit("federation.yaml", "^coordinator: null", entry), write("hub.yaml", "party: hub\nruns: runs/hub\n")
    )


def knowledge(file: str, part: str, edges: str) -> Mistake:
    """Something is known about the graph."""
    return edit(file, rf"^  {part}: \[\]", f"  {part}: {edges}")


def python(**names: Callable[[Path], Any]) -> Mistake:
    """What the names in a Python call mean."""
    return lambda folder: {name: value(folder) for name, value in names.items()}


def federation(_: Path) -> co.Federation:
    """The study as a federation in Python, aligned."""
    return federation_from(Path("federation.yaml"), [Path("clinic.yaml"), Path("lab.yaml")])


def two_tables(_: Path) -> dict[str, pd.DataFrame]:
    """The study as a reader has it in Python."""
    return {party: pd.read_csv(f"{party}.csv", index_col="id") for party in ("clinic", "lab")}


def unaligned(folder: Path) -> co.Federation:
    """The study as a federation whose records nobody has aligned."""
    return co.Federation.from_frames(two_tables(folder), label=("clinic", "outcome"))


def saved_model(_: Path) -> co.VerticalModel:
    """The model that the training has left."""
    return co.load("model")


# -- mistakes that take more than a line ------------------------------------------------------------------------------


def repeat_the_last_record(folder: Path) -> None:
    lab = folder / "lab.csv"
    lab.write_text(lab.read_text() + lab.read_text().splitlines()[-1] + "\n")


def take_the_labs_key(folder: Path) -> None:
    shutil.copy(folder / "keys/lab/key.pem", folder / "keys/clinic/key.pem")


def draw_two_sizes(folder: Path) -> None:
    (folder / "scans").mkdir()
    for number, size in enumerate([32, 28], start=1):
        Image.new("L", (size, size)).save(folder / f"scans/p000{number}.png")


def open_the_key(folder: Path) -> None:
    (folder / "keys/clinic/key.pem").chmod(0o644)


def issue(folder: Path, party: str, days: float) -> None:
    """Give a party a certificate whose dates and fingerprint are the same in every test run."""
    authority = Authority.open(folder / "keys/ca")
    key = ec.derive_private_key(2026, ec.SECP256R1())
    kit = folder / "keys" / party
    (kit / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (kit / "certificate.pem").write_bytes(authority.issue(party, key, days).public_bytes(Encoding.PEM))


def expire(folder: Path) -> None:
    issue(folder, "clinic", -(datetime.now(UTC) - datetime(2026, 1, 31, 12, tzinfo=UTC)).total_seconds() / 86400)


class Early(datetime):
    """A clock that was never set."""

    @classmethod
    def now(cls, zone: Any = None) -> datetime:
        return datetime(2001, 1, 1, tzinfo=zone)


@contextlib.contextmanager
def forget_the_clock(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("colonnade.wire.tls.datetime", Early)
        yield


@contextlib.contextmanager
def have_no_gpu(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        yield


@contextlib.contextmanager
def have_ray(folder: Path) -> Iterator[None]:
    """It is an extra; where nobody listens, it is not asked either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: False))
        yield


@contextlib.contextmanager
def have_no_data_sets(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLONNADE_DATA", str(folder / "data"))
        yield


@contextlib.contextmanager
def choose_a_defense_that_needs_labels(folder: Path) -> Iterator[None]:
    """None of ours does; somebody else's may."""

    class Supervised(co.Defense):
        name, needs_labels = "supervised", True

    defense("supervised")(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(co.defenses()._entries, "supervised", Supervised)
        yield


def address(folder: Path, party: str) -> str:
    return str(yaml.safe_load((folder / "federation.yaml").read_text())["parties"][party]["address"])


@contextlib.contextmanager
def take_the_port(folder: Path) -> Iterator[None]:
    host, port = address(folder, "clinic").split(":")
    with socket.create_server((host, int(port))):
        yield


@contextlib.contextmanager
def write_the_run_elsewhere(folder: Path) -> Iterator[None]:
    with Run.create("clinic", {}, folder / "runs/train"):
        yield


def another_authority(folder: Path) -> None:
    other = Authority.create().certificate.public_bytes(Encoding.PEM)
    (folder / "keys/clinic/ca.pem").write_bytes(other)


@contextlib.contextmanager
def let_another_clinic_answer(folder: Path) -> Iterator[None]:
    """The clinic has the right name and the wrong key: the file names another fingerprint."""
    issue(folder, "clinic", 30)
    here = address(folder, "clinic")
    edit("federation.yaml", f"(?<={here})\n    fingerprint: null", f"\n    fingerprint: sha256:{'0' * 64}")(folder)
    kit = Credentials.in_folder(folder / "keys/clinic")
    quick = Deadline(connect=60, reply=1, heartbeat=1)
    with NetworkChannel(
        "clinic", {"lab": Peer(None)}, "federation", kit, order=["clinic", "lab"], listen=here, deadline=quick
    ):
        yield


@contextlib.contextmanager
def let_the_lab_use_another_file(folder: Path) -> Iterator[None]:
    shutil.copy(folder / "federation.yaml", folder / "other.yaml")
    edit("other.yaml", "^  epochs: 20", "  epochs: 30")(folder)
    place = TrainingPlace.read(folder / "other.yaml", folder / "lab.yaml")

    def come() -> None:
        with contextlib.suppress(colonnade.errors.WireError):
            join(place, make_progress("silent"), resume=False, wait=20)

    lab = threading.Thread(target=come)
    lab.start()
    yield
    lab.join()


def wait_in_vain(folder: Path) -> None:
    clinic, _ = local_channels(["clinic", "lab"], deadline=Deadline(reply=0.1)).values()
    clinic.recv("lab", "upload", 0)


def say_what_only_others_may(folder: Path) -> None:
    _, lab = local_channels(["clinic", "lab"], allowed={"lab": frozenset({"upload"})}).values()
    lab.send("clinic", "decision", 0)


def send_too_much(folder: Path) -> None:
    upload = {"upload": np.zeros((1024, 1024), np.float32)}
    encode(Message("study", "lab", "upload", 0, upload), limits=Limits(frame_bytes=2**20))


# -- the mistakes, room by room ---------------------------------------------------------------------------------------

ROOMS: dict[str, dict[str, Mistake]] = {
    "Federation and party files": {
        "A key is misspelt": edit("federation.yaml", "^  epochs: 20", "  epoch: 20"),
        "The federation file is not there": nothing,
        "A file is no YAML": edit("federation.yaml", "^    train: 0.8", "    train: [0.8"),
        "A key stands twice": edit("federation.yaml", "^seed: 0", "seed: 0\nseed: 1"),
        "A key that must be there is missing": edit("lab.yaml", "^party: .*", ""),
        "A word is none of those that are allowed": edit("federation.yaml", "family: mlp ", "family: resnet "),
        "A number is out of its range": edit("federation.yaml", "^  epochs: 20", "  epochs: 0"),
        "A number stands where text is needed": edit("federation.yaml", "^label: .*", "label: 1"),
        "One name stands where a list is needed": edit("lab.yaml", r"^sensitive: \[\]", "sensitive: worst area"),
        "One value stands where a block is needed": edit("lab.yaml", "^defense:\n  name: none.*", "defense: gaussian"),
        "The shares of the split do not add up": edit("federation.yaml", "^    test: 0.1", "    test: 0.2"),
        "Patience has nothing to look at": all_of(
            edit("federation.yaml", "^  patience: null", "  patience: 5"),
            edit("federation.yaml", "^    validation: 0.1\n    test: 0.1", "    validation: 0.0\n    test: 0.2"),
        ),
        "The active party is no party": edit("federation.yaml", "^active: .*", "active: clinik"),
        "The active party is named without the label": edit("federation.yaml", "^label: .*", "label: null"),
        "A party's name has capital letters": edit("federation.yaml", "^  lab:", "  Lab:"),
        "An address has no port": edit("federation.yaml", r"(address: 127.0.0.1):\d+(?=\n.*\n  lab)", r"\1"),
        "Two parties have the same address": lambda folder: edit(
            "federation.yaml", address(folder, "lab"), address(folder, "clinic")
        )(folder),
        "A fingerprint is cut off": edit("federation.yaml", "null(?=\n  lab)", "sha256:9cceec9c2e429e60"),
        "There is no such kind of device": edit("clinic.yaml", "^device: auto", "device: gpu"),
        "There is no GPU": all_of(edit("clinic.yaml", "^device: auto", "device: cuda"), have_no_gpu),
        "No id column is named": edit("lab.yaml", "^  id_column: .*", ""),
        "A party file does not say where the records are": edit("lab.yaml", r"^data:\n(  .*\n)+", ""),
        "A party file is that of somebody else": edit("clinic.yaml", "^party: .*", "party: klinik"),
        "A party's file was not given": nothing,
        "A party's file was given twice": nothing,
        "Nobody has agreed on a label": all_of(
            edit("federation.yaml", "^active: .*", ""), edit("federation.yaml", "^label: .*", "")
        ),
        "Labels are to be shared, and their owner has not agreed": edit(
            "federation.yaml", "^  labels: server", "  labels: shared"
        ),
        "The coordinator is a party": coordinator("lab"),
        "The coordinator wants to train": coordinator(),
    },
    "Writing files and making keys": {
        "A federation needs two parties": nothing,
        "The files are there already": nothing,
        "A party is named twice": nothing,
        "The label's owner is none of the parties": nothing,
        "The label's owner is named, the label is not": nothing,
        "The kits are there already": nothing,
        "The authority's key is gone": lambda folder: (folder / "keys/ca/key.pem").unlink(),
        "A party is called as the authority's folder": nothing,
    },
    "Records": {
        "There is no such table": edit("lab.yaml", "lab.csv", "labs.csv"),
        "The table is of another kind": all_of(edit("lab.yaml", "lab.csv", "lab.xlsx"), write("lab.xlsx", "")),
        "The table is empty": write("lab.csv", ""),
        "The table has a header and nothing else": write("lab.csv", "id,mean radius\n"),
        "A row is longer than the header": edit(
            "lab.csv", r"\Z", "p9999,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21\n"
        ),
        "The table is no UTF-8": write("lab.csv", "id,größe\np0001,1\n".encode("latin-1")),
        "Two columns have the same name": edit("lab.csv", "texture error", "radius error"),
        "There is no such id column": edit("lab.yaml", "^  id_column: id ", "  id_column: patient "),
        "An id is missing": edit("lab.csv", r"^p0512(?=,)", ""),
        "A record is in the file twice": repeat_the_last_record,
        "There is no such column": edit("lab.yaml", "^  columns: null", "  columns: [radius error, worst aera]"),
        "A column is listed twice": edit("lab.yaml", "^  columns: null", "  columns: [worst area, worst area]"),
        "A column holds dates": column("lab.csv", "worst area", "2024-03-01"),
        "A column holds infinite values": column("lab.csv", "worst area", np.inf),
        "A column is empty": column("lab.csv", "worst area", np.nan),
        "A passive party takes part without columns": edit("lab.yaml", "^  columns: null", "  columns: []"),
    },
    "Labels": {
        "There is no such label": edit("federation.yaml", "^label: .*", "label: outcom"),
        "A passive party holds the label": column("lab.csv", "outcome", 1),
        "The label is also a feature": edit("clinic.yaml", "^  columns: null", "  columns: [mean area, outcome]"),
        "A label is missing": table(
            "clinic.csv", lambda frame: frame.assign(outcome=frame["outcome"].where(frame.index != 7))
        ),
        "All labels are the same": column("clinic.csv", "outcome", 1),
        "A binary task has more than two classes": all_of(
            edit("federation.yaml", "^  kind: auto", "  kind: binary"),
            table("clinic.csv", lambda frame: frame.assign(outcome=frame.index % 3)),
        ),
        "A regression has a label that is text": all_of(
            edit("federation.yaml", "^  kind: auto", "  kind: regression"),
            table("clinic.csv", lambda frame: frame.assign(outcome=frame["outcome"].map({0: "ill", 1: "well"}))),
        ),
        "There is no such split column": edit("federation.yaml", "^    test: 0.1", "    test: 0.1\n    column: part"),
        "A record is in no part of the split": all_of(
            edit("federation.yaml", "^    test: 0.1", "    test: 0.1\n    column: part"),
            table(
                "clinic.csv", lambda frame: frame.assign(part=["train", "test", "tset"] + ["train"] * (len(frame) - 3))
            ),
        ),
    },
    "Pictures": {
        "A folder holds no pictures": all_of(pictures("scans"), lambda folder: (folder / "scans").mkdir()),
        "The archive is not there": pictures("scans.npz"),
        "The archive holds no pictures": all_of(
            pictures("scans.npz"), lambda folder: np.savez(folder / "scans.npz", scans=[1])
        ),
        "Pictures are of different sizes": all_of(pictures("scans"), draw_two_sizes),
        "Columns are listed for pictures": all_of(
            pictures("scans"), edit("lab.yaml", "^  columns: null", "  columns: [worst area]")
        ),
        "Pictures have their channels last": python(
            images=lambda _: np.zeros((40, 32, 32, 3), np.uint8), labels=lambda _: np.arange(40) % 2
        ),
    },
    "Secrets": {
        "There is no such sensitive column": sensitive("worst aera"),
        "The label is no secret": edit("clinic.yaml", r"^sensitive: \[\]", "sensitive: [outcome]"),
        "A sensitive column is listed twice": sensitive("worst area", "worst area"),
        "A defense hides sensitive columns, and none is named": defense("nashcoder", alpha=1.0),
        "Alpha is out of its range": all_of(defense("nashcoder", alpha=-1), sensitive("worst area")),
        "A sensitive column is constant": all_of(defense("nashcoder", alpha=1.0), site(lambda frame: "north")),
        "A sensitive column has another value in every record": all_of(
            defense("nashcoder", alpha=1.0), site(lambda frame: [f"room {place}" for place in range(len(frame))])
        ),
    },
    "Aligning": {
        "The parties spell their ids differently": edit("lab.csv", "^p", "P"),
        "One party has numbers, the other text": edit("lab.csv", "^p0*(?=[0-9])", ""),
        "In Python, an unknown policy": python(federation=unaligned),
    },
    "Keys and the network": {
        "No keys are named": edit("clinic.yaml", r"^credentials:\n(  .*\n)+", ""),
        "A key file is missing": lambda folder: (folder / "keys/clinic/certificate.pem").unlink(),
        "A key file is damaged": write("keys/clinic/ca.pem", "-----BEGIN"),
        "The private key is open to others": open_the_key,
        "The private key is that of another certificate": take_the_labs_key,
        "The kit is that of another party": edit("clinic.yaml", "keys/clinic/(certificate|key)", r"keys/lab/\1"),
        "The certificate has expired": expire,
        "The certificate is not valid yet": forget_the_clock,
        "The certificate comes from another authority": another_authority,
        "A party has another key than the federation file says": let_another_clinic_answer,
        "Somebody else listens at the port": take_the_port,
        "Nobody came": nothing,
        "A party has another federation file": let_the_lab_use_another_file,
    },
    "Peers that do wrong": {
        "The lab is there, but does not answer": wait_in_vain,
        "The lab says what only an active party may say": say_what_only_others_may,
        "A message is larger than any may be": send_too_much,
    },
    "Training": {
        "A run of this name is there already": lambda folder: (folder / "runs/train/clinic").mkdir(parents=True),
        "There is no run to resume": nothing,
        "Another process writes the run": write_the_run_elsewhere,
        "The run has another name than folders may have": nothing,
        "The federation requires a defense that a party does not use": edit(
            "federation.yaml", "^  protection: null", "  protection: gaussian"
        ),
        "The federation requires a defense that does not exist": edit(
            "federation.yaml", "^  protection: null", "  protection: gausian"
        ),
        "A floor that all parties can't have": edit(
            "federation.yaml", "^    strategy: none", r"    strategy: shapley\n    floor: 0.9"
        ),
        "A network for pictures is given a table": edit("federation.yaml", "family: mlp ", "family: resnet18 "),
        "The learning rate is far too large": edit(
            "federation.yaml", "^    learning_rate: .*", "    learning_rate: 1.0e+30"
        ),
        "In Python, a setting is misspelt": python(federation=federation),
        "In Python, nobody holds a label": python(frames=two_tables),
        "In Python, the records are not aligned": python(federation=unaligned),
        "In Python, a column is misspelt": python(frame=lambda folder: two_tables(folder)["clinic"]),
        "In Python, a party gets no columns": python(frame=lambda folder: two_tables(folder)["clinic"]),
    },
    "Defenses": {
        "There is no such defense": defense("gausian", sigma=1.0),
        "A defense has no such parameter": defense("gaussian", sigm=1.0),
        "A strength is out of its range": defense("gaussian", sigma=-1),
        "One level is asked for": defense("keystone", levels=1),
        "A strength is no number": defense("nashcoder", alpha="high"),
        "A share is out of its range": defense("prune", rate=1.5),
        "Privacy is asked for without any noise": defense("dp_gaussian", epsilon=0),
        "A defense needs labels, and the party has none": choose_a_defense_that_needs_labels,
        "A defense needs a graph that is not there": defense("causshield", graph="graph.json"),
        "In Python, a defense is given to nobody": python(federation=federation),
    },
    "Discovering": {
        "A column is constant": column("lab.csv", "worst area", 1.5),
        "Two columns say the same": table("lab.csv", lambda frame: frame.assign(double=2 * frame["worst area"])),
        "Values are missing": table(
            "lab.csv", lambda frame: frame.assign(**{"worst area": frame["worst area"].where(frame.index > 2)})
        ),
        "There are fewer records than columns": table("lab.csv", lambda frame: frame.head(12)),
        "There are too few common records": table("lab.csv", lambda frame: frame.head(30)),
        "A party has no columns": edit("lab.yaml", "^  columns: null", "  columns: []"),
        "Two parties call a column the same": edit("lab.csv", "radius error", "mean radius"),
        "Required edges form a cycle": knowledge(
            "federation.yaml", "required", "[[mean area, worst area], [worst area, mean area]]"
        ),
        "An edge is required and forbidden": all_of(
            knowledge("federation.yaml", "required", "[[mean area, worst area]]"),
            knowledge("federation.yaml", "forbidden", "[[mean area, worst area]]"),
        ),
        "What is known names no column": knowledge("federation.yaml", "roots", "[mean aera]"),
        "A party speaks of others' edges": knowledge("lab.yaml", "required", "[[mean area, mean radius]]"),
        "A kind is stated for no column": edit("lab.yaml", r"^kinds: \{\}", "kinds: {worst aera: continuous}"),
        "A column is not of the kind that is stated": edit("lab.yaml", r"^kinds: \{\}", "kinds: {worst area: binary}"),
        "Nobody coordinates": nothing,
        "The coordinator has data": all_of(
            coordinator(), write("hub.yaml", "party: hub\ndata: {path: lab.csv, id_column: id}\n")
        ),
        "In Python, there is no such recipe": python(federation=federation),
        "In Python, there is no such setting": python(federation=federation),
    },
    "Predicting": {
        "There is no saved model": nothing,
        "No records are named": nothing,
        "A column is missing that the model knows": table("new.csv", lambda frame: frame.drop(columns="worst area")),
        "A party's columns are missing": table("new.csv", lambda frame: frame[frame.columns[:11]]),
        "A column has changed its kind": column("new.csv", "worst area", "large"),
        "The saved model is damaged": write("model/model.json", ""),
        "In Python, a party's records are missing": python(
            model=saved_model, frame=lambda folder: two_tables(folder)["clinic"]
        ),
    },
    "Auditing": {
        "The folder holds no trained model": nothing,
        "There is no such attack": nothing,
        "An attack has no such parameter": nothing,
        "A parameter has no value": nothing,
        "A parameter's value can't be read": nothing,
        "The folder for the result can't be written": nothing,
        "No records are named to audit with": nothing,
        "The share of the attacker is no share": nothing,
        "Too few records were held out": table("new.csv", lambda frame: frame.head(3)),
        "The attack would have to take part in a training": nothing,
        "There is no passive party's part": nothing,
        "There is no GPU to compute on": have_no_gpu,
        "There is no such engine": nothing,
        "No cluster answers at the address": have_ray,
        "In Python, the model knows no records": python(model=saved_model),
    },
    "Challenges": {
        "Nothing is granted": nothing,
        "Several attacks are named": nothing,
        "There is no such knowledge": nothing,
        "Labels are granted, and there are none": nothing,
        "The attack reads a training": nothing,
        "The attack takes part in a training": nothing,
        "The truth would lie with the attacker": nothing,
        "The folder is there already": nothing,
        "There is no truth in the folder": nothing,
        "The truth was altered": damage("truth/truth.safetensors"),
        "There is no file of guesses": nothing,
        "The guesses have another name": lambda folder: np.savez(folder / "guesses.npz", guess=np.zeros((5, 20))),
        "The guesses do not fit": lambda folder: np.savez(folder / "guesses.npz", guesses=np.zeros((5, 20))),
        "The guesses are no numbers": lambda folder: np.savez("guesses.npz", guesses=np.full((30, 20), np.nan)),
        "The guesses are far too large": lambda folder: np.savez("guesses.npz", guesses=np.full((30, 20), 1e200)),
        "In Python, the challenge was altered": all_of(
            damage("challenge/uploads.safetensors"), python(read_challenge=lambda _: read_challenge)
        ),
        "In Python, an attack takes what it was not granted": python(evidence=lambda _: read_challenge("challenge")),
    },
    "Auditing secrets": {
        "No party has named a secret": nothing,
        "There is no such sensitive column": sensitive("worst aera"),
        "The secret is constant": site(lambda frame: "north"),
        "There is no such attacker": nothing,
        "The attacker reads pictures only": site(lambda frame: frame.index % 2),
        "Too little is known of the secret": site(lambda frame: np.where(frame.index % 9, None, frame.index % 2)),
        "A secret is a column that the model was trained with": sensitive("worst area"),
        "In Python, the secret is at a party that uploads nothing": python(
            model=saved_model, federation=federation, secrets=lambda folder: two_tables(folder)["clinic"][["mean area"]]
        ),
    },
    "Runs, reports and benches": {
        "There is no folder of runs": nothing,
        "There is no run to watch": nothing,
        "What a run has left is damaged": write("runs/train/lab/result.json", "{"),
        "There is no folder to report on": nothing,
        "The folder holds nothing to report on": lambda folder: (folder / "empty").mkdir(),
        "The folder of the demo is not empty": nothing,
        "There is no such bench": nothing,
        "A cluster's address, and no cluster": nothing,
        "There is no such preset": nothing,
        "The data sets of a bench are not there": have_no_data_sets,
        "The doctor needs both files": nothing,
    },
}


# -- page and mistakes together ---------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """An error as the page has it."""

    room: str
    title: str
    kind: str
    code: int
    remedy: str
    call: str
    line: str


_ENTRY = re.compile(
    r"^\*\*(?P<title>[^*\n]+)\*\* \(`(?P<kind>\w+)`, (?P<code>\d+)\)\. (?P<remedy>[^\n]+)\n\n"
    r"```text\n(?P<text>.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)
_USUAL = re.compile(r"Where no command stands above a line, it was `(colonnade [^`]+)`")
"""What a room says once for all its errors."""


def entries() -> Iterator[Entry]:
    """Yield the errors of the page, room by room."""
    for room in re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        usual = _USUAL.search(room)
        for found in _ENTRY.finditer(room):
            *call, line = found["text"].split("\n")
            typed = call[0] if call else usual[1] if usual else ""
            name = room.split("\n")[0]
            yield Entry(name, found["title"], found["kind"], int(found["code"]), found["remedy"], typed, line)


ENTRIES = list(entries())


def type_in(line: str) -> Any:
    return CliRunner().invoke(app, shlex.split(line)[1:])


def succeed(line: str) -> None:
    result = type_in(line)
    assert result.exit_code == 0, f"{line}: {result.stderr or result.exception!r}"


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the first steps, at ports that are free here."""
    folder = tmp_path_factory.mktemp("study")
    program = next(block for block in test_docs.blocks(test_docs.DOCS / "getting-started.md") if block.file)
    with contextlib.chdir(folder):
        exec(compile(program.text, program.file, "exec"), {})
        for line in ("colonnade init clinic lab --active clinic --label outcome", "colonnade keys clinic lab"):
            succeed(line)
    for number, port in enumerate(test_docs.free_ports(2)):
        edit("federation.yaml", f"127.0.0.1:{7101 + number}", f"127.0.0.1:{port}")(folder)
    return folder


@pytest.fixture(scope="module")
def trained(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after a short training, with new records, a challenge, and guesses for it."""
    folder = tmp_path_factory.mktemp("trained") / "study"
    shutil.copytree(untrained, folder)
    with contextlib.chdir(folder):
        edit("federation.yaml", "^  epochs: 20", "  epochs: 1")(folder)
        succeed(f"colonnade train federation.yaml {PARTY_FILES} --out model")
        shutil.copy(untrained / "federation.yaml", folder)
        clinic, lab = (pd.read_csv(f"{party}.csv").tail(60) for party in ("clinic", "lab"))
        everything = clinic.drop(columns="outcome").merge(lab.assign(id=clinic["id"].to_numpy()), on="id")
        everything.to_csv("new.csv", index=False)
        succeed("colonnade audit export model --attack decoder --data new.csv --id id --out challenge --truth truth")
        np.savez("guesses.npz", guesses=np.zeros((30, 20)))
    return folder


def outcome(entry: Entry, study: Path) -> tuple[str, int]:
    """Make the mistake, type the command or make the call; return what is printed and the exit code."""
    mistake = ROOMS[entry.room][entry.title]
    with contextlib.ExitStack() as stack:
        if not entry.call:
            with pytest.raises(colonnade.errors.ColonnadeError) as caught:
                mistake(study)
            return f"error: {caught.value}", caught.value.exit_code
        made = mistake(study)
        if isinstance(made, contextlib.AbstractContextManager):
            stack.enter_context(made)
        if entry.call.startswith("colonnade "):
            result = type_in(entry.call)
            return result.stderr.removesuffix("\n"), result.exit_code
        with pytest.raises(colonnade.errors.ColonnadeError) as caught:
            exec(entry.call, {"co": co, **(made or {})})
        return traceback.format_exception_only(caught.value)[-1].strip(), caught.value.exit_code


def shown(line: str, study: Path) -> str:
    """Return a line as the page writes it: the folder is Ada's, the ports are those that `init` writes."""
    agreed = (study / "federation.yaml").read_text()
    for number, port in enumerate(re.findall(r"address: 127.0.0.1:(\d+)", agreed)):
        line = line.replace(f"127.0.0.1:{port}", f"127.0.0.1:{7101 + number}")
    return line.replace(str(study), STUDY)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.room}: {entry.title}")
def test_a_mistake_prints_its_line_and_ends_with_its_code(entry, request, tmp_path, monkeypatch):
    source = request.getfixturevalue("trained" if entry.room in TRAINED else "untrained")
    study = shutil.copytree(source, tmp_path / "study")
    monkeypatch.chdir(study)
    line, code = outcome(entry, study)
    assert shown(line, study) == entry.line
    assert code == entry.code == getattr(colonnade.errors, entry.kind).exit_code


def test_every_error_of_the_page_is_made_and_every_mistake_is_on_the_page():
    on_page: dict[str, list[str]] = {}
    for entry in ENTRIES:
        on_page.setdefault(entry.room, []).append(entry.title)
    assert on_page == {room: list(mistakes) for room, mistakes in ROOMS.items()}
    lines = re.findall(r"^(?:error|colonnade\.errors\.\w+): .*$", PAGE.read_text(), re.MULTILINE)
    assert sorted({*lines}) == sorted({entry.line for entry in ENTRIES}), "a line that nobody makes"


def test_every_class_of_error_is_shown():
    listed = {cells[0].strip("`") for cells in test_docs.rows(PAGE.read_text())}
    assert {entry.kind for entry in ENTRIES} == listed - BASES
