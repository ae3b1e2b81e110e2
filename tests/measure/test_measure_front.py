"""If these fail, the one number of a method rewards points that nobody would choose, or forgets some that one would."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import DataError
from colonnade.measure.front import Axes, hypervolume, pareto

gains = st.integers(-2, 12).map(lambda tenths: tenths / 10)
points = st.lists(st.tuples(gains, gains), max_size=8)


def brute_force(chosen, reference=(0.0, 0.0)):
    """Count the cells of a grid of tenths that some point covers: exact, since all points lie on the grid."""
    cells = np.arange(-2, 12) / 10 + 0.05
    covered = 0
    for x in cells:
        for y in cells:
            inside = x > reference[0] and y > reference[1]
            covered += inside and any(first > x and second > y for first, second in chosen)
    return covered / 100


@given(points, st.tuples(gains, gains))
def test_the_area_is_that_of_a_brute_force_count(chosen, reference):
    assert hypervolume(chosen, reference) == pytest.approx(brute_force(chosen, reference))


def test_the_area_of_points_anywhere_is_that_of_random_throws():
    random = np.random.default_rng(0)
    chosen = random.uniform(0, 1, (12, 2))
    throws = random.uniform(0, 1, (400_000, 2))
    hit = (throws[:, None, :] < chosen[None, :, :]).all(2).any(1).mean()
    assert hypervolume(map(tuple, chosen)) == pytest.approx(hit, abs=5 * math.sqrt(0.25 / 400_000))


@given(points, st.tuples(gains, gains), st.randoms())
def test_a_further_point_never_takes_away_and_order_and_repetition_do_not_count(chosen, more, random):
    area = hypervolume(chosen)
    assert hypervolume([*chosen, more]) >= area - 1e-12
    shuffled = [*chosen, *chosen]
    random.shuffle(shuffled)
    assert hypervolume(shuffled) == pytest.approx(area)
    assert hypervolume(pareto(chosen)) == pytest.approx(area)


@given(points)
def test_the_front_is_what_no_other_point_reaches(chosen):
    front = pareto(chosen)
    assert front == sorted(set(front))
    for point in set(chosen):
        reached = [other for other in chosen if other != point and other[0] >= point[0] and other[1] >= point[1]]
        assert (point in front) == (not reached)


@given(points, st.tuples(gains, gains))
def test_a_dominated_point_adds_nothing(chosen, best):
    worse = [(best[0] - 0.1, best[1] - 0.1), (best[0], best[1] - 0.3)]
    assert hypervolume([*chosen, best, *worse]) == pytest.approx(hypervolume([*chosen, best]))


def test_gains_run_from_trivial_to_undefended():
    axes = Axes(trivial=0.75, undefended=0.85, majority=0.67, undefended_leak=0.87)
    assert axes.point(0.85, 0.87) == pytest.approx((1, 0))
    assert axes.point(0.75, 0.67) == pytest.approx((0, 1))
    assert axes.point(0.70, 0.60) == (0, 1), (
        "worse than trivial is trivial; a leak below the majority is no more private"
    )
    assert axes.point(0.86, 0.90) == pytest.approx((1.1, 0)), "a defense that helps the task counts in full"
    perfect = axes.point(0.85, 0.67)
    assert hypervolume([perfect]) == pytest.approx(1)
    assert hypervolume([axes.point(0.85, 0.87), axes.point(0.75, 0.67)]) == 0
    assert hypervolume([]) == 0


def test_where_nothing_leaked_there_is_no_front():
    """A method must not score full privacy where there was nothing to hide."""
    silent = Axes(trivial=0.75, undefended=0.85, majority=0.67, undefended_leak=0.67)
    useless = Axes(trivial=0.75, undefended=0.75, majority=0.67, undefended_leak=0.87)
    assert math.isnan(silent.point(0.8, 0.67)[1]) and math.isnan(useless.point(0.8, 0.7)[0])
    for axes in (silent, useless):
        with pytest.raises(DataError, match="no point of a front"):
            hypervolume([axes.point(0.8, 0.67)])
