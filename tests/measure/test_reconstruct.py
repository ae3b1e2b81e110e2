"""How much a guess shows, next to what trivial guesses show."""

import math

import numpy as np
import pytest

from colonnade.errors import DataError
from colonnade.measure.baseline import constant_grey, mean_record, per_record_mean, random_other
from colonnade.measure.image import mse, psnr
from colonnade.measure.reconstruct import identification_rate, skill, squared_error


@pytest.fixture
def images():
    return np.random.default_rng(0).random((50, 3, 8, 4))


def test_the_mean_guess_has_no_skill_and_a_perfect_one_has_all(images):
    """High error could be sold as protection."""
    baseline = mse(mean_record(images), images).mean()
    assert skill(baseline, baseline) == 0
    assert skill(mse(images, images).mean(), baseline) == 1
    assert skill(mse(random_other(images, seed=0), images).mean(), baseline) < -0.5
    assert skill(mse(constant_grey(images.shape[1:]), images).mean(), baseline) == pytest.approx(0, abs=0.05)


def test_skill_without_anything_to_guess_is_no_number():
    assert math.isnan(skill(0.0, 0.0))


def test_image_numbers_are_per_image_and_clamped(images):
    """A few wild images would hide in one mean, and a guess out of range would look worse than it looks."""
    assert mse(images, images).shape == (50,)
    assert np.array_equal(mse(images * 0 + 7.0, images), mse(np.ones_like(images), images))
    noisy = images.copy()
    noisy[3] = 0
    assert np.flatnonzero(mse(noisy, images)).tolist() == [3]
    assert np.isposinf(psnr(images, images)).all()
    assert psnr(np.full((1, 1, 4, 4), 0.6), np.full((1, 1, 4, 4), 0.5))[0] == pytest.approx(20)


def test_columns_are_not_clamped():
    assert squared_error([[3.0]], [[1.0]]).tolist() == [4.0]


def test_per_record_mean_is_the_mean_colour(images):
    flat = per_record_mean(images)
    assert flat.shape == images.shape
    assert flat[7, 2, 5, 1] == pytest.approx(images[7, 2].mean())


def test_random_other_is_never_the_record_itself(images):
    for seed in range(20):
        assert (squared_error(random_other(images, seed), images) > 0).all()
    with pytest.raises(DataError, match="no other"):
        random_other(images[:1], 0)


def test_identification_of_perfect_noisy_and_blind_guesses():
    """A guess that looks bad but singles out the person would pass as harmless."""
    random = np.random.default_rng(0)
    truths = random.random((400, 1, 6, 6))
    assert identification_rate(truths, truths) == 1
    assert identification_rate(truths + random.normal(0, 0.1, truths.shape), truths) > 0.9
    blind = np.broadcast_to(truths.mean(axis=0), truths.shape)
    assert identification_rate(blind, truths) == pytest.approx(1 / 400)


def test_identification_is_easier_among_fewer_candidates():
    random = np.random.default_rng(0)
    truths = random.random((300, 9))
    guesses = truths + random.normal(0, 0.4, truths.shape)
    assert (
        identification_rate(guesses, truths, candidates=2) > identification_rate(guesses, truths, candidates=300) + 0.2
    )


def test_identification_equals_a_plain_search():
    random = np.random.default_rng(1)
    truths = random.random((40, 5)) + 100
    guesses = truths + random.normal(0, 0.3, truths.shape)
    found = 0
    for row, guess in enumerate(guesses):
        pool = [(row + offset) % 40 for offset in range(10)]
        found += min(pool, key=lambda other: np.linalg.norm(truths[other] - guess)) == row
    assert identification_rate(guesses, truths, candidates=10) == pytest.approx(found / 40)


def test_twins_share_the_credit():
    truths = np.array([[0.1, 0.3], [0.1, 0.3], [0.9, 0.7]])
    assert identification_rate(truths, truths) == pytest.approx((0.5 + 0.5 + 1) / 3)


@pytest.mark.parametrize("measure", [squared_error, identification_rate])
def test_guesses_of_another_shape_are_refused(measure):
    with pytest.raises(DataError, match="do not fit"):
        measure(np.zeros((2, 3)), np.zeros((2, 4)))
