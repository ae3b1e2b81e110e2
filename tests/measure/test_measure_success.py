"""How many records an attack found, and how sure a mean over seeds is."""

import math

import numpy as np
import pytest
from scipy.stats import t

from colonnade.errors import DataError
from colonnade.measure.baseline import constant_grey
from colonnade.measure.image import mse
from colonnade.measure.interval import interval
from colonnade.measure.success import asr


@pytest.fixture
def images():
    """Pictures of which some are close to the mean picture and some far."""
    random = np.random.default_rng(0)
    contrast = random.uniform(0.05, 0.5, (200, 1, 1, 1))
    return 0.5 + contrast * random.choice([-1, 1], (200, 1, 4, 4))


def test_the_published_rate_counts_errors_up_to_the_threshold():
    assert asr([0.1, 0.100001, 0.0], threshold=0.1) == pytest.approx(2 / 3)


def test_a_blind_guess_passes_the_published_threshold(images):
    """If it did not, the warning beside the rate would be wrong, and trivial rows beside it would be of no use."""
    assert asr(mse(constant_grey(images.shape[1:]), images), threshold=0.1) > 0.5


@pytest.mark.parametrize("wrong", [[], [[0.1]], 0.1])
def test_what_is_no_list_of_errors_is_refused(wrong):
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
