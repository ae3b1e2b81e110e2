"""If these fail, local updates drift from what was agreed, or parties are weighed and paid for what others brought."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import colonnade as co
from colonnade.defend import make_defense
from colonnade.errors import ConfigError
from colonnade.federation.task import OptimizerSettings, WeightSettings
from colonnade.learn.bottom import Bottom
from colonnade.learn.weights import MOST_LOOKS, Weights
from colonnade.run import Run

QUICK = {"epochs": 3, "batch_size": 32, "progress": False}


@pytest.fixture(scope="module")
def federation():
    """The lab knows the answer, the insurer knows nothing, the clinic has the label and a hint."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 6))
    table = pd.DataFrame(values, columns=["age", "bmi", "glucose", "insulin", "claims", "visits"])
    table["outcome"] = np.where(0.3 * values[:, 0] + values[:, 2] + values[:, 3] > 0, "ill", "well")
    parties = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"], "insurer": ["claims", "visits"]}
    return co.Federation.from_frame(table, parties, label=("clinic", "outcome"))


def weights(model, party="lab"):
    return nn.utils.parameters_to_vector(model.parts[party].bottom.network.parameters()).detach()


class Heard:
    """Keeps the gradients of the first batch."""

    def begin(self, top, shapes, outputs):
        self.first = None

    def watch(self, step, uploads, labels, honest):
        self.first = self.first or {party: gradient.clone() for party, gradient in honest.items()}
        return honest


def heard(federation, **settings):
    listener = Heard()
    co.train(federation, seed=0, curious=listener, **QUICK, **settings)
    return listener.first


def test_one_local_update_is_the_classic_split(federation):
    plain, one = co.train(federation, **QUICK), co.train(federation, local_updates=1, **QUICK)
    assert torch.equal(weights(plain), weights(one))


def test_further_local_updates_follow_the_stale_gradient_at_fresh_representations():
    """Against three steps by hand on a network that is not linear in its weights."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    by_hand = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    by_hand.load_state_dict(network.state_dict())
    x, gradient = torch.randn(5, 3), torch.randn(5, 2)
    bottom = Bottom(
        network,
        x,
        make_defense("none"),
        settings=OptimizerSettings(name="sgd", momentum=0.0),
        device=torch.device("cpu"),
    )
    bottom.upload(torch.arange(5), train=True)
    bottom.learn(gradient, rate=0.1, updates=3)
    for _ in range(3):
        by_hand.zero_grad()
        by_hand(x).backward(gradient)
        with torch.no_grad():
            for parameter in by_hand.parameters():
                parameter -= 0.1 * parameter.grad
    for found, expected in zip(network.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


def test_local_updates_learn_more_from_as_many_messages(federation):
    settings = {"seed": 0, "progress": False, "batch_size": 64, "epochs": 3}
    once, often = (co.train(federation, local_updates=count, **settings) for count in (1, 5))
    assert often.history["train_loss"].iloc[-1] < once.history["train_loss"].iloc[-1] - 0.05


def test_what_stays_at_home_costs_no_privacy(federation):
    model = co.train(federation, {"name": "dp_gaussian", "epsilon": 50.0}, local_updates=4, **QUICK)
    defense = model.parts["lab"].bottom.defense
    assert defense.spend().releases == QUICK["epochs"], "a training record is uploaded once an epoch"


def test_uniform_weights_divide_the_gradient_by_the_number_of_parties(federation):
    plain, uniform = heard(federation), heard(federation, weights={"strategy": "uniform"})
    for party in ("clinic", "lab", "insurer"):
        torch.testing.assert_close(uniform[party], plain[party] / 3)


def test_shapley_weights_sum_to_one_and_favour_who_brings_most(federation):
    model = co.train(
        federation, seed=0, epochs=12, batch_size=32, progress=False, weights={"strategy": "shapley", "every": 2}
    )
    found = model.history[["weight_clinic", "weight_lab", "weight_insurer"]]
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found["weight_lab"].iloc[-1] > 0.5 > found["weight_clinic"].iloc[-1]
    assert found["weight_insurer"].iloc[-1] < 0.2


def test_a_resumed_run_keeps_its_weights(federation, tmp_path):
    settings = {
        "seed": 0, "epochs": 4, "batch_size": 32, "progress": False, "checkpoint_every": 5,
        "weights": {"strategy": "shapley", "every": 3}, "local_updates": 2,
    }  # fmt: skip
    undisturbed = co.train(federation, **settings)

    class Stumble(Heard):
        def watch(self, step, uploads, labels, honest):
            if step == 17:
                raise RuntimeError("stumbled")
            return honest

    with pytest.raises(RuntimeError, match="stumbled"):
        co.train(federation, run=tmp_path, curious=Stumble(), **settings)
    resumed = co.train(federation, run=tmp_path, resume=True, **settings)
    assert torch.equal(weights(resumed), weights(undisturbed))
    assert resumed.history.equals(undisturbed.history)
    steps = undisturbed.looks["step"].tolist()
    assert steps == list(range(0, steps[-1] + 1, 3)) and steps[-1] > 30
    pd.testing.assert_frame_equal(resumed.looks, undisturbed.looks)
    logged = Run.open(tmp_path / "clinic").metrics().set_index("step").loc[steps, list(undisturbed.looks.columns[1:])]
    pd.testing.assert_frame_equal(logged.reset_index(), undisturbed.looks, check_dtype=False)


def test_the_last_look_is_what_the_last_epoch_ends_with(federation, tmp_path):
    model = co.train(federation, seed=0, weights={"strategy": "shapley", "every": 2}, **QUICK)
    looks = model.looks
    assert looks["weight_lab"].nunique() > 3
    assert looks.iloc[-1, 1:].tolist() == model.history.filter(regex="^weight_").iloc[-1].tolist()
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(co.load(tmp_path / "model").looks, looks)
    assert co.train(federation, weights="uniform", **QUICK).looks.empty, "nobody looked"


@pytest.mark.parametrize(("steps", "every"), [(100_000, 1), (2_560, 10), (2_570, 10), (700, 100)])
def test_of_many_looks_some_are_kept_evenly(steps, every):
    """A curve needs no more; a checkpoint of a long run would grow without end."""
    held = Weights(WeightSettings(strategy="shapley", every=every), ["a", "b"], steps)
    for step in range(0, steps, every):
        held.look(step, lambda present: float("a" in present))
    found = [look["step"] for look in held.looks]
    assert min(steps // every, MOST_LOOKS // 2) <= len(found) <= MOST_LOOKS
    assert found[0] == 0 and len(set(np.diff(found))) == 1


def test_contributions_are_shares_of_what_all_bring(federation, tmp_path):
    model = co.train(federation, seed=0, epochs=15, batch_size=32, progress=False)
    shares = model.contributions
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["lab"] > 0.6 and abs(shares["insurer"]) < 0.15
    model.save(tmp_path / "model")
    assert co.load(tmp_path / "model").contributions == shares


def test_a_plain_name_is_the_strategy(federation):
    assert co.Task.model_validate({"weights": "shapley"}).weights == WeightSettings(strategy="shapley")
    assert set(co.train(federation, weights="uniform", **QUICK).history["weight_lab"]) == {1 / 3}
    with pytest.raises(ConfigError, match=r"none.*uniform.*shapley"):
        co.train(federation, weights="shaply", **QUICK)


@pytest.mark.parametrize(("floor", "remedy"), [(0.9, 0.333), (0.34, 0.333)])
def test_a_floor_that_all_can_not_have_is_refused_at_once(federation, floor, remedy, tmp_path):
    with pytest.raises(ConfigError, match="3 parties can't all weigh") as caught:
        co.train(federation, weights={"strategy": "shapley", "floor": floor}, run=tmp_path / "run", **QUICK)
    assert (caught.value.where, caught.value.remedy) == ("task.weights.floor", f"give at most {remedy}")
    assert not (tmp_path / "run").exists(), "before anything begins"


def test_a_floor_counts_who_uploads_alone(federation):
    table = pd.concat([records.table for records in federation.records.values()], axis=1)
    table["outcome"] = federation.records["clinic"].label
    parties = {"clinic": [], "lab": ["glucose", "insulin"], "insurer": ["claims", "visits"]}
    made = co.Federation.from_frame(table, parties, label=("clinic", "outcome"))
    model = co.train(made, weights={"strategy": "shapley", "floor": 0.5}, **QUICK)
    assert model.looks.filter(regex="^weight_").shape[1] == 2


@pytest.mark.parametrize(("parties", "least"), [(2, 0.05), (10, 0.05), (40, 0.0125)])
def test_however_many_parties_there_are_the_floor_of_itself_fits(parties, least):
    names = [f"party{number}" for number in range(parties)]
    held = Weights(WeightSettings(strategy="shapley", every=1, smoothing=0.0), names)
    held.look(1, lambda present: float("party0" in present))
    assert min(held.current.values()) == pytest.approx(least / (1 + (parties - 1) * least))


def test_nothing_is_divided_before_anything_is_learned():
    held = Weights(WeightSettings(strategy="shapley", every=1), ["a", "b"])
    held.look(0, lambda present: 0.001 * len(present))
    assert held.current == {"a": 0.5, "b": 0.5}
    held.look(1, lambda present: float("a" in present))
    assert held.current["a"] == pytest.approx(0.5 * 0.5 + 0.5 / 1.05)
    assert sum(held.current.values()) == pytest.approx(1)


def test_a_look_happens_only_every_so_many_steps():
    held = Weights(WeightSettings(strategy="shapley", every=4), ["a", "b"])
    for step in (1, 2, 3, 5):
        held.look(step, lambda present: pytest.fail("not now"))
    held.look(8, lambda present: float("a" in present))
    assert held.current["a"] > held.current["b"]
