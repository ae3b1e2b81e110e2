"""Real parties with pictures under keystone: if these fail, it protects in one process and nowhere else.

Over a network every party draws coins and noise from a secret of its own; here all have that of a simulation, so that
runs can be compared.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from town import Hosts

import colonnade as co
from colonnade.learn.part import Part
from colonnade.nets.veil import Veil
from colonnade.run import Run

NARROW = {"name": "keystone", "veil": 8}
HIDDEN = {"name": "nashcoder", "alpha": 0.3, "head_steps": 1}
DEFENSES = {"lab": NARROW, "insurer": {"name": "layered", "layers": [NARROW, HIDDEN]}}
COUNT, BATCH = 200, 25


def halves(count: int = COUNT) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Packaged digits, three times as large and with a margin, cut in two."""
    data = co.load_dataset("digits")
    larger = data.images[:count].repeat(3, axis=2).repeat(3, axis=3)
    whole = np.pad(larger, [(0, 0), (0, 0), (2, 2), (2, 2)])
    return {"lab": whole[..., :14], "insurer": whole[..., 14:]}, np.asarray(data.label)[:count]


class Gallery(Hosts):
    """A clinic that knows the digits, a lab and an insurer that hold one half of each picture."""

    run_name = "gallery"

    def __init__(self, folder: Path, **own: dict[str, object]) -> None:
        super().__init__(folder, ["clinic", *DEFENSES])
        self.halves, labels = halves()
        self.ids = np.array([f"p{i:04d}" for i in range(COUNT)])
        federation = {
            "name": "gallery", "parties": {party: self.entry(party) for party in self.parties}, "active": "clinic",
            "label": "digit", "heartbeat": 4.0,
            "task": {
                "kind": "multiclass", "epochs": 4, "batch_size": BATCH, "checkpoint_every": 3, "local_updates": 2,
                "network": {"family": "mnist_net"},
            },
        }  # fmt: skip
        self.write_yaml("federation.yaml", federation)
        pd.DataFrame({"id": self.ids, "digit": [f"d{label}" for label in labels]}).to_csv(
            folder / "clinic.csv", index=False
        )
        data = {"path": "clinic.csv", "id_column": "id", "columns": []}
        self.write_yaml("clinic.yaml", {**self.own_file("clinic"), "data": data})
        for party, images in self.halves.items():
            np.savez(folder / f"{party}.npz", images=images, ids=self.ids, even=labels % 2)
            data = {"path": f"{party}.npz", "id_column": "ids", "kind": "images"}
            content = {**self.own_file(party), "data": data, "defense": own.get(party, DEFENSES[party])}
            self.write_yaml(f"{party}.yaml", {**content, **({"sensitive": ["even"]} if party == "insurer" else {})})

    def live(self, *arguments: str) -> None:
        self.start_all(*arguments)
        assert set(self.wait().values()) == {0}, [self.log(party) for party in self.parties]

    def weights(self) -> dict[str, bytes]:
        return {party: (self.run_folder(party) / "model" / "part.safetensors").read_bytes() for party in self.parties}

    def history(self, party: str) -> list[dict[str, float]]:
        return json.loads((self.run_folder(party) / "result.json").read_text())["result"]["history"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    made = Gallery(tmp_path_factory.mktemp("undisturbed"))
    made.live()
    return made


@pytest.mark.slow
def test_nothing_but_narrow_uploads_leaves_a_party(undisturbed):
    for party in DEFENSES:
        Run.open(undisturbed.run_folder(party)).verify_ledger()
        lines = (undisturbed.run_folder(party) / "ledger.jsonl").read_text().splitlines()
        sent = [json.loads(line) for line in lines]
        uploads = [one for one in sent if one["kind"] in ("upload", "evaluate", "test")]
        assert uploads
        for one in uploads:
            ((kind, shape),) = one["tensors"].values()
            assert kind == "float32" and shape[1:] == [64], one


@pytest.mark.slow
def test_every_party_has_a_veil_of_its_own_and_logs_its_capacity(undisturbed):
    veils = {}
    for party in DEFENSES:
        bottom = Part.load(undisturbed.run_folder(party) / "model").bottom
        veils[party] = next(module for module in bottom.network.modules() if isinstance(module, Veil))
        assert all(line["capacity_bits"] == pytest.approx(32 * np.log2(1601)) for line in undisturbed.history(party))
    assert not np.allclose(veils["lab"].mean, veils["insurer"].mean)
    assert veils["lab"].directions.any() and "head_loss_even" in undisturbed.history("insurer")[-1]
    assert "head_loss_even" not in undisturbed.history("lab")[-1]


@pytest.mark.slow
def test_a_killed_party_resumes_with_the_same_veil_coins_and_weights(tmp_path, undisturbed):
    """Coins that were thrown again after a crash would train another model; an unfitted veil would hide nothing."""
    disturbed, victim = Gallery(tmp_path), "insurer"
    disturbed.start_all()
    assert disturbed.kill_after(victim, undisturbed.sent_messages(victim) // 2), "the victim had ended already"
    codes = disturbed.wait(60)
    assert all(codes[party] == 6 for party in disturbed.parties if party != victim), codes
    disturbed.live("--resume")
    assert disturbed.weights() == undisturbed.weights()
    assert disturbed.history("insurer") == undisturbed.history("insurer")


@pytest.mark.slow
def test_a_veil_thicker_than_the_pictures_stops_everybody_with_one_line(tmp_path):
    """How many numbers a picture of the lab has is told to the lab alone."""
    gallery = Gallery(tmp_path, lab={"name": "keystone", "veil": 400})
    gallery.start_all()
    assert gallery.wait(60) == {"clinic": 6, "lab": 3, "insurer": 6}
    line = "keystone.veil: pictures of 392 numbers have no 400 components to take away (give less than 392)"
    for party in gallery.parties:
        told = f"error: {line}" if party == "lab" else "error: lab: stopped: a setting or a file cannot be used"
        # Who hears of it from the clinic before it hears from the lab is told at the end whose word it is.
        assert gallery.log(party).splitlines()[-1].startswith(told) and "Traceback" not in gallery.log(party)


def test_a_bad_strength_is_told_with_its_file_before_anybody_is_called(tmp_path):
    gallery = Gallery(tmp_path, lab={**NARROW, "levels": 1})
    gallery.start("lab")
    assert gallery.wait(60) == {"lab": 3}
    line = f"error: {tmp_path / 'lab.yaml'}: defense.levels: one level tells nothing (give 0, or 2 and more)"
    assert gallery.log("lab").splitlines()[-1] == line
