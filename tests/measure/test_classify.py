"""Scores of predicted classes, held against scikit-learn and against their trivial baselines."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from colonnade.errors import DataError
from colonnade.measure.baseline import class_shares, majority_class
from colonnade.measure.classify import accuracy, auc, balanced_accuracy, classification_scores, f1, log_loss


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_scores_equal_scikit_learns(seed, classes):
    """Our tables could not be compared with anybody's."""
    random = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(classes), random.integers(0, classes, 30)])
    probabilities = random.dirichlet(np.ones(classes), len(truth))
    scores = classification_scores(probabilities, truth)
    predicted = probabilities.argmax(axis=1)
    area = probabilities[:, 1] if classes == 2 else probabilities
    assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert scores["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))
    assert scores["log_loss"] == pytest.approx(metrics.log_loss(truth, probabilities))
    assert scores["auc"] == pytest.approx(metrics.roc_auc_score(truth, area, multi_class="ovr"))
    average = "binary" if classes == 2 else "macro"
    assert scores["f1"] == pytest.approx(metrics.f1_score(truth, predicted, average=average))


def test_trivial_guesses_score_what_the_docstrings_say():
    """A model that learned nothing would look as if it had."""
    truth = np.array([0] * 3 + [1] * 7)
    guess = np.full(10, majority_class(truth))
    shares = class_shares(truth, 2)
    assert accuracy(guess, truth) == 0.7
    assert balanced_accuracy(guess, truth) == 0.5
    assert f1(guess, truth) == pytest.approx(2 * 0.7 / 1.7)
    assert auc(np.full(10, 0.7), truth) == 0.5
    assert log_loss(np.tile(shares, (10, 1)), truth) == pytest.approx(-(shares * np.log(shares)).sum())


def test_a_column_of_probabilities_is_that_of_class_one():
    """The sign of every binary model would be turned."""
    assert classification_scores(np.array([[0.9], [0.2]]), [1, 0])["accuracy"] == 1.0
    assert classification_scores([0.9, 0.2], [1, 0])["auc"] == 1.0


def test_one_class_only_has_no_curve_but_all_other_scores():
    """A small validation part would stop the run."""
    scores = classification_scores([0.9, 0.8], [1, 1])
    assert math.isnan(scores["auc"])
    assert scores["accuracy"] == 1.0


def test_a_class_missing_from_validation_is_left_out_of_the_area():
    probabilities = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1]]
    assert auc(probabilities, [0, 1, 0]) == 1.0


def test_a_certain_wrong_answer_costs_much_but_not_infinity():
    assert 30 < log_loss([1.0], [0]) < 40


@pytest.mark.parametrize(("predicted", "truth"), [([0, 1], [0]), ([], [])])
def test_predictions_that_do_not_pair_are_refused(predicted, truth):
    with pytest.raises(DataError, match="do not pair"):
        accuracy(predicted, truth)


@pytest.mark.parametrize("truth", [[0, 2], [-1, 0], [0.5, 1]])
def test_truth_that_is_no_class_number_is_refused(truth):
    with pytest.raises(DataError, match="no column"):
        log_loss([0.5, 0.5], truth)
