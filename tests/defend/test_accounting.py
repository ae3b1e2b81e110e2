"""What noise is worth, held against the accountant's own numerical composition."""

import math

import pytest
import torch
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from colonnade.defend.accounting import Releases, composed_epsilon, gaussian_multiplier
from colonnade.defend.base import PrivacySpend


def exact_delta(multiplier, epsilon):
    """Balle and Wang (2018), Theorem 8, at sensitivity 1."""
    return norm.cdf(0.5 / multiplier - epsilon * multiplier) - math.exp(epsilon) * norm.cdf(
        -0.5 / multiplier - epsilon * multiplier
    )


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 20.0])
def test_the_gaussian_noise_is_enough_and_no_more(epsilon):
    """The promised ε would be broken; or utility be given away."""
    multiplier = gaussian_multiplier(epsilon, 1e-5)
    assert exact_delta(multiplier, epsilon) == pytest.approx(1e-5, rel=1e-3)
    if epsilon <= 1:
        assert multiplier < math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon


@pytest.mark.parametrize(("multiplier", "releases"), [(3.73, 1), (3.73, 10), (20.0, 60)])
def test_gaussian_releases_compose_as_the_accountant_composes_them(multiplier, releases):
    """The log would tell a smaller ε than was spent."""
    accountant = PLDAccountant()
    accountant.compose(GaussianDpEvent(multiplier), releases)
    ours = composed_epsilon(PrivacySpend("gaussian", multiplier, releases), 1e-5)
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_laplace_releases_never_cost_more_than_their_sum():
    def spent(epsilon, releases):
        return composed_epsilon(PrivacySpend("laplace", 1 / epsilon, releases), 1e-5)

    assert spent(1.0, 1) == pytest.approx(1, rel=1e-3)
    assert spent(1.0, 60) == pytest.approx(45.6401, rel=1e-4)  # dp-accounting 0.6, PLD of 60 Laplace events
    assert spent(5000.0, 3) == 15000
    assert spent(1.0, 0) == 0


@pytest.mark.parametrize(("epsilon", "releases"), [(10.0, 30_000), (0.01, 30_000)])
def test_many_laplace_releases_fit_into_memory(epsilon, releases):
    """Records of a small table are equal and count as one: a fine grid of so many releases would take 100 GB."""
    composed = composed_epsilon(PrivacySpend("laplace", 1 / epsilon, releases))
    assert 0 < composed <= epsilon * releases
    if epsilon < 1:  # where composing pays: about sqrt(2 k ln(1/δ)) ε
        assert composed < 0.05 * epsilon * releases


def test_releases_count_the_record_that_was_seen_most():
    """Records that come in every epoch would count as if they came once."""
    x = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0))
    releases = Releases()
    assert releases.most == 0
    releases.count(x)
    releases.count(x[3:])
    assert releases.most == 2
    releases.count(x[:3])
    assert releases.most == 2


def test_going_back_to_the_best_weights_takes_no_release_back():
    """Early stopping would forget what the epochs after the best one spent."""
    x = torch.eye(3)
    releases = Releases()
    releases.count(x)
    best = releases.state_dict()
    releases.count(x)
    releases.load_state_dict(best)
    assert releases.most == 2
    resumed = Releases()
    resumed.load_state_dict(best)
    assert resumed.most == 1
