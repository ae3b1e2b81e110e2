"""Real processes under mutual TLS: if these fail, what worked in a notebook does not work between hosts."""

import pandas as pd
import pytest
import torch
from town import Town, records

from colonnade.align.simulate import align_federation
from colonnade.federation.federation import Federation
from colonnade.learn.join import TrainingPlace
from colonnade.learn.joint import JointRun
from colonnade.learn.part import Part
from colonnade.run import Run

pytestmark = pytest.mark.slow


def joint_run(town: Town) -> JointRun:
    """The same network, undivided, on the pooled records of the town."""
    places = [
        TrainingPlace.read(town.folder / "federation.yaml", town.folder / f"{party}.yaml") for party in town.parties
    ]
    federation = Federation({place.name: place.records()[0] for place in places}, "clinic")
    run = JointRun(align_federation(federation), places[0].federation.task, seed=0)
    run.run()
    return run


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_parties_over_tls_learn_what_the_joint_run_learns(tmp_path, parties):
    town = Town(tmp_path, parties, epochs=7)
    town.start_all()
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
    joint = joint_run(town)
    assert joint.timetable.steps >= 50
    parts = {party: Part.load(town.run_folder(party) / "model") for party in town.parties}
    pairs = [(parts["clinic"].top.network, joint.network.top)]
    pairs += [
        (parts[party].bottom.network, own) for party, own in zip(town.parties, joint.network.bottoms, strict=True)
    ]
    for ours, theirs in pairs:
        for mine, other in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
            torch.testing.assert_close(mine, other, atol=1e-6, rtol=0)
    for party in town.parties:
        Run.open(town.run_folder(party)).verify_ledger()


def test_parties_predict_together_and_say_which_records_were_imputed(tmp_path):
    town = Town(tmp_path, 3, epochs=8)
    town.start_all()
    assert set(town.wait().values()) == {0}
    new = records(60, seed=9).rename(index=lambda name: f"new-{name}")
    for party in town.parties:
        held = new.iloc[:45] if party == "lab" else new
        town.write_table(party, held, f"{party}-new.csv", labelled=False)
    for party in town.parties:
        town.start(party, "--data", f"{party}-new.csv", "--missing", "impute", command="predict")
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
    answers = pd.read_csv(tmp_path / "predictions.csv", index_col="id", keep_default_na=False)
    assert set(answers.index) == set(new.index)
    assert (answers["imputed"] == "lab").sum() == 15
    assert (answers["prediction"] == new.loc[answers.index, "outcome"]).mean() > 0.7
    assert "lab: 15 records answered without it" in town.log("clinic")


def test_a_prediction_without_a_party_is_refused_unless_asked_for(tmp_path):
    town = Town(tmp_path, 3, heartbeat=1.0)
    town.start_all()
    assert set(town.wait().values()) == {0}
    for party in town.parties:
        town.write_table(party, records(20, seed=9), f"{party}-new.csv", labelled=False)
    town.processes.clear()
    for party in ("clinic", "lab"):
        town.start(party, "--data", f"{party}-new.csv", "--wait", "8", command="predict")
    codes = town.wait()
    assert codes["clinic"] == 6
    assert "insurer" in town.log("clinic").splitlines()[-1]
    for party in ("clinic", "lab"):
        town.start(party, "--data", f"{party}-new.csv", "--missing", "impute", "--wait", "8", command="predict")
    codes = town.wait()
    assert codes["clinic"] == 0, town.log("clinic")
    assert "insurer: 20 records answered without it" in town.log("clinic")


def test_records_that_differ_between_parties_are_aligned_without_a_word_about_the_others(tmp_path):
    town = Town(tmp_path, 3)
    for place, party in enumerate(town.parties):
        town.write_table(party, town.table.drop(index=town.table.index[place::7]), f"{party}.csv")
    town.start_all(command="align")
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
    lines = {town.log(party).splitlines()[0] for party in town.parties}
    assert len(lines) == 1, "all parties see the same number and the same digest"
    left = [i for i in range(240) if i % 7 > 2]
    assert lines.pop().startswith(f"{len(left)} aligned records")


def test_different_federation_files_are_noticed_before_anything_is_learned(tmp_path):
    town = Town(tmp_path, 2)
    other = (tmp_path / "federation.yaml").read_text().replace("epochs: 4", "epochs: 5")
    (tmp_path / "other.yaml").write_text(other)
    town.start("clinic")
    town.start("lab", federation="other.yaml")
    assert town.wait()["clinic"] == 3
    assert "another federation file" in town.log("clinic")
    assert Run.open(town.run_folder("clinic")).status == "failed"
