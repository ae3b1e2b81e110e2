"""`colonnade doctor`: the first thing to type on a new machine, and the first thing to send to whoever helps."""

import json
import re
import socket
from contextlib import ExitStack
from time import time

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.doctor import speeds
from colonnade.wire import connect
from colonnade.wire.authority import Authority, make_kit
from colonnade.wire.deadline import Deadline
from colonnade.wire.network import NetworkChannel
from colonnade.wire.preflight import Peer
from colonnade.wire.tls import Credentials


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """The speeds have tests of their own."""
    monkeypatch.setattr(speeds, "SPEEDS", {"typing": (lambda: 5.0, "letters/s", "fingers")})


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Two parties on this host; the lab is the one that asks."""
    monkeypatch.chdir(tmp_path)
    authority = Authority.create()
    prints = {name: make_kit(authority, name, tmp_path / name) for name in ("clinic", "lab")}
    addresses = dict(zip(prints, free_addresses(len(prints)), strict=True))
    parties = {name: {"address": addresses[name], "fingerprint": prints[name]} for name in prints}
    federation = {"name": "study", "active": "clinic", "label": "outcome", "parties": parties}
    files = {"ca": "lab/ca.pem", "certificate": "lab/certificate.pem", "key": "lab/key.pem"}
    party = {"party": "lab", "data": {"path": "lab.csv", "id_column": "id"}, "credentials": files}
    pd.DataFrame({"id": [1, 2], "glucose": [1.0, 2.0]}).to_csv("lab.csv", index=False)
    (tmp_path / "federation.yaml").write_text(yaml.safe_dump(federation))
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump(party))
    return tmp_path


def free_addresses(count):
    """Return different ones: a port that is let go may be drawn again at once."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [f"127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]


def doctor(*options):
    return CliRunner().invoke(app, ["doctor", *options], env={"COLUMNS": "300"})


def findings(*options):
    result = doctor(*options, "--json")
    return result.exit_code, {(found["group"], found["name"]): found for found in json.loads(result.stdout)}


FILES = ("--party", "lab.yaml", "--federation", "federation.yaml")


def test_people_read_groups_and_a_last_line():
    result = doctor()
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert [group for group in ("packages", "machine", "speeds", "extras") if group in lines] == [
        "packages", "machine", "speeds", "extras",
    ]  # fmt: skip
    assert any(line.split()[1:] == ["typing", "5", "letters/s"] for line in lines)
    assert lines[-1] == "nothing is broken"


def test_machines_read_json():
    code, found = findings()
    assert code == 0
    assert found["speeds", "typing"] == {
        "group": "speeds", "name": "typing", "value": 5.0, "unit": "letters/s", "state": "ok", "remedy": "",
    }  # fmt: skip
    assert not {"keys", "peers"} & {group for group, _ in found}


def test_only_what_stops_work_ends_with_exit_code_3(monkeypatch):
    def broken():
        raise OSError("libseal.so: cannot open shared object file")

    monkeypatch.setitem(speeds.SPEEDS, "seal", (broken, "x/s", "seal-python"))
    result = doctor()
    assert result.exit_code == 3
    assert "libseal.so" in result.stdout and "--force-reinstall seal-python" in result.stdout
    assert result.stdout.splitlines()[-1] == "broken: 1"


def test_one_file_alone_is_a_mistake_of_one_line(study):
    result = doctor("--party", "lab.yaml")
    assert (result.exit_code, result.stderr) == (
        3,
        "error: --federation: is missing (keys and peers need both files)\n",
    )


def test_keys_and_peers_of_a_party_whose_peer_has_not_started(study):
    code, found = findings(*FILES)
    assert code == 0
    assert found["keys", "certificate"]["state"] == "ok"
    assert found["peers", "clinic"]["state"] == "warning"
    assert "nobody listens" in found["peers", "clinic"]["value"]
    assert ("peers", "lab") not in found
    address = yaml.safe_load((study / "federation.yaml").read_text())["parties"]["clinic"]["address"]
    assert found["clocks", "clinic"]["value"] == f"not reachable at {address}"
    assert "nobody is there to ask" in found["clocks", "peers"]["value"]
    assert "colonnade join" in found["clocks", "peers"]["remedy"]
    assert "validity" in found["clocks", "here"]["value"]


def found_with_clinic(study, keys, peer):
    """What the doctor finds while the clinic listens with these keys; the listener is the real one."""
    entries = yaml.safe_load((study / "federation.yaml").read_text())["parties"]
    channel = NetworkChannel(
        "clinic", {"lab": peer}, run="study", order=["clinic", "lab"],
        credentials=Credentials.in_folder(study / keys), listen=entries["clinic"]["address"],
        deadline=Deadline(connect=60, heartbeat=5),
    )  # fmt: skip
    try:
        return findings(*FILES)
    finally:
        channel.abort("the test is over")
        channel.close()


def test_a_peer_that_waits_for_us_is_reached(study):
    """The doctor's knock must not disturb it."""
    lab = yaml.safe_load((study / "federation.yaml").read_text())["parties"]["lab"]
    code, found = found_with_clinic(study, "clinic", Peer(None, lab["fingerprint"]))
    assert code == 0
    assert found["peers", "clinic"]["value"] == "reached, and it is who it should be"
    assert found["clocks", "clinic"]["state"] == "ok"
    assert ("clocks", "peers") not in found


@pytest.mark.parametrize(("ahead", "state"), [(4.0, "ok"), (-6.0, "warning"), (86_400.0, "warning")])
def test_a_clock_that_is_far_from_ours_is_a_warning(study, monkeypatch, ahead, state):
    monkeypatch.setattr(connect, "time", lambda: time() + ahead)
    lab = yaml.safe_load((study / "federation.yaml").read_text())["parties"]["lab"]
    code, found = found_with_clinic(study, "clinic", Peer(None, lab["fingerprint"]))
    clock = found["clocks", "clinic"]
    told, way, doubt = re.fullmatch(r"([\d.,]+) s (ahead|behind) \(± (\d\.\d\d) s\)", clock["value"]).groups()
    assert abs(float(told.replace(",", "")) - abs(ahead)) <= float(doubt) + 0.01
    assert way == ("ahead" if ahead > 0 else "behind")
    assert (code, clock["state"], "certificates" in clock["remedy"]) == (0, state, state == "warning")


def test_a_peer_that_does_not_know_us_does_not_tell_the_time(study):
    _, found = found_with_clinic(study, "clinic", Peer(None, "sha256:" + "0" * 64))
    assert found["clocks", "clinic"]["value"] == "not known: it tells only those who take part in its run"


def test_a_peer_with_foreign_keys_is_broken(study):
    make_kit(Authority.create(), "clinic", study / "foreign")
    code, found = found_with_clinic(study, "foreign", Peer())
    assert (code, found["peers", "clinic"]["state"]) == (3, "broken")
    assert "unknown CA" in found["peers", "clinic"]["value"]
    assert "not known: unknown CA" in found["clocks", "clinic"]["value"]


def test_broken_keys_are_told_and_the_peers_are_still_tried(study):
    (study / "lab" / "key.pem").unlink()
    code, found = findings(*FILES)
    assert (code, found["keys", "certificate"]["state"]) == (3, "broken")
    assert ("peers", "clinic") in found
    assert "validity" not in found["clocks", "here"]["value"]
    assert "keys are not in order" in found["clocks", "peers"]["value"]


def test_without_keys_nobody_is_asked_for_the_time(study):
    text = yaml.safe_load((study / "lab.yaml").read_text())
    (study / "lab.yaml").write_text(yaml.safe_dump({**text, "credentials": None}))
    _, found = findings(*FILES)
    assert found["clocks", "peers"]["value"] == "not asked: the party file names no keys"


def test_the_partys_own_runs_folder_and_device_are_looked_at(study, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    text = (study / "lab.yaml").read_text()
    (study / "lab.yaml").write_text(text + "device: cuda\nruns: elsewhere\n")
    code, found = findings(*FILES)
    assert (code, found["machine", "GPU"]["state"]) == (3, "broken")
    assert any(name.endswith("elsewhere") for _, name in found)
