"""Laplace noise: the promised privacy, and the published noise that promises nothing."""

import pytest
import torch
from release_parts import ready, records

import colonnade.defend.dp_laplace  # noqa: F401 - registers it
from colonnade.defend.private_release import PrivateRelease
from colonnade.defend.registry import make_defense
from colonnade.errors import ConfigError


def noise_of(defense, x, h):
    upload = defense.protect(x, h, train=False)
    return upload - h


def test_the_bound_is_the_median_norm_and_choosing_it_moves_nothing():
    """The bound would follow a bottom model that does not exist; or preparing would change the first step."""
    defense, bottom = ready("dp_laplace")
    assert int(bottom[1].num_batches_tracked) == 0
    with torch.no_grad():
        norms = [bottom(batch).abs().sum(1) for batch in records().split(128)]
    assert defense.bound == pytest.approx(torch.cat(norms).median().item(), rel=1e-6)


def test_calibrated_noise_has_the_scale_that_privacy_needs():
    """ε would be another one than was asked for."""
    defense, _ = ready("dp_laplace", epsilon=2.0)
    x, small = records(1), torch.full((300, 40), 1e-3)
    noise = noise_of(defense, x, small)
    scale = 2 * defense.bound / 2.0
    # The mean size of Laplace noise is its scale.
    assert noise.abs().mean().item() == pytest.approx(scale, rel=0.05)


def test_no_record_reaches_farther_than_the_bound():
    """One outlier would move the upload by more than the noise is made for."""
    defense, _ = ready("dp_laplace", epsilon=1e12)
    h = 1000 * torch.randn(300, 40, generator=torch.Generator().manual_seed(2))
    uploads = defense.protect(records(1), h, train=True)
    assert torch.allclose(uploads.abs().sum(1), torch.full((300,), defense.bound), rtol=1e-4)
    assert torch.allclose(uploads[0] / uploads[0, 0], h[0] / h[0, 0], rtol=1e-3)
    small = torch.full((300, 40), 1e-3)
    assert torch.allclose(defense.protect(records(1), small, train=True), small, atol=1e-6)


def test_the_account_counts_epochs_and_predictions():
    """A run of many epochs would claim the ε of one."""
    defense, bottom = ready("dp_laplace", epsilon=1.0)
    x = records(1)
    for epoch in range(4):
        for batch in x.split(100):
            defense.protect(batch, bottom(batch).detach(), train=True)
        spent = defense.spend()
        assert (spent.mechanism, spent.noise_multiplier, spent.releases) == ("laplace", 1.0, epoch + 1)
    assert defense.meters() == {"epsilon_spent": pytest.approx(4, rel=1e-2)}
    defense.prepare(bottom, records())
    assert defense.spend().releases == 0


def test_paper_mode_adds_the_published_noise_and_claims_nothing():
    """Tables would compare with another noise; a report would promise what nobody proved."""
    defense, _ = ready("dp_laplace", epsilon=2.0, mode="paper")
    x, h = records(1), 100 * torch.ones(300, 40)
    noise = noise_of(defense, x, h)
    assert noise.abs().mean().item() == pytest.approx(1 / 2.0, rel=0.05)
    assert defense.spend() is None and defense.meters() == {}


def test_paper_mode_passes_the_gradient_unchanged():
    defense, _ = ready("dp_laplace", mode="paper")
    h = torch.ones(3, 40, requires_grad=True)
    grad = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    defense.backward(records()[:3], h, defense.protect(records()[:3], h, train=True), grad)
    assert torch.equal(h.grad, grad)


def test_memoised_noise_is_the_records_own_and_claims_nothing():
    """Averaging would wash it out; and a claim would be wrong, since a moving representation shows through."""
    defense, _ = ready("dp_laplace", memoise=True)
    x, h = records(1), torch.zeros(300, 40)
    first = defense.protect(x, h, train=True)
    assert torch.equal(defense.protect(x.flip(0), h, train=False).flip(0), first)
    moved = defense.protect(x, h + 0.01, train=True)
    assert torch.allclose(moved - first, torch.tensor(0.01), atol=1e-3)
    assert defense.spend() is None


def test_a_second_run_with_the_same_seed_repeats_the_first():
    """A defense that is used again would remember the key of the run before."""
    defense, bottom = ready("dp_laplace", memoise=True, seed=3)
    x, h = records(1), torch.zeros(300, 40)
    first = defense.protect(x, h, train=True)
    defense.seed(3)
    defense.prepare(bottom, records())
    assert torch.equal(defense.protect(x, h, train=True), first)


def test_an_adaptive_attacker_gets_the_same_kind_of_noise():
    defense, _ = ready("dp_laplace", epsilon=2.0)
    before = defense.generator.get_state()
    h = torch.full((300, 40), 1e-3)
    noise = defense.operator()(h) - h
    assert noise.abs().mean().item() == pytest.approx(defense.bound, rel=0.05)
    assert torch.equal(defense.generator.get_state(), before)


def test_a_dead_bottom_model_is_named():
    defense = make_defense("dp_laplace")
    bottom = torch.nn.Linear(5, 3)
    torch.nn.init.zeros_(bottom.weight)
    torch.nn.init.zeros_(bottom.bias)
    with pytest.raises(ConfigError, match="no norm to clip at"):
        defense.prepare(bottom, records())


def test_strength_is_checked():
    assert issubclass(type(make_defense("dp_laplace")), PrivateRelease)
    for wrong, match in [
        ({"epsilon": 0}, "infinite noise"),
        ({"epsilon": -1}, "is not allowed"),
        ({"mode": "papr"}, "did you mean 'paper'"),
    ]:
        with pytest.raises(ConfigError, match=match):
            make_defense("dp_laplace", **wrong)
