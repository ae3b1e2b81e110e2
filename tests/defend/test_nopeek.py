"""NoPeek: less distance correlation between records and uploads."""

import pytest
import torch
from torch import nn

import colonnade.defend.nopeek  # noqa: F401 - registers it
from colonnade.defend.registry import make_defense
from colonnade.errors import ConfigError
from colonnade.measure.dependence import distance_correlation
from colonnade.nets import initialised


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_bottom_gets_the_gradient_of_the_convex_loss():
    """The weight would not mean what the published one means."""
    bottom, x, grad = initialised(lambda: nn.Linear(5, 3), 0), normal(0, 64, 5), normal(1, 64, 3)
    h = bottom(x)
    ((1 - 0.3) * (h * grad).sum() + 0.3 * distance_correlation(x, h)).backward()
    expected = bottom.weight.grad.clone()
    bottom.zero_grad()
    defense = make_defense("nopeek", weight=0.3)
    h = bottom(x)
    upload = defense.protect(x, h, train=True)
    assert torch.equal(upload, h)
    defense.backward(x, h, upload, grad)
    assert torch.allclose(bottom.weight.grad, expected, rtol=1e-5, atol=1e-6)


def test_training_lowers_the_correlation():
    """The defense would be one in name only."""
    x = normal(0, 128, 6)
    target = x[:, :1].sign()

    def trained(weight):
        bottom, top = initialised(lambda: nn.Linear(6, 6), 0), initialised(lambda: nn.Linear(6, 1), 1)
        optimizer = torch.optim.Adam([*bottom.parameters(), *top.parameters()], lr=0.02)
        defense = make_defense("nopeek", weight=weight)
        for _ in range(150):
            optimizer.zero_grad()
            h = bottom(x)
            upload = defense.protect(x, h, train=True)
            received = upload.detach().requires_grad_()
            nn.functional.soft_margin_loss(top(received), target).backward()
            defense.backward(x, h, upload, received.grad)
            optimizer.step()
        h = bottom(x)
        accuracy = ((top(h) > 0) == (target > 0)).float().mean().item()
        return distance_correlation(x, h).item(), accuracy

    (plain, _), (protected, accuracy) = trained(0.0), trained(0.6)
    # Over three seeds it fell by 0.09, 0.13 and 0.09; the column that the task needs keeps it from zero.
    assert protected < plain - 0.06
    assert accuracy > 0.95


def test_the_meter_is_the_mean_of_the_batches_since_the_last_look():
    defense = make_defense("nopeek")
    assert defense.meters() == {}
    seen = []
    for seed in range(3):
        x, h = normal(seed, 32, 4), normal(seed + 10, 32, 2).requires_grad_()
        defense.backward(x, h, defense.protect(x, h, train=True), torch.zeros(32, 2))
        seen.append(distance_correlation(x, h).item())
    assert defense.meters() == {"distance_correlation": pytest.approx(sum(seen) / 3)}
    assert defense.meters() == {}


def test_a_single_record_is_trained_on_without_distances():
    """The last record of an odd batch would stop the run."""
    h = torch.ones(1, 2, requires_grad=True)
    defense = make_defense("nopeek", weight=0.25)
    defense.backward(torch.ones(1, 4), h, defense.protect(h, h, train=True), torch.ones(1, 2))
    assert h.grad.tolist() == [[0.75, 0.75]]


def test_weights_above_one_are_refused():
    with pytest.raises(ConfigError, match=r"nopeek\.weight.*from 0 to 1"):
        make_defense("nopeek", weight=1.5)
