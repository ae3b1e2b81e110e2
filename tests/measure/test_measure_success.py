"""How many records an attack found, and how sure a mean over seeds is."""

import math

import numpy as np
import pytest
from scipy.stats import t

from colonnade.errors import DataError
from colonnade.measure.baseline import constant_grey, mean_record
from colonnade.measure.image import mse
from colonnade.measure.interval import interval
from colonnade.measure.reconstruct import skill
from colonnade.measure.success import asr, asr_skill, normalised_mse


@pytest.fixture
def images():
    """Pictures of which some are close to the mean picture and some far."""
    random = np.random.default_rng(0)
    contrast = random.uniform(0.05, 0.5, (200, 1, 1, 1))
    return 0.5 + contrast * random.choice([-1, 1], (200, 1, 4, 4))


def test_the_published_rate_counts_errors_up_to_the_threshold():
    assert asr([0.1, 0.100001, 0.0], threshold=0.1) == pytest.approx(2 / 3)


def test_a_blind_guess_passes_the_published_threshold_but_never_the_one_by_skill(images):
    """An attack that learned nothing would be called a success, and a defense against it a failure."""
    blind = mse(mean_record(images), images)
    assert asr(mse(constant_grey(images.shape[1:]), images), threshold=0.1) > 0.5
    assert asr_skill(blind, blind) == 0
    assert asr_skill(mse(images, images), blind) == 1
    assert asr_skill(0.49 * blind, blind) == 1 and asr_skill(0.51 * blind, blind) == 0


def test_success_by_skill_is_counted_record_by_record():
    assert asr_skill([0.01, 0.05], [0.02 + 1e-9, 0.02]) == 0.5
    assert asr_skill([0.0, 0.0], [0.0, 0.02]) == 0.5  # nothing was left to find of the first
    assert asr_skill([0.01], [0.02], least=0.4) == 1


def test_normalised_error_is_one_less_the_skill(images):
    blind, attack = mse(mean_record(images), images), mse(images + 0.1, images)
    assert normalised_mse(attack, blind) == pytest.approx(1 - skill(attack.mean(), blind.mean()))
    assert math.isnan(normalised_mse([0.0], [0.0]))


def test_errors_that_do_not_pair_are_refused():
    with pytest.raises(DataError, match="do not pair"):
        asr_skill([0.1, 0.2], [0.1])
    for wrong in ([], [[0.1]], 0.1):
        with pytest.raises(DataError, match="no list of errors"):
            asr(wrong, threshold=0.1)


def test_the_interval_is_students():
    """Three seeds would look surer than they are."""
    values = [0.61, 0.64, 0.58]
    low, high = t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=np.std(values, ddof=1) / math.sqrt(3))
    assert interval(values) == pytest.approx((high - low) / 2)
    assert interval([0.5]) is None and interval([]) is None
    assert interval([3.0, 3.0]) == 0


def test_the_interval_holds_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    runs = random.normal(size=(4000, 3))
    held = [abs(np.mean(run)) <= interval(run.tolist()) for run in runs]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)
