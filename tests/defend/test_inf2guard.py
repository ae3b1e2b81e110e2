"""Inf2Guard: the critic raises its estimate of the information, the bottom lowers it; never the other way round."""

import copy
import math

import pytest
import torch
from learned_parts import conv_bottom, dense_bottom, images, one_step, seeded, set_up, vectors

from colonnade.defend import make_defense
from colonnade.defend.inf2guard import CRITIC_STEPS, Inf2Guard
from colonnade.errors import ConfigError


def slow_information(critic, x, upload):
    """The Jensen-Shannon estimate, pair by pair: own uploads against those of the record before."""
    total = 0
    for index in range(len(x)):
        together = critic(x[index : index + 1], upload[index : index + 1], train=True)
        other = upload[index - 1 : index] if index else upload[-1:]
        apart = critic(x[index : index + 1], other, train=True)
        total = total - torch.log(1 + torch.exp(-together)) - torch.log(1 + torch.exp(apart))
    return (total / len(x)).squeeze()


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_the_bottom_descends_what_the_critic_has_climbed(kind):
    """The released code has this sign wrong, and uploads that tell more."""
    x, preparation = images(8) if kind == "maps" else (vectors(), None)
    defense = Inf2Guard(task=0.25, sigma=0.0)
    at_work = set_up(defense, conv_bottom() if kind == "maps" else dense_bottom(), x, preparation)
    critic, bottom = copy.deepcopy(defense.learners["critic"]), copy.deepcopy(at_work.network)
    before = [parameter.clone() for parameter in at_work.network.parameters()]
    upload, grad = one_step(at_work, rate=1.0)

    estimates = []
    for _ in range(CRITIC_STEPS):
        estimate = slow_information(critic, x, upload)
        estimates.append(estimate.item())
        critic.descend(-estimate)
    assert estimates[0] < estimates[1] < estimates[2]
    h = bottom.train()(x)
    (0.25 * (grad * h).sum() + 0.75 * slow_information(critic, x, h)).backward()
    for old, new, slow in zip(before, at_work.network.parameters(), bottom.parameters(), strict=True):
        torch.testing.assert_close(old - new, slow.grad, rtol=1e-3, atol=2e-5)
    assert defense.meters()["information"] == pytest.approx(estimates[-1], abs=1e-4)
    assert defense.meters() == {}


def test_a_bottom_without_a_task_forgets_its_records():
    """If the game does not hide anything even when there is nothing else to learn, it is no defense."""
    x = vectors(128)
    found = {}
    for task in (0.0, 1.0):
        defense = Inf2Guard(task=task, sigma=0.5)
        at_work = set_up(defense, dense_bottom(), x)
        for _ in range(250):
            upload = at_work.upload(torch.arange(128), train=True)
            at_work.learn(torch.zeros_like(upload), rate=0.5)
        defense.meters()
        one_step(at_work, rate=0.0, grad=torch.zeros_like(upload))
        found[task] = defense.meters()["information"]
    assert found[0.0] < found[1.0] - 0.3
    assert found[0.0] >= -2 * math.log(2) - 0.05


@pytest.mark.parametrize("train", [True, False])
def test_noise_follows_the_scale_of_the_representation(train):
    x = vectors(400)
    defense = Inf2Guard(sigma=0.5)
    at_work = set_up(defense, dense_bottom(), x)
    h = at_work.network(x).detach()
    defense.protect(x, 3 * h, train=True)
    noise = defense.protect(x, 3 * h, train=train) - 3 * h
    assert noise.std().item() == pytest.approx(0.5 * 3 * h.std().item(), rel=0.05)
    # A single record has no deviation of its own that could be measured: the one of the training is used.
    noise = torch.stack([defense.protect(x[:1], 3 * h[:1], train=False) - 3 * h[:1] for _ in range(200)])
    assert noise.std().item() == pytest.approx(0.5 * 3 * h.std().item(), rel=0.1)


def test_anybody_can_add_noise_of_the_kind():
    h = 2 * torch.randn(100, 50, generator=seeded())
    noise = Inf2Guard(sigma=0.5).operator()(h) - h
    assert noise.std().item() == pytest.approx(1.0, rel=0.05)


def test_a_single_record_has_no_other_to_be_told_from():
    defense = Inf2Guard()
    at_work = set_up(defense, dense_bottom(), vectors())
    one_step(at_work, rows=torch.tensor([3]))
    assert all(torch.isfinite(parameter).all() for parameter in at_work.network.parameters())


def test_strength_is_checked_and_described():
    assert make_defense("inf2guard", task=0.4).describe() == {"name": "inf2guard", "task": 0.4, "sigma": 0.5}
    with pytest.raises(ConfigError, match=r"inf2guard\.task: 2"):
        make_defense("inf2guard", task=2)
