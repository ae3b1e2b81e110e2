"""Ways to deploy CausShield: if these fail, uploads of one way are scored as those of another."""

import pytest
import torch
from bench_parts import Notes, striped_pictures

from colonnade.audit.attacks import bottom_of
from colonnade.audit.held_out import HeldOut, divide, held_out_of
from colonnade.bench.images import deployment, sets
from colonnade.bench.images.setting import SIZES, Size, task_of
from colonnade.bench.images.undecided import Undecided
from colonnade.learn.train import train

JITTER = {"surrogate": "jitter", "rounds": 2, "learning_rate": 1e-2}


@pytest.fixture
def federation(monkeypatch):
    made = striped_pictures()
    monkeypatch.setattr(sets, "_loaded", lambda name: made)
    monkeypatch.setitem(SIZES, "smoke", Size(64, 48, 1, 8, "smoke"))
    return sets.pictures("cifar10", 64, 48)


@pytest.fixture
def model(federation):
    defenses = {half: Undecided(**JITTER) for half in sets.STRIPS}
    return train(federation, defenses, task=task_of("cifar10", "smoke"), seed=0, progress=False)


def uploads(model, people):
    return {half: deployment.attacked_upload(model, half, people) for half in sets.STRIPS}


def test_every_way_uploads_something_else_and_the_first_the_bottoms_own(model, federation):
    people = held_out_of(model, federation, None)
    seen = {way: uploads(model, people)["left"] for way in deployment.deployments(model)}
    assert list(seen) == [("bottom", None), ("generator", 2), ("generator", 6), ("generator", 20)]
    bottom = bottom_of(model, "left")
    with torch.no_grad():
        own = bottom.network.eval()(bottom.features(people.records["left"]))
    torch.testing.assert_close(seen["bottom", None], own)
    distances = [(seen["generator", steps] - own).norm().item() for steps in (2, 6, 20)]
    assert 0 < distances[0] < distances[1] < distances[2], "longer adaptation leads further away"


def test_a_way_does_not_depend_on_those_before_it(model, federation):
    people = held_out_of(model, federation, None)
    defense = bottom_of(model, "left").defense
    defense.decide(6)
    straight = uploads(model, people)["left"]
    for steps in (20, 6):
        defense.decide(steps)
    assert torch.equal(uploads(model, people)["left"], straight)


def test_what_is_decided_is_what_causshield_itself_deploys(model, federation):
    plain = {"name": "causshield", **JITTER, "deploy_rounds": 6}
    finished = train(federation, plain, task=task_of("cifar10", "smoke"), seed=0, progress=False)
    people = held_out_of(model, federation, None)
    for half in sets.STRIPS:
        bottom_of(model, half).defense.decide(6)
    ours, theirs = uploads(model, people), uploads(finished, people)
    assert all(torch.equal(ours[half], theirs[half]) for half in sets.STRIPS)
    assert deployment.accuracy(model, people) == pytest.approx(finished.scores["accuracy"])


def test_uploads_of_training_are_those_of_a_batch_with_its_own_generator(model, federation):
    people = deployment.trained_on(federation, 8)
    apart = deployment.training_uploads(model, people, 4)
    assert {half: found.shape[0] for half, found in apart.items()} == {"left": 8, "right": 8}
    first = HeldOut({half: held.take(range(4)) for half, held in people.records.items()})
    alone = deployment.training_uploads(model, first, 4)["left"]
    bottom = bottom_of(model, "left")
    with torch.no_grad():
        own = bottom.network.train()(bottom.features(first.records["left"]))
    assert not torch.allclose(alone, own), "the generator was adapted"
    assert (alone - apart["left"][:4]).norm() < (alone - own).norm(), "to nearly the same place"


def test_a_perfect_guess_has_all_the_skill_and_the_mean_picture_none(model, federation):
    known, wanted = divide(held_out_of(model, federation, None), 0.5, 8, seed=0)
    bottoms = {half: bottom_of(model, half) for half in sets.STRIPS}
    true = {half: bottom.features(wanted.records[half]) for half, bottom in bottoms.items()}
    mean = {
        half: bottom.features(known.records[half]).mean(0).expand_as(true[half]) for half, bottom in bottoms.items()
    }
    perfect, blind = (deployment.errors(model, known, wanted, guess) for guess in (true, mean))
    assert perfect["mse"] == pytest.approx(0, abs=1e-9) and perfect["skill"] == pytest.approx(1)
    assert blind["skill"] == pytest.approx(0, abs=1e-6) and blind["mse"] == pytest.approx(blind["blind_mse"])


def test_costs_are_those_against_the_bare_model_of_the_same_seed():
    def kept(accuracy, cost=0.0):
        scored = {"mse": 0.03 + cost, "skill": 0.5, "blind_mse": 0.06}
        return [
            {"deployed": "as in training", "steps": None, "accuracy": None, **scored},
            {"deployed": "bottom", "steps": None, "accuracy": accuracy, **scored},
        ]

    bare, defended = (tuple(one.items()) for one in deployment._defenses("smoke"))
    found = {
        deployment.Deployment(bare, 0, "smoke"): kept(0.5),
        deployment.Deployment(bare, 1, "smoke"): kept(0.7),
        deployment.Deployment(defended, 0, "smoke"): kept(0.4, 0.01),
        deployment.Deployment(defended, 1, "smoke"): kept(0.5, 0.03),
    }
    rows = list(deployment._rows(found, "smoke"))
    assert [(row["defense"], row["deployed"], row["seeds"]) for row in rows] == [
        ("none", "as in training", 2),
        ("none", "bottom", 2),
        ("causshield", "as in training", 2),
        ("causshield", "bottom", 2),
    ]
    assert [row["rate"] for row in rows] == [None, None, 1e-4, 1e-4]
    assert [row["accuracy_cost"] for row in rows] == [None, 0, None, pytest.approx(0.15)]
    assert rows[-1]["mse"] == pytest.approx(0.05) and rows[-1]["accuracy_cost_ci"] > 0


@pytest.mark.slow
def test_the_bench_runs_and_keeps_its_rows(federation, tmp_path):
    notes = Notes()
    rows = deployment.deploy("smoke", notes, folder=tmp_path)
    assert [(row["defense"], row["steps"]) for row in rows] == [
        *[("none", None)] * 2,
        *[("causshield", steps) for steps in (None, None, 5, 15, 50)],
    ]
    assert len(list(tmp_path.iterdir())) == 2
    assert deployment.deploy("smoke", notes, folder=tmp_path) == rows
