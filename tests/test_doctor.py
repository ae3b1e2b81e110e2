"""If these fail, the doctor calls a machine healthy that can't work, or frightens those whose machine can."""

import json
import os
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from colonnade.doctor import extras, keys, machine, speeds
from colonnade.doctor.finding import Finding
from colonnade.place import Place
from colonnade.wire.authority import Authority, make_kit

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def states(findings):
    return {finding.name: finding.state for finding in findings}


class TestPackages:
    def test_everything_needed_is_listed_with_its_version(self):
        found = list(machine.examine_packages())
        assert set(states(found).values()) == {"ok"}
        assert found[0].value == ".".join(map(str, sys.version_info[:3]))
        assert {finding.name for finding in found} >= {"colonnade", "torch", "numpy", "seal-python", "grpcio"}
        assert not {"ray", "pytest"} & {finding.name for finding in found}

    def test_one_that_is_missing_stops_work(self, monkeypatch):
        def version(name):
            if name == "gmpy2":
                raise PackageNotFoundError(name)
            return "1.0"

        monkeypatch.setattr(machine, "version", version)
        broken = [finding for finding in machine.examine_packages() if finding.state == "broken"]
        assert [(finding.name, finding.remedy) for finding in broken] == [("gmpy2", "pip install gmpy2")]


class TestMachine:
    def test_cores_and_memory(self):
        found = {finding.name: finding.value for finding in machine.examine_machine()}
        assert 1 <= found["cores"] <= os.cpu_count()
        assert 0 < found["memory free"] <= found["memory"]

    def test_little_memory_is_a_warning(self, monkeypatch, tmp_path):
        (tmp_path / "meminfo").write_text("MemTotal:  8000000 kB\nMemAvailable:  1000000 kB\n")
        monkeypatch.setattr(machine, "_MEMORY", tmp_path / "meminfo")
        (found,) = [finding for finding in machine.examine_machine() if finding.name == "memory free"]
        assert (found.value, found.state) == (1_024_000_000, "warning")

    def test_a_system_that_does_not_tell_its_free_memory(self, monkeypatch, tmp_path):
        monkeypatch.setattr(machine, "_MEMORY", tmp_path / "nothing")
        assert "memory free" not in states(machine.examine_machine())

    def gpu(self, device="auto"):
        (found,) = [finding for finding in machine.examine_machine(device) if finding.name == "GPU"]
        return found

    def test_no_gpu_is_no_fault_unless_the_party_asks_for_one(self, monkeypatch):
        import torch

        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert self.gpu().state == "ok" and "none" in self.gpu().shown
        assert self.gpu("cpu").state == "ok"
        assert self.gpu("cuda:0").state == "broken"

    def test_a_gpu_is_named_with_its_memory(self, monkeypatch):
        import torch

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Example 9000")
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=80 * 10**9))
        assert self.gpu("cuda").shown == "2 × Example 9000, 80.0 GB"

    def test_a_torch_that_cannot_be_loaded_is_told(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        assert (self.gpu().state, "torch cannot be loaded" in self.gpu().shown) == ("broken", True)


class TestDisk:
    def test_room_is_told_also_where_the_folder_is_not_there_yet(self, tmp_path):
        found = machine.examine_disk(tmp_path / "study" / "runs")
        assert found.unit == "bytes" and found.value > 0
        assert not (tmp_path / "study").exists()

    def test_little_room_is_a_warning(self, tmp_path, monkeypatch):
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
        assert machine.examine_disk(tmp_path).state == "warning"

    def test_a_folder_that_cannot_be_written_stops_work(self, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        assert machine.examine_disk(tmp_path / "file" / "runs").state == "broken"
        monkeypatch.setattr(machine.os, "access", lambda *_: False)
        assert machine.examine_disk(tmp_path).state == "broken"


class TestSpeeds:
    def test_every_library_is_tried_for_real(self):
        found = {finding.name: finding for finding in speeds.examine_speeds()}
        assert len(found) >= 4
        assert states(found.values()) == dict.fromkeys(found, "ok")
        assert all(finding.value > 0 and finding.unit for finding in found.values())

    def test_libraries_that_do_not_load_are_broken_and_the_others_are_still_told(self):
        """In a process of its own, because modules remember the libraries that they have found."""
        code = (
            "import json, sys\n"
            "sys.modules |= dict.fromkeys(['seal', 'torch'])\n"
            "from colonnade.doctor.speeds import examine_speeds\n"
            "print(json.dumps([[found.name, found.state, found.remedy] for found in examine_speeds()]))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == [
            ["encrypted product (BFV)", "broken", "pip install --force-reinstall seal-python"],
            ["alignment of 1,000 ids (PSI)", "ok", ""],
            ["AES-256-GCM", "ok", ""],
            ["matrix product (torch)", "broken", "pip install --force-reinstall torch"],
        ]

    def test_a_wrong_answer_is_no_speed(self, monkeypatch):
        from colonnade.secure import ring

        monkeypatch.setattr(ring, "matmul", lambda plain, secret: plain @ secret.astype("int64") + 1)
        found = {finding.name: finding for finding in speeds.examine_speeds()}
        assert found["encrypted product (BFV)"].state == "broken"
        assert "do not add up" in found["encrypted product (BFV)"].shown


class TestExtras:
    def test_every_extra_of_the_project_is_known_with_its_hint(self):
        known = {extra.package: extra.install for extra in extras.EXTRAS}
        for extra, packages in PROJECT["optional-dependencies"].items():
            if extra not in ("dev", "docs"):  # of use to whoever works on Colonnade
                for package in packages:
                    assert f"colonnade[{extra}]" in known[package.split(">")[0]]

    def test_one_that_is_missing_is_a_hint_of_one_line(self, monkeypatch):
        def missing(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(extras, "version", missing)
        found = list(extras.examine_extras())
        assert set(states(found).values()) == {"hint"}
        assert all(finding.remedy.startswith("pip install ") and "\n" not in finding.remedy for finding in found)

    def test_one_that_is_there_is_told_with_its_version(self, monkeypatch):
        monkeypatch.setattr(extras, "version", lambda _: "3.2.1")
        assert all("3.2.1" in finding.shown and finding.state == "ok" for finding in extras.examine_extras())


class TestKeys:
    @pytest.fixture
    def study(self, tmp_path):
        authority = Authority.create()
        prints = {name: make_kit(authority, name, tmp_path / name, days=300) for name in ("clinic", "lab")}
        parties = {
            name: {"address": f"127.0.0.1:{7101 + place}", "fingerprint": prints[name]}
            for place, name in enumerate(prints)
        }
        files = {"ca": "lab/ca.pem", "certificate": "lab/certificate.pem", "key": "lab/key.pem"}
        federation = {"name": "study", "active": "clinic", "label": "outcome", "parties": parties}
        return SimpleNamespace(
            folder=tmp_path, authority=authority, federation=federation, party={"party": "lab", "credentials": files}
        )

    def look(self, study):
        paths = [study.folder / "federation.yaml", study.folder / "lab.yaml"]
        for path, content in zip(paths, (study.federation, study.party), strict=True):
            path.write_text(yaml.safe_dump(content))
        return {finding.name: finding for finding in keys.examine_keys(Place.read(*paths))}

    def renew(self, study, days):
        make_kit(study.authority, "lab", study.folder / "lab", days=days, renew=True)

    def test_keys_in_order(self, study):
        found = self.look(study)
        assert states(found.values()) == {"fingerprint": "ok", "certificate": "ok", "CA": "ok"}
        assert f"{datetime.now(UTC).year}" in found["certificate"].shown or "299 days" in found["certificate"].shown

    @pytest.mark.parametrize(("days", "state"), [(31, "ok"), (30, "ok"), (300, "ok"), (0.002, "warning")])
    def test_a_certificate_is_not_old_on_its_first_day(self, study, days, state):
        """`colonnade keys` gives 30 days: whoever has just made keys shall not be told to renew them.

        The last one lasts for 13 minutes, ten of which were over when it was issued, because clocks differ.
        """
        self.renew(study, days)
        assert self.look(study)["certificate"].state == state

    def test_the_last_month_of_a_long_one_is_a_warning(self, study, monkeypatch):
        class Later(datetime):
            @classmethod
            def now(cls, zone=None):
                return datetime.fromtimestamp(self.time, zone)

        end = self.certificate(study).not_valid_after_utc.timestamp()
        monkeypatch.setattr(keys, "datetime", Later)
        for days, state in ((31, "ok"), (29, "warning")):
            self.time = end - days * 86400
            assert self.look(study)["certificate"].state == state
        assert "--renew" in self.look(study)["certificate"].remedy

    def certificate(self, study):
        path = study.folder / "lab" / "certificate.pem"
        return keys.read_certificate(path.read_bytes(), path)

    def test_no_keys(self, study):
        study.party["credentials"] = None
        assert states(self.look(study).values()) == {"credentials": "broken"}

    def test_an_expired_certificate(self, study):
        self.renew(study, -1)
        found = self.look(study)["certificate"]
        assert (found.state, "expired" in found.shown, "--renew" in found.remedy) == ("broken", True, True)

    def test_a_fingerprint_that_is_not_the_agreed_one(self, study):
        study.federation["parties"]["lab"]["fingerprint"] = "sha256:" + "0" * 64
        found = self.look(study)["certificate"]
        assert (found.state, "fingerprint" in found.shown) == ("broken", True)

    def test_a_fingerprint_that_nobody_agreed_on_is_a_warning(self, study):
        study.federation["parties"]["lab"]["fingerprint"] = None
        assert self.look(study)["fingerprint"].state == "warning"

    def test_the_certificate_of_another_party(self, study):
        study.party["credentials"] = {
            name: file.replace("lab/", "clinic/") for name, file in study.party["credentials"].items()
        }
        assert "not that of 'lab'" in self.look(study)["certificate"].shown


def test_numbers_are_shown_with_their_unit():
    assert Finding("speeds", "x", 12_345.6, "ids/s").shown == "12,300 ids/s"
    assert Finding("speeds", "x", 670_000.0, "multiplications/s").shown == "670,000 multiplications/s"
    assert Finding("speeds", "x", 12_345_678.0, "multiplications/s").shown == "12,300,000 multiplications/s"
    assert Finding("machine", "cores", 128).shown == "128"
