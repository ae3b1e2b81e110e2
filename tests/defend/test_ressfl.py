"""ResSFL: a narrow cut, and a bottom that is pushed only as long as the inversion model sees something."""

import copy
import math

import numpy as np
import pytest
import torch
from learned_parts import conv_bottom, dense_bottom, images, one_step, seeded, set_up, vectors
from torch import nn

from colonnade.defend import make_defense
from colonnade.defend.ressfl import ResSFL, structural_similarity
from colonnade.errors import ConfigError


def slow_similarity(first, second):
    """The definition, window by window."""
    height, width = first.shape[-2:]
    tall, wide = min(11, height), min(11, width)
    weights = np.array(
        [
            [math.exp(-((i - (tall - 1) / 2) ** 2 + (j - (wide - 1) / 2) ** 2) / (2 * 1.5**2)) for j in range(wide)]
            for i in range(tall)
        ]
    )
    weights /= weights.sum()
    found = []
    for a, b in zip(first.double().numpy(), second.double().numpy(), strict=True):
        for i in range(height - tall + 1):
            for j in range(width - wide + 1):
                p, q = a[i : i + tall, j : j + wide], b[i : i + tall, j : j + wide]
                mean_p, mean_q = (weights * p).sum(), (weights * q).sum()
                var_p, var_q = (weights * (p - mean_p) ** 2).sum(), (weights * (q - mean_q) ** 2).sum()
                both = (weights * (p - mean_p) * (q - mean_q)).sum()
                found.append(
                    (2 * mean_p * mean_q + 1e-4)
                    * (2 * both + 9e-4)
                    / ((mean_p**2 + mean_q**2 + 1e-4) * (var_p + var_q + 9e-4))
                )
    return np.mean(found)


@pytest.mark.parametrize(("height", "width"), [(14, 12), (8, 4)])
def test_similarity_is_the_published_one_also_on_narrow_strips(height, width):
    first, second = torch.rand(2, 3, 2, height, width, generator=seeded())
    found = structural_similarity(first, second)
    for index in range(3):
        assert found[index].item() == pytest.approx(slow_similarity(first[index], second[index]), abs=1e-5)
    assert structural_similarity(first, first).tolist() == pytest.approx([1, 1, 1])


def test_the_upload_is_narrow():
    defense = ResSFL(channels=3, warm_up=0)
    x, preparation = images()
    assert set_up(defense, conv_bottom(), x, preparation).upload(torch.arange(4), train=False).shape == (4, 3, 12, 12)
    upload = set_up(ResSFL(channels=3, warm_up=0), dense_bottom(), vectors()).upload(torch.arange(4), train=False)
    assert upload.shape == (4, 3) and upload.min() < 0


def gradient_of(at_work, weight, local):
    """What the bottom's parameters get: the task's gradient, and `weight` times that of `local(upload)`."""
    bottom = copy.deepcopy(at_work.network).train()
    upload = bottom(at_work.features)
    grad = torch.randn(upload.shape, generator=seeded(9)) / upload.numel() ** 0.5
    ((grad * upload).sum() + weight * local(upload)).backward()
    return [parameter.grad for parameter in bottom.parameters()]


def learned_gradient(at_work):
    before = [parameter.clone() for parameter in at_work.network.parameters()]
    one_step(at_work, rate=1.0)
    return [old - new for old, new in zip(before, at_work.network.parameters(), strict=True)]


@pytest.mark.parametrize(("steps", "seen"), [(0, False), (80, True)])
def test_images_push_the_bottom_only_above_the_threshold(steps, seen):
    """A blind inversion model would cost accuracy for nothing; a seeing one would go unanswered."""
    x, preparation = images()
    defense = ResSFL(weight=5.0, warm_up=steps)
    at_work = set_up(defense, conv_bottom(), x, preparation)
    bottom = copy.deepcopy(at_work.network).train()
    statistics = preparation.statistics
    mean, scale = (torch.tensor(part)[:, None, None] for part in (statistics.mean, statistics.scale))

    def excess(upload):
        guess = defense.adversary(upload, train=False) * scale + mean
        return (structural_similarity(guess, x * scale + mean).mean() - 0.5).clamp(min=0)

    got = learned_gradient(at_work)
    assert (excess(bottom(x)).item() > 0.01) == seen
    at_work.network.load_state_dict(bottom.state_dict())
    expected = gradient_of(at_work, 5.0, excess)
    for mine, slow in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, slow, rtol=1e-3, atol=1e-4)


def test_tables_push_by_squared_error():
    x = vectors(64)
    defense = ResSFL(weight=2.0, warm_up=20)
    at_work = set_up(defense, dense_bottom(), x)
    bottom = copy.deepcopy(at_work.network)
    got = learned_gradient(at_work)
    at_work.network.load_state_dict(bottom.state_dict())
    assert defense.adversary.error(bottom(x), x) < defense.adversary.ceiling
    for mine, slow in zip(
        got, gradient_of(at_work, -2.0, lambda upload: defense.adversary.error(upload, x)), strict=True
    ):
        torch.testing.assert_close(mine, slow, rtol=1e-3, atol=1e-5)


def test_the_warm_up_teaches_the_inversion_model_alone():
    x, preparation = images()
    bottom = conv_bottom()
    before = copy.deepcopy(bottom.state_dict())
    cold, warm = ResSFL(warm_up=0), ResSFL(warm_up=40)
    uploads = []
    for defense in (cold, warm):
        at_work = set_up(defense, bottom, x, preparation)
        uploads.append((defense, at_work.upload(torch.arange(len(x)), train=False)))
    errors = [defense.adversary.error(upload, x).item() for defense, upload in uploads]
    assert errors[1] < 0.7 * errors[0]
    assert all(torch.equal(tensor, before[name]) for name, tensor in bottom.state_dict().items())


def test_strength_is_checked_and_described():
    described = {"name": "ressfl", "weight": 0.3, "channels": 8, "warm_up": 30}
    assert make_defense("ressfl").describe() == described
    with pytest.raises(ConfigError, match=r"ressfl\.channels: 0"):
        make_defense("ressfl", channels=0)
    assert isinstance(ResSFL(warm_up=0).extend(nn.Linear(3, 5), (3,)), nn.Sequential)
