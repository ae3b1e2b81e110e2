"""If these fail, readers are not warned of what breaks a graph, or are warned all the time and stop reading."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colonnade.discover.assumptions import copy_notes, residual_notes, sortability_notes
from colonnade.errors import DataError

FULL = np.triu(np.ones((6, 6)), 1)
GROWING = np.arange(1.0, 7.0)
NAMES = ["age", "bmi", "dose"]


def noise(records=500, variables=3, seed=0):
    return np.random.default_rng(seed).normal(size=(records, variables))


def test_variances_that_order_the_graph_are_told_with_their_share():
    variances = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 5.0])
    share, by_r2, notes = sortability_notes(variances, None, FULL)
    assert 0.85 < share < 1 and math.isnan(by_r2)
    assert len(notes) == 1 and notes[0].startswith(f"variances alone order {round(100 * share)} % of the paths")
    assert "standardised columns and does not rest on it" in notes[0]
    assert "set standardise=True" in sortability_notes(variances, None, FULL, standardised=False)[2][0]


def test_a_falling_order_is_as_telling_as_a_growing_one():
    share, _, notes = sortability_notes(GROWING[::-1], None, FULL)
    assert share == 0 and "order 0 % of the paths" in notes[0]


def test_r2_is_told_on_its_own():
    share, by_r2, notes = sortability_notes(np.ones(6), GROWING / 10, FULL)
    assert (share, by_r2) == (0.5, 1.0)
    assert len(notes) == 1 and notes[0].startswith("R² alone orders 100 % of the paths")


@pytest.mark.parametrize("mask", [np.zeros((6, 6)), np.eye(6, k=1) * (GROWING < 3)], ids=["empty", "few"])
def test_a_graph_with_few_paths_is_no_reason_to_warn(mask):
    assert sortability_notes(GROWING, GROWING / 10, mask)[2] == []


def test_an_unordered_graph_is_no_reason_to_warn():
    share, _, notes = sortability_notes([3, 1, 4, 1.5, 5, 2], None, FULL)
    assert 0.3 < share < 0.7 and notes == []


def test_copies_are_counted_and_not_named():
    """Two parties that hold the same column cannot see it before; the graph between the copies is arbitrary."""
    assert copy_notes([0.98, 0.2]) == []
    assert copy_notes([0.995, 0.2])[0].startswith("1 variable is explained to 99 % or more")
    assert copy_notes([0.995, 0.2, 1.0])[0].startswith("2 variables are")


def test_a_hidden_common_cause_shows_in_the_residuals():
    residuals = noise()
    residuals[:, [0, 2]] += 0.8 * noise(500, 1, seed=1)
    notes = residual_notes(residuals, NAMES, "clinic")
    assert len(notes) == 1
    assert notes[0].startswith("residuals of age and dose at clinic are correlated (+0.")
    assert "a hidden common cause is possible" in notes[0]


def test_independent_residuals_are_silent_whatever_their_shape():
    """A thousand tests on heavy tails, skewed and discrete columns: false alarms would drown real ones."""
    rng = np.random.default_rng(0)
    shapes = [
        lambda n: rng.standard_t(3, n),
        lambda n: rng.exponential(size=n) - 1,
        lambda n: (rng.uniform(size=n) < 0.1) - 0.1,
        lambda n: rng.poisson(1.0, n) - 1.0,
    ]
    alarms = 0
    for _ in range(100):
        residuals = np.stack([shape(200) for shape in shapes], axis=1)
        alarms += len(residual_notes(residuals, list("wxyz"), "clinic"))
    assert alarms <= 2


def test_residuals_of_a_cause_and_its_effect_may_depend_but_not_correlate():
    """A count's noise is wider where its mean is larger: that is no hidden cause."""
    rng = np.random.default_rng(0)
    cause = (rng.uniform(size=4000) < 0.3).astype(float)
    rate = np.exp(0.2 + 1.5 * cause)
    effect = rng.poisson(rate)
    assert residual_notes(np.stack([cause - 0.3, effect - rate], axis=1), ["cause", "effect"], "lab") == []


def test_what_still_follows_a_cause_or_widens_with_it_is_told():
    values = noise()
    causes = np.zeros((3, 3))
    causes[0, 1] = causes[0, 2] = 1
    residuals = noise(seed=2)
    assert residual_notes(residuals, NAMES, "clinic", values, causes) == []
    residuals[:, 1] += 0.6 * values[:, 0]
    residuals[:, 2] *= np.exp(0.6 * values[:, 0])
    notes = residual_notes(residuals, NAMES, "clinic", values, causes)
    assert [note.split(" (")[0] for note in notes] == [
        "what is left of bmi at clinic still follows its cause age",
        "the spread of dose at clinic depends on its cause age",
    ]


def test_an_effect_is_not_taken_for_a_cause():
    """The noise of a variable goes on into its effects: only causes must be independent of it."""
    residuals = noise()
    values = residuals.copy()
    values[:, 1] += 2 * values[:, 0]  # age -> bmi, found
    causes = np.zeros((3, 3))
    causes[0, 1] = 1
    assert residual_notes(residuals, NAMES, "clinic", values, causes) == []


def test_missing_values_count_pair_by_pair():
    residuals = noise(900)
    residuals[:, 1] += residuals[:, 0]
    residuals[::3, 0] = residuals[1::3, 1] = np.nan
    assert len(residual_notes(residuals, NAMES, "clinic")) == 1
    residuals[30:, 0] = np.nan
    assert residual_notes(residuals, NAMES, "clinic") == [], "twenty records prove nothing"


def test_columns_without_spread_are_no_sign_and_no_crash():
    residuals = noise()
    residuals[:, 0] = 0.1
    residuals[:, 2] = np.sign(residuals[:, 1])
    residuals[:, 1] = residuals[:, 2]  # the product is constant: the surest correlation there is
    assert len(residual_notes(residuals, NAMES, "clinic")) == 1
    assert residual_notes(np.zeros((500, 3)), NAMES, "clinic") == []
    assert residual_notes(noise(variables=1), ["age"], "clinic") == []


def test_wrong_shapes_are_named():
    with pytest.raises(DataError, match=r"clinic: residuals \(500, 3\) do not fit 2 variables"):
        residual_notes(noise(), ["age", "bmi"], "clinic")


def test_one_column_that_is_no_number_does_not_silence_the_others():
    r2 = np.array([0.1, 0.2, 0.3, 0.4, 0.5, math.nan])
    _, by_r2, notes = sortability_notes(np.ones(6), r2, FULL)
    assert by_r2 == 1.0 and any(note.startswith("R² alone orders 100 %") for note in notes)
    assert notes[-1].startswith("R² is that of 5 of 6 variables")
    assert copy_notes([0.999, math.nan, -math.inf])[0].startswith("1 variable is explained")


def test_a_search_is_not_lost_because_a_variable_did_not_vary_in_the_last_records():
    _, by_r2, _ = sortability_notes(np.ones(2), [-math.inf, math.nan], np.triu(np.ones((2, 2)), 1))
    assert math.isnan(by_r2)
