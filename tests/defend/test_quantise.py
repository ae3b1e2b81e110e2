"""Dithered quantisation: an error of half a step at most that tells nothing about the entry."""

import pytest
import torch
from scipy import stats

import colonnade.defend.quantise  # noqa: F401 - registers it
from colonnade.defend.registry import make_defense
from colonnade.errors import ConfigError


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("levels", [2, 4, 16])
def test_errors_are_uniform_within_half_a_step_and_independent_of_the_entry(levels):
    """Without the dither, rounding errors follow the entry and a decoder could learn them."""
    h = normal(0, 40, 3, 10, 10) * torch.logspace(-1, 1, 40).view(-1, 1, 1, 1) - 2
    upload = make_defense("quantise", levels=levels).protect(h, h, train=False)
    flat = h.flatten(1)
    step = (flat.amax(1) - flat.amin(1)) / (levels - 1)
    errors = ((upload - h).flatten(1) / step[:, None]).flatten().numpy()
    assert abs(errors).max() <= 0.5 + 1e-4
    assert stats.kstest(errors, stats.uniform(-0.5, 1).cdf).pvalue > 0.01
    assert abs(stats.pearsonr(errors, flat.flatten().numpy()).statistic) < 0.03


def test_no_more_levels_are_sent_than_promised():
    """More levels, more bits, more leaks: adding the dither again must show whole steps."""
    defense, h = make_defense("quantise", levels=4), normal(0, 5, 200)
    defense.seed(3)
    upload = defense.protect(h, h, train=True)
    dither = torch.rand(h.shape, generator=torch.Generator().manual_seed(3)) - 0.5
    low, high = h.amin(1, keepdim=True), h.amax(1, keepdim=True)
    level = (upload - low) / ((high - low) / 3) + dither
    assert torch.allclose(level, level.round(), atol=1e-4)
    assert set(level.round().unique().tolist()) == {0, 1, 2, 3}


def test_gradients_pass_unchanged():
    h = normal(0, 4, 20).requires_grad_()
    defense, grad = make_defense("quantise"), normal(1, 4, 20)
    defense.backward(h, h, defense.protect(h, h, train=True), grad)
    assert torch.equal(h.grad, grad)


def test_a_record_of_equal_entries_stays_as_it_is():
    """Dividing by its range would send NaN."""
    h = torch.full((2, 7), 3.5)
    assert torch.equal(make_defense("quantise").protect(h, h, train=False), h)


def test_the_operator_has_a_dither_of_its_own():
    defense, h = make_defense("quantise", levels=4), normal(0, 4, 20)
    before = defense.generator.get_state()
    again = defense.operator()(h)
    assert torch.equal(defense.generator.get_state(), before)
    step = (h.amax(1) - h.amin(1)) / 3
    assert ((again - h).abs() <= 0.5001 * step[:, None]).all()


def test_one_level_would_send_nothing():
    with pytest.raises(ConfigError, match=r"quantise\.levels"):
        make_defense("quantise", levels=1)


def test_feedback_shrinks_the_error_with_every_message():
    """Each message has the range of what is still missing, so the steps get finer; one of a batch would not."""
    defense, h = make_defense("quantise", levels=4, feedback=True), normal(0, 6, 50)
    missing = h.amax(1) - h.amin(1)
    for _ in range(6):
        defense.turn_to(torch.arange(6))
        error = (defense.protect(h, h, train=True) - h).abs()
        assert (error.amax(1) <= missing / 3 / 2 + 1e-5).all(), "at most half a step of the range before"
        missing = 2 * error.amax(1)
    assert error.max() < 0.05 * (h.max() - h.min())


@pytest.mark.parametrize(("levels", "bits"), [(2, 1), (4, 2), (5, 3), (16, 4)])
def test_a_message_needs_its_levels_and_its_range(levels, bits):
    """The bytes in a table would be fewer than anyone could send."""
    defense, h = make_defense("quantise", levels=levels), normal(0, 2, 4, 5, 5)
    defense.protect(h, h, train=True)
    assert defense.meters() == {"message_bytes": -(-100 * bits // 8) + 8}
