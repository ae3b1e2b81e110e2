"""Two trainings of one federation: if these fail, the noise of one can be taken off the uploads of the other."""

from __future__ import annotations

import pytest
from town import Town

from colonnade.learn.part import Part

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def test_two_runs_of_the_same_files_share_no_noise_and_no_weights(tmp_path):
    """Same seed, same records, same name: only what each party draws for itself tells them apart."""
    weights, models = [], []
    for name in ("first", "second"):
        town = Town(tmp_path / name, parties=2, epochs=1)
        town.own_secrets = True
        town.start_all()
        assert set(town.wait().values()) == {0}, town.log("lab")
        weights.append(town.weights())
        assert len((town.run_folder("lab") / "secret").read_bytes()) == 32
        parts = [Part.load(town.run_folder(party) / "model") for party in town.parties]
        models += {part.model for part in parts}
    assert len(models) == len(set(models)) == 2, "one name for all parts of a model, and another for another model's"
    for party in ("clinic", "lab"):
        assert weights[0][party] != weights[1][party]


def test_a_run_that_begins_anew_draws_other_noise_and_keeps_the_order_of_its_records(tmp_path):
    """The noise of the attempt before could be taken off; in another order, a checkpoint would fit nobody."""
    town = Town(tmp_path, parties=2, epochs=12, checkpoint_every=20, missing="impute")
    town.own_secrets = True
    town.start_all()
    assert town.kill_after("lab", 8 + 5), "some steps"
    town.wait()
    assert not any((town.run_folder("lab") / "checkpoints").iterdir())
    files = {name: (town.run_folder("clinic") / name).read_bytes() for name in ("secret", "alignment.npz")}
    (town.run_folder("lab") / "alignment.npz").unlink()  # so that they align once more
    town.start_all("--resume")
    for party in town.parties:
        town.wait_for_checkpoint(party)
    assert town.kill("lab")
    town.wait()
    assert (town.run_folder("clinic") / "secret").read_bytes() != files["secret"]
    assert (town.run_folder("clinic") / "order.secret").read_bytes() == files["secret"]
    (town.run_folder("lab") / "alignment.npz").unlink()
    town.start_all("--resume")
    assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
