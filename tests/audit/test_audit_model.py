"""If these fail, a privacy engineer asks `co.audit` and gets numbers of another model, or none where there are some."""

import math

import numpy as np
import pytest
import torch
from audit_parts import PARTIES, Averaging, Curious, Linear, row, table, table_model, with_one

import colonnade as co
from colonnade.attack import Attack, Knowledge
from colonnade.audit.held_out import divide, held_out_of
from colonnade.defend import Gaussian
from colonnade.errors import ConfigError, DataError
from colonnade.learn.model import VerticalModel


def test_the_numbers_are_those_of_the_attack_done_by_hand(trained):
    result = co.audit(trained, Linear(), seeds=[4], progress=False)
    auxiliary, targets = divide(held_out_of(trained, None, None), 0.5, 1000, seed=4)
    for party in ("lab", "insurer"):
        bottom = trained.parts[party].bottom
        known, wanted = (bottom.preparation.transform(part.records[party]) for part in (auxiliary, targets))
        uploads = with_one(bottom.upload(auxiliary.records[party]))
        weights = np.linalg.pinv(uploads.double().numpy(), rcond=1e-5) @ known
        guesses = with_one(bottom.upload(targets.records[party])).double().numpy() @ weights
        errors, blind = (guesses - wanted) ** 2, (known.mean(axis=0) - wanted) ** 2
        found = row(result, attack="linear", party=party)
        assert found["mse"] == pytest.approx(errors.mean(), rel=1e-3)
        assert found["skill"] == pytest.approx(1 - errors.mean() / blind.mean(), abs=1e-3)


def test_every_row_says_what_it_is_about(noisy):
    result = co.audit(noisy, ["decoder"], seeds=1, progress=False, dataset="patients")
    found = row(result, attack="decoder", party="lab")
    assert {name: found[name] for name in ("dataset", "cut", "defense", "strength", "knowledge", "seeds")} == {
        "dataset": "patients", "cut": 2, "defense": "gaussian", "strength": 0.5, "knowledge": "oracle", "seeds": 1,
    }  # fmt: skip
    assert found["defense_settings"] == '{"sigma": 0.5}'
    assert '"epochs"' in found["attack_settings"]
    assert found["accuracy"] == noisy.scores["accuracy"]
    assert math.isnan(found["accuracy_cost"]), "nothing is known about an undefended model"


def test_trivial_guesses_stand_beside_every_party(painted, trained):
    pictures = co.audit(painted, Linear(), seeds=1, progress=False).frame
    trivial = {"mean record", "constant grey", "random other", "per-record mean"}
    for party in ("left", "right", "all"):
        there = pictures[(pictures["party"] == party) & (pictures["knowledge"] == "baseline")]
        assert set(there["attack"]) == trivial
    tables = co.audit(trained, Linear(), seeds=1, progress=False).frame
    assert set(tables["attack"]) == trivial - {"constant grey"} | {"linear"}
    assert "all" not in set(tables["party"])


def test_strips_are_scored_as_whole_pictures_too(painted):
    result = co.audit(painted, Linear(), seeds=1, progress=False)
    halves = [row(result, attack="linear", party=party)["mse"] for party in ("left", "right")]
    assert row(result, attack="linear", party="all")["mse"] == pytest.approx(np.mean(halves))
    shown = {one.keys["party"]: one for one in result.pictures}
    assert shown["all"].originals.shape == shown["all"].guesses.shape == (8, 1, 8, 8)
    assert np.array_equal(shown["all"].originals[..., 4:], shown["right"].originals)


def test_the_same_seeds_give_the_same_numbers_and_leave_the_model_as_it_was(noisy):
    """An audit that moved the stream of the noise would change, and make guessable, what is uploaded afterwards."""
    defense = noisy.parts["lab"].bottom.defense
    before = defense.generator.get_state()
    first, again = (co.audit(noisy, Linear(), seeds=2, progress=False).frame for _ in range(2))
    assert first.equals(again)
    assert torch.equal(defense.generator.get_state(), before)


def test_a_saved_model_is_judged_as_before(noisy, tmp_path):
    loaded = co.load(noisy.save(tmp_path))
    results = [co.audit(noisy, Linear(), seeds=1, progress=False)]
    results.append(co.audit(loaded, Linear(), federation=noisy.federation, seeds=1, progress=False))
    assert results[0].frame.equals(results[1].frame)


def test_an_attack_is_granted_what_its_knowledge_names_and_nothing_else(trained):
    Curious.seen.clear()
    co.audit(trained, Curious(Knowledge.ARCHITECTURE, Knowledge.AUXILIARY_LABELS), seeds=1, progress=False)
    lab = Curious.seen[0]
    assert set(lab.held) == {"uploads", "architecture", "auxiliary_labels"}
    built, victim = lab.bottom_factory(1), trained.parts["lab"].bottom.network
    assert str(built) == str(victim)
    assert not torch.equal(built[0].weight, victim[0].weight)
    assert torch.equal(lab.bottom_factory(1)[0].weight, built[0].weight)


def test_weights_are_granted_as_a_copy(trained):
    Curious.seen.clear()
    co.audit(trained, Curious(Knowledge.WEIGHTS), seeds=1, progress=False)
    granted, own = Curious.seen[0].bottom, trained.parts["lab"].bottom.network
    assert torch.equal(granted[0].weight, own[0].weight)
    assert granted is not own


def test_an_operator_is_granted_where_the_defense_has_one(noisy, monkeypatch):
    adaptive = Curious(Knowledge.DEFENSE_OPERATOR)
    monkeypatch.setattr(Gaussian, "operator", lambda self: None)
    with pytest.raises(ConfigError, match="attack 'curious': it needs defense_operator, which is not there"):
        co.audit(noisy, adaptive, seeds=1, progress=False)
    monkeypatch.setattr(Gaussian, "operator", lambda self: lambda h: self.protect(h, h, train=False))
    Curious.seen.clear()
    co.audit(noisy, adaptive, seeds=1, progress=False)
    zeros = torch.zeros_like(Curious.seen[0].uploads)
    noise = Curious.seen[0].defense_operator(zeros)
    # Noise of the uploads: what is left of them where the bottom is known.
    _, targets = divide(held_out_of(noisy, None, None), 0.5, 1000, seed=0)
    bottom = noisy.parts["lab"].bottom
    clean = bottom.network(torch.from_numpy(bottom.preparation.transform(targets.records["lab"])))
    hidden = Curious.seen[0].uploads - clean.detach()
    assert abs(float(torch.corrcoef(torch.stack([noise.flatten(), hidden.flatten()]))[0, 1])) < 0.1


def test_repeated_uploads_are_for_attacks_that_average_them(noisy):
    """Fresh noise averages out: an audit without repeats would call it protection."""
    settings = {"seeds": 2, "progress": False, "repeats": 32}
    result = co.audit(noisy, [Linear(), Averaging()], **settings)
    once, often = (row(result, attack=name, party="lab")["skill"] for name in ("linear", "averaging"))
    assert often > once + 0.1
    quiet = co.audit(table_model(), [Linear(), Averaging()], **settings)
    once, often = (row(quiet, attack=name, party="lab")["skill"] for name in ("linear", "averaging"))
    assert often == pytest.approx(once, abs=1e-4), "the same upload again tells nothing new"


def test_the_built_in_decoder_takes_repeats(noisy):
    result = co.audit(noisy, {"name": "decoder", "preset": "repeated", "epochs": 1}, seeds=1, progress=False)
    assert row(result, attack="decoder", party="lab")["skill"] >= 0


def test_one_party_audits_its_own_part_alone(trained):
    alone = VerticalModel(trained.agreement, {"lab": trained.parts["lab"]})
    own = table(100, seed=7)[PARTIES["lab"]]
    result = co.audit(alone, Linear(), records={"lab": own}, seeds=1, progress=False)
    assert set(result.frame["party"]) == {"lab"}
    assert result.frame["accuracy"].isna().all()
    assert "lab" in repr(result)
    with pytest.raises(ConfigError, match="attack 'curious': it needs labels"):
        co.audit(alone, Curious(Knowledge.LABELS), records={"lab": own}, seeds=1, progress=False)


def test_columns_of_a_table_are_judged_one_by_one(trained):
    columns = co.audit(trained, Linear(), seeds=2, progress=False).columns
    lab = columns[columns["party"] == "lab"].set_index("column")
    assert list(lab.index) == ["glucose", "insulin", "city"]
    assert lab.loc["glucose", "skill"] > 0.3
    assert lab.loc["city", "hits"] >= lab.loc["city", "majority"]
    assert lab["kind"].tolist() == ["number", "number", "category"]


class Wrong(Attack):
    name = "wrong"

    def reconstruct(self, uploads):
        return torch.zeros(1)


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        ({"attacks": "decoeder"}, ConfigError, "unknown attack 'decoeder'"),
        ({"attacks": []}, ConfigError, "no attack was chosen"),
        ({"attacks": {"epochs": 5}}, ConfigError, "names no attack"),
        ({"attacks": {"name": 3}}, ConfigError, "names no attack"),
        ({"attacks": {"name": "decoder", "preset": ["weak"]}}, ConfigError, "decoder.preset: unknown preset"),
        ({"attacks": {"name": "decoder", "epochs": 0}}, ConfigError, "decoder.epochs: 0 is not allowed"),
        ({"attacks": Wrong()}, DataError, "attack 'wrong': guesses have shape"),
        ({"auxiliary": 1.0}, ConfigError, "auxiliary: 1.0 is no share"),
        ({"auxiliary": "half"}, ConfigError, "auxiliary: 'half' is not allowed"),
        ({"targets": 1}, ConfigError, "targets: 1 is not allowed"),
        ({"seeds": 0}, ConfigError, "seeds: 0 is not allowed"),
        ({"seeds": 2.5}, ConfigError, "seeds: 2.5 is not allowed .give a whole number"),
        ({"seeds": None}, ConfigError, "seeds: None is not allowed"),
        ({"seeds": "3"}, ConfigError, "seeds: '3' is not allowed"),
        ({"seeds": [1, 1]}, ConfigError, r"\[1, 1\] are no seeds"),
        ({"auxilliary": 0.5}, ConfigError, "unknown setting 'auxilliary' .did you mean 'auxiliary'"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(trained, arguments, error, complaint):
    with pytest.raises(error, match=complaint):
        co.audit(trained, **{"attacks": Linear(), "progress": False, "seeds": 1, **arguments})
