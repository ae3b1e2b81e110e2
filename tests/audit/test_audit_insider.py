"""If these fail, attacks inside training are judged on a training that nobody would have had."""

import pytest
import torch
from audit_parts import PARTIES, Spy, row, table, table_model

import colonnade as co
from colonnade.audit.held_out import divide, held_out_of
from colonnade.data.split import assign_split
from colonnade.errors import ConfigError, RunError
from colonnade.learn.agreement import SIMULATION_SECRET
from colonnade.learn.model import VerticalModel
from colonnade.learn.timetable import Timetable
from colonnade.nets import build_bottom


def honest_steps(model) -> int:
    """The steps of the whole timetable of the model's task."""
    task, seed = model.agreement.task, model.agreement.seed
    split = task.split
    parts = assign_split(table().index, split.train, split.validation, split.test, seed)
    return Timetable(parts, task.batch_size, task.epochs, seed).steps


def test_an_insider_gets_a_training_of_its_own(trained):
    """It sees every step of the same task; its victims' uploads come from the bottoms that it has spoiled."""
    result = co.audit(trained, Spy(), seeds=1, progress=False)
    _, targets = divide(held_out_of(trained, None, None), 0.5, 1000, seed=0)
    assert Spy.diary["steps"] == list(range(honest_steps(trained)))
    assert Spy.diary["finished"]
    assert set(Spy.diary["shapes"]) == {"clinic", "lab", "insurer"}
    for party in ("lab", "insurer"):
        bottom = trained.parts[party].bottom
        seed = trained.agreement.private_seed("bottom", party, SIMULATION_SECRET)
        untrained = build_bottom(**bottom.recipe, seed=seed)
        x = torch.from_numpy(bottom.preparation.transform(targets.records[party]))
        assert torch.allclose(Spy.diary["uploads"][party], untrained(x), atol=1e-6), "no gradient, no learning"
    assert torch.equal(Spy.diary["labels"], targets.labels)
    assert row(result, attack="spy", party="lab")["skill"] == pytest.approx(0, abs=1e-6)


def test_utility_is_that_of_the_honest_model(trained):
    before = [tensor.clone() for tensor in trained.parts["lab"].bottom.network.state_dict().values()]
    result = co.audit(trained, Spy(), seeds=1, progress=False)
    assert row(result, attack="spy", party="lab")["accuracy"] == trained.scores["accuracy"]
    after = trained.parts["lab"].bottom.network.state_dict().values()
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_its_victims_keep_their_defenses():
    model = table_model({"lab": {"name": "gaussian", "sigma": 0.7}})
    assert model.parts["insurer"].bottom.defense.name == "none"
    co.audit(model, Spy(), seeds=1, progress=False)
    _, targets = divide(held_out_of(model, None, None), 0.5, 1000, seed=0)
    for party, noise in (("lab", 0.7), ("insurer", 0.0)):
        bottom = model.parts[party].bottom
        seed = model.agreement.private_seed("bottom", party, SIMULATION_SECRET)
        x = torch.from_numpy(bottom.preparation.transform(targets.records[party]))
        difference = Spy.diary["uploads"][party] - build_bottom(**bottom.recipe, seed=seed)(x)
        assert float(difference.detach().std()) == pytest.approx(noise, rel=0.1, abs=1e-6)


def test_who_attacks_does_not_stop_early():
    """Validation gets no better under such an attack: patience would end it before it has begun."""
    model = table_model(epochs=4, patience=1)
    co.audit(model, Spy(), seeds=1, progress=False)
    assert Spy.diary["steps"] == list(range(honest_steps(model)))


def test_only_those_who_may_know_labels_are_told_them(trained, monkeypatch):
    from colonnade.attack import Knowledge

    monkeypatch.setattr(Spy, "knowledge", frozenset({Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS}))
    co.audit(trained, Spy(), seeds=1, progress=False)
    assert Spy.diary["labels"] is None


def test_who_asks_the_top_model_knows_the_active_partys_own_columns(trained, monkeypatch):
    """The top model joins everybody's uploads, the attacker's own too; nobody guesses what it knows already."""
    monkeypatch.setattr(Spy, "needs_top", True, raising=False)
    result = co.audit(trained, Spy(), seeds=1, progress=False)
    assert set(Spy.diary["uploads"]) == {"lab", "insurer", "clinic"}
    _, targets = divide(held_out_of(trained, None, None), 0.5, 1000, seed=0)
    assert list(targets.own["clinic"].ids) == list(targets.records["lab"].ids)
    assert len(Spy.diary["uploads"]["clinic"]) == len(targets)
    assert set(result.frame["party"]) == {"lab", "insurer"}


class Wrecker(Spy):
    """Sends gradients that no weight survives."""

    name = "wrecker"

    def watch(self, step, uploads, labels, honest):
        return {party: torch.full_like(gradient, torch.inf) for party, gradient in honest.items()}


def test_an_attack_that_breaks_its_training_costs_the_others_nothing(trained):
    """Hours of attacks were lost to the one whose victims' numbers ran away."""
    result = co.audit(trained, [Wrecker(), Spy()], seeds=2, progress=False)
    assert set(result.frame["attack"]) >= {"spy"} and "wrecker" not in set(result.frame["attack"])
    told = [note for note in result.notes if note.startswith("left out: attack 'wrecker': the training")]
    assert len(told) == 1 and "step 1" in told[0] and "no number" in told[0]
    with pytest.raises(RunError, match="which nobody overlooks"):
        co.audit(trained, Wrecker(), seeds=1, progress=False)


def test_an_attack_that_breaks_its_last_step_costs_the_others_nothing_either(trained, monkeypatch):
    """Nobody looks at a loss after the last gradient: what is uploaded then are no numbers."""

    def watch(self, step, uploads, labels, honest):
        spoil = torch.inf if step == honest_steps(trained) - 1 else 0.0
        return {party: torch.full_like(gradient, spoil) for party, gradient in honest.items()}

    monkeypatch.setattr(Wrecker, "watch", watch)
    result = co.audit(trained, [Wrecker(), Spy()], seeds=1, progress=False)
    assert set(result.frame["attack"]) >= {"spy"} and "wrecker" not in set(result.frame["attack"])
    assert any("uploads are no numbers" in note for note in result.notes)


def test_an_attack_that_can_not_be_run_costs_the_others_nothing_either(trained):
    """One that began too late took what had been found before it."""
    result = co.audit(trained, ["ridge", {"name": "pcat", "late_start": 10_000}], seeds=2, progress=False)
    assert "ridge" in set(result.frame["attack"])
    (told,) = [note for note in result.notes if note.startswith("left out: ")]
    assert "before the attack began" in told
    with pytest.raises(ConfigError, match="before the attack began"):
        co.audit(trained, {"name": "pcat", "late_start": 10_000}, seeds=1, progress=False)


def test_an_insider_needs_the_whole_federation(trained):
    alone = VerticalModel(trained.agreement, {"lab": trained.parts["lab"]})
    with pytest.raises(ConfigError, match="attack 'spy': it takes part in training"):
        co.audit(alone, Spy(), records={"lab": table(40, seed=3)[PARTIES["lab"]]}, seeds=1, progress=False)
    with pytest.raises(ConfigError, match="attack 'spy': it takes part in training"):
        co.audit(alone, Spy(), federation=trained.federation, seeds=1, progress=False)
