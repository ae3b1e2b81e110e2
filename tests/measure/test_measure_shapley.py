"""If these fail, parties are paid, and heard, for what others brought."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import ConfigError
from colonnade.measure.shapley import EXACT_UP_TO, Shares, shapley, weights


def game(players, seed):
    """Any number for any coalition."""
    rng = np.random.default_rng(seed)
    known = {}

    def worth(coalition):
        return known.setdefault(coalition, float(rng.normal()))

    return worth


def by_definition(worth, players):
    """The mean over all orders of what a player adds when it comes."""
    added = {player: [] for player in players}
    for order in permutations(players):
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            added[player].append(worth(before | {player}) - worth(before))
    return {player: np.mean(values) for player, values in added.items()}


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_exact_values_are_the_mean_over_all_orders_and_sum_to_the_total(count, seed):
    players = [f"party {number}" for number in range(count)]
    worth = game(players, seed)
    found, expected = shapley(worth, players), by_definition(worth, players)
    assert found.values == pytest.approx(expected, abs=1e-9)
    assert sum(found.values.values()) == pytest.approx(worth(frozenset(players)) - worth(frozenset()), abs=1e-9)
    assert found.coalitions == 2**count


def additive(shares):
    return lambda coalition: sum(shares[player] for player in coalition)


@pytest.mark.parametrize("count", [4, EXACT_UP_TO + 4])
def test_who_brings_nothing_gets_nothing_and_equals_get_the_same(count):
    shares = {f"p{number}": float(number % 3) for number in range(count)}
    found = shapley(additive(shares), list(shares))
    assert found.values == pytest.approx(shares)


@pytest.mark.parametrize("count", [3, EXACT_UP_TO + 1])
def test_who_does_harm_is_charged_for_all_of_it(count):
    """An order must not end once all seems done: whoever comes last may undo it."""
    shares = {f"p{number}": 0.0 for number in range(count)} | {"p0": 1.0, "p1": 1.0, "p2": -1.0}
    assert shapley(additive(shares), list(shares)).values == pytest.approx(shares)


def test_sampled_values_come_near_the_exact_ones_and_sum_to_the_total():
    players = [f"p{number}" for number in range(EXACT_UP_TO + 2)]
    strengths = dict(zip(players, np.linspace(0.1, 1, len(players)), strict=True))

    def worth(coalition):
        return float(np.tanh(sum(strengths[player] for player in coalition)))

    found = shapley(worth, players, orders=400, tolerance=0.002)
    exact = by_subsets(worth, players)
    assert sum(found.values.values()) == pytest.approx(found.total, abs=1e-12)
    for player in players:
        assert abs(found.values[player] - exact[player]) < 5 * found.errors[player] + 0.002
    assert found.coalitions < 2 ** len(players)


def by_subsets(worth, players):
    """The formula of Section 4.3, one coalition after the other."""
    count, values = len(players), dict.fromkeys(players, 0.0)
    for player in players:
        others = [other for other in players if other != player]
        for size in range(count):
            chance = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for members in combinations(others, size):
                before = frozenset(members)
                values[player] += chance * (worth(before | {player}) - worth(before))
    return values


def test_exact_values_of_eight_players_are_those_of_the_formula():
    players = [f"p{number}" for number in range(8)]
    worth = game(players, 0)
    found = shapley(worth, players)
    assert found.values == pytest.approx(by_subsets(worth, players), abs=1e-12)
    assert found.coalitions == 2**8


@pytest.mark.parametrize("harmful", [0, 3])
@pytest.mark.parametrize("seed", range(20))
def test_sampled_weights_of_eight_parties_are_within_two_hundredths(seed, harmful, monkeypatch):
    """With many parties, weights and payments would be a matter of luck."""
    rng = np.random.default_rng(seed)
    players = [f"p{number}" for number in range(8)]
    signs = np.where(np.arange(8) < 8 - harmful, 1.0, -0.2)
    strengths = dict(zip(players, signs * rng.exponential(size=8), strict=True))

    def worth(coalition):
        return float(np.tanh(sum(strengths[player] for player in coalition) / 3))

    exact = shapley(worth, players).fractions()
    monkeypatch.setattr("colonnade.measure.shapley.EXACT_UP_TO", 0)
    sampled = shapley(worth, players, seed=seed)
    assert sampled.errors["p0"] > 0, "else nothing was sampled"
    assert sampled.fractions() == pytest.approx(exact, abs=0.02)


def test_sampling_stops_when_values_are_sure():
    players = [f"p{number}" for number in range(20)]
    asked = []

    def worth(coalition):
        asked.append(coalition)
        return float(len(coalition))

    found = shapley(worth, players, orders=1000)
    assert len(asked) == found.coalitions <= 20 * 20, "one order, turned round and reversed"
    assert max(found.errors.values()) == 0


def test_weights_sum_to_one_and_nobody_is_silenced():
    found = weights(Shares({"a": 2.0, "b": -0.5, "c": 0.0}, 1.5, {}, 8), floor=0.05)
    assert sum(found.values()) == pytest.approx(1)
    assert found["b"] == found["c"] > 0.02


def test_nothing_to_divide_gives_equal_parts():
    assert shapley(lambda coalition: 3.0, ["a", "b"]).fractions() == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("players", [[], ["a", "a"]])
def test_players_must_be_told_apart(players):
    with pytest.raises(ConfigError, match="no players"):
        shapley(lambda coalition: 0.0, players)
