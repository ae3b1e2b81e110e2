"""Gaussian noise: the promised privacy, and the published noise that promises nothing."""

import math

import pytest
import torch
from release_parts import ready, records

import colonnade.defend.dp_gaussian  # noqa: F401 - registers it
from colonnade.defend.accounting import composed_epsilon
from colonnade.defend.registry import make_defense
from colonnade.errors import ConfigError


def test_the_bound_is_the_median_euclidean_norm():
    defense, bottom = ready("dp_gaussian")
    with torch.no_grad():
        norms = [bottom(batch).norm(dim=1) for batch in records().split(128)]
    assert defense.bound == pytest.approx(torch.cat(norms).median().item(), rel=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_calibrated_noise_keeps_its_promise(epsilon):
    """ε would be another one than was asked for: the account of one release says so independently."""
    defense, _ = ready("dp_gaussian", epsilon=epsilon, delta=1e-5)
    x, h = records(1), torch.zeros(300, 40)
    deviation = defense.protect(x, h, train=True).std().item()
    spent = defense.spend()
    assert spent.releases == 1
    assert deviation == pytest.approx(2 * defense.bound * spent.noise_multiplier, rel=0.03)
    assert composed_epsilon(spent, 1e-5) == pytest.approx(epsilon, rel=1e-3)
    assert defense.meters() == {"epsilon_spent": pytest.approx(epsilon, rel=1e-3)}


def test_no_record_reaches_farther_than_the_bound():
    """One outlier would move the upload by more than the noise is made for."""
    defense, _ = ready("dp_gaussian", epsilon=1e8)
    h = 1000 * torch.randn(300, 2, 4, 5, generator=torch.Generator().manual_seed(2))
    uploads = defense.protect(records(1), h, train=True)
    assert torch.allclose(uploads.flatten(1).norm(dim=1), torch.full((300,), defense.bound), rtol=1e-2)


def test_gradients_pass_the_clipping():
    """The bottom would be trained as if nothing were clipped."""
    defense, _ = ready("dp_gaussian")
    h = (10 * torch.randn(4, 40, generator=torch.Generator().manual_seed(0))).requires_grad_()
    grad = torch.randn(4, 40, generator=torch.Generator().manual_seed(1))
    defense.backward(records()[:4], h, defense.protect(records()[:4], h, train=True), grad)
    by_hand = h.detach().clone().requires_grad_()
    rows = [row * min(1.0, defense.bound / row.detach().norm().item()) for row in by_hand]
    assert not torch.allclose(h.grad, torch.autograd.grad(torch.stack(rows), by_hand, grad)[0])  # the norm has one too
    rows = [row * defense.bound / row.norm() for row in by_hand]
    assert torch.allclose(h.grad, torch.autograd.grad(torch.stack(rows), by_hand, grad)[0], rtol=1e-4)


def test_paper_mode_adds_the_published_noise_and_claims_nothing():
    """Tables would compare with another noise; a report would promise what nobody proved."""
    defense, _ = ready("dp_gaussian", epsilon=1.5, delta=1e-4, mode="paper")
    x, h = records(1), 100 * torch.ones(300, 40)
    deviation = (defense.protect(x, h, train=False) - h).std().item()
    assert deviation == pytest.approx(math.sqrt(2 * math.log(1.25 / 1e-4)) / 1.5, rel=0.03)
    assert defense.spend() is None and defense.meters() == {}


def test_strength_is_checked_and_described():
    described = make_defense("dp_gaussian", epsilon=2, delta=1e-4, memoise=True).describe()
    assert described == {"name": "dp_gaussian", "epsilon": 2, "delta": 1e-4, "mode": "calibrated", "memoise": True}
    for delta in (0, 1, 2, -1):
        with pytest.raises(ConfigError, match=r"dp_gaussian\.delta"):
            make_defense("dp_gaussian", delta=delta)
