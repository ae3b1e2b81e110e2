"""If these fail, an audit calls a defense safe that told everything while the model was trained."""

import numpy as np
import pytest
import torch
from audit_parts import row, table, table_federation, table_model

import colonnade as co
from colonnade.attack import Witness
from colonnade.audit.challenge import export_challenge
from colonnade.audit.evidence import working_copy
from colonnade.audit.held_out import held_out_of, split_of
from colonnade.audit.settings import Settings
from colonnade.audit.stage import Stage
from colonnade.audit.witnessed import witnessed
from colonnade.data.split import TRAIN
from colonnade.defend import DEFENSES, Defense
from colonnade.errors import ConfigError

WITNESS = {"name": "witness", "epochs": 15}


class Turncoat(Defense):
    """Uploads everything while it trains, and nothing when it is finished."""

    name = "turncoat"

    def protect(self, x, h, train):
        return h if train else torch.zeros_like(h)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(DEFENSES, "_entries", {**DEFENSES._entries, "turncoat": Turncoat})


def test_what_training_told_counts_even_if_the_finished_model_is_silent():
    model = table_model("turncoat")
    result = co.audit(model, [{"name": "decoder", "epochs": 15}, WITNESS], seeds=1, progress=False)
    for party in ("lab", "insurer"):
        assert row(result, attack="decoder", party=party)["skill"] < 0.05
    assert row(result, attack="witness", party="insurer")["skill"] > 0.5
    assert row(result, attack="witness", party="insurer")["knowledge"] == "oracle"


def test_a_witness_knows_some_of_those_who_were_trained_on_and_wants_others():
    model = table_model()
    federation = model.federation
    held = held_out_of(model, federation, None)
    stage = Stage.of(working_copy(model, held.records), held, Settings(auxiliary=0.25, targets=30), seed=1)
    shown = witnessed(Witness(), stage, federation)
    trained = set(federation.records["lab"].ids[federation.rows["lab"]][split_of(model.agreement, federation) == TRAIN])
    known, wanted = (set(part.records["lab"].ids) for part in (shown.auxiliary, shown.targets))
    assert known <= trained and wanted <= trained and not known & wanted
    assert (len(known), len(wanted)) == (round(0.25 * len(trained)), 30)
    assert list(shown.auxiliary.records["insurer"].ids) == list(shown.auxiliary.records["lab"].ids)


def test_what_was_kept_is_what_the_trained_bottoms_uploaded():
    """A bottom that stands still uploads the same in training and afterwards."""
    model = table_model(optimizer={"learning_rate": 1e-12})
    held = held_out_of(model, model.federation, None)
    stage = Stage.of(working_copy(model, held.records), held, Settings(), seed=0)
    shown = witnessed(Witness(), stage, model.federation)
    for party, (_, wanted) in shown.uploads.items():
        expected = model.parts[party].bottom.upload(shown.targets.records[party])
        assert wanted.shape[:2] == (len(shown.targets), 2), "an upload for each epoch"
        np.testing.assert_allclose(wanted[:, 1], expected, atol=1e-5)


def test_the_chance_of_finding_somebody_is_that_among_those_who_are_wanted():
    """A leak that found one in fifty of 229 people was called worse than chance, which was that among 32 others."""
    result = co.audit(table_model(), {"name": "witness", "epochs": 40}, seeds=1, progress=False)
    held, wanted = result.settings["candidates"], result.settings["candidates_of"]["witness"]
    said = next(line for line in result.verdict if line.startswith("insurer: witness (oracle)"))
    assert wanted > held and f"among {wanted} in" in said and f"(by chance {100 / wanted:.2g} %)" in said


def test_a_training_that_cannot_be_repeated_is_told():
    model = table_model()
    with pytest.raises(ConfigError, match=r"attack 'witness'.*can't be repeated here"):
        co.audit(model, WITNESS, records=table(40, seed=9), seeds=1, progress=False)


def test_a_challenge_holds_no_training(tmp_path):
    model = table_model(federation=table_federation())
    with pytest.raises(ConfigError, match="uploads of the finished model"):
        export_challenge(model, Witness(), tmp_path / "challenge", truth=tmp_path / "truth", party="lab")
    assert not (tmp_path / "challenge").exists()
