"""Scores of predicted values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from colonnade.errors import DataError
from colonnade.measure.regress import r2, regression_scores, rmse


@given(st.integers(0, 2**32 - 1))
def test_scores_equal_scikit_learns(seed):
    random = np.random.default_rng(seed)
    truth, predicted = random.normal(size=20), random.normal(size=20)
    assert r2(predicted, truth) == pytest.approx(metrics.r2_score(truth, predicted))
    assert rmse(predicted, truth) == pytest.approx(metrics.root_mean_squared_error(truth, predicted))


def test_guessing_the_mean_gives_zero_and_the_standard_deviation():
    truth = np.array([1.0, 2.0, 6.0])
    scores = regression_scores(np.full(3, truth.mean()), truth)
    assert scores == {"r2": pytest.approx(0), "rmse": pytest.approx(truth.std())}


def test_a_truth_that_never_varies_has_no_share_to_explain():
    assert math.isnan(r2([1.0, 2.0], [3.0, 3.0]))


def test_a_column_against_a_row_is_refused():
    """Broadcasting would compare every prediction with every record, without a word."""
    with pytest.raises(DataError, match="do not pair"):
        rmse([[1.0], [2.0]], [1.0, 2.0])
