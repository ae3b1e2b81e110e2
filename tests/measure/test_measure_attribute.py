"""If these fail, a leak is reported that is none, or a secret that everybody can guess counts as hidden."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import DataError
from colonnade.measure.attribute import Leak, Score, is_known, leak_of, macro_f1, majority_score, secret_score

classes = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), min_size=1, max_size=40)


def slow_macro_f1(guesses, truth):
    """From the definition, class by class, with loops."""
    found = []
    for label in sorted({*guesses, *truth}):
        hit = sum(guess == label and true == label for guess, true in zip(guesses, truth, strict=True))
        claimed, there = guesses.count(label), truth.count(label)
        found.append(2 * hit / (claimed + there))
    return sum(found) / len(found)


@given(classes)
def test_scores_are_the_textbook_ones_over_known_secrets(rows):
    known = [(guess, true) for guess, true in rows if true >= 0]
    guesses, truth = (np.array(part) for part in zip(*rows, strict=True))
    if not known:
        with pytest.raises(DataError, match="no record's secret is known"):
            secret_score(guesses, truth)
        return
    found = secret_score(guesses, truth)
    kept = [list(part) for part in zip(*known, strict=True)]
    assert found.accuracy == pytest.approx(sum(guess == true for guess, true in known) / len(known))
    assert found.f1 == pytest.approx(slow_macro_f1(*kept))


def test_f1_of_two_classes_does_not_depend_on_which_is_called_one():
    """The positive class's F1 of always guessing the commoner class is .8 or 0, as classes happen to be numbered."""
    guesses, truth = np.ones(10, int), np.array([1] * 7 + [0] * 3)
    assert macro_f1(guesses, truth) == macro_f1(1 - guesses, 1 - truth) == pytest.approx(0.7 / 1.7)


def test_the_blind_guess_is_learned_from_auxiliary_records():
    """Taken from the targets themselves, the floor would know something that no attacker knows."""
    assert majority_score([0, 0, 1, -1, -1, -1], [1, 1, 1, 0]).accuracy == 0.25
    assert majority_score([2, 2, 0], [2, 2, -1, 0]) == secret_score([2, 2, 2, 2], [2, 2, -1, 0])
    with pytest.raises(DataError, match="no auxiliary record's secret"):
        majority_score([-1, -1], [0, 1])


def test_a_number_is_scored_by_r2_and_its_floor_is_zero():
    truth = np.array([1.0, 2.0, math.nan, 4.0])
    assert secret_score([1.0, 2.0, 9.0, 4.0], truth) == pytest.approx((1.0, math.nan), nan_ok=True)
    mean = np.full(4, np.nanmean(truth))
    assert secret_score(mean, truth).accuracy == pytest.approx(0)
    assert majority_score([0.5, 0.1], truth) == pytest.approx((0.0, math.nan), nan_ok=True)


def test_an_advantage_runs_from_the_majority_to_the_ceiling():
    leak = leak_of("mlp", Score(0.75, 0.7), Score(0.67, 0.4), Score(0.83, 0.8))
    assert leak == Leak("mlp", 0.75, 0.7, 0.67, 0.4, 0.83, 0.8)
    assert leak.advantage == pytest.approx(0.08)
    assert leak.normalised_advantage == pytest.approx(0.5)
    assert math.isnan(leak_of("mlp", Score(0.7, 0.7), Score(0.67, 0.4)).normalised_advantage)
    assert math.isnan(leak_of("mlp", Score(0.7, 0.7), Score(0.67, 0.4), Score(0.67, 0.4)).normalised_advantage)


def test_what_is_no_secret_is_refused():
    with pytest.raises(DataError, match="neither class numbers nor numbers"):
        is_known(["a", "b"])
    with pytest.raises(DataError, match="do not pair"):
        secret_score([1, 0], [1])
