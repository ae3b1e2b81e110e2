"""Shapley values: what each player of a game brings, averaged over all orders in which players could come."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from colonnade.errors import ConfigError

Coalition = frozenset[str]
Worth = Callable[[Coalition], float]
"""What a coalition achieves without the other players."""

EXACT_UP_TO = 8
"""Players up to which all 2^K coalitions are tried; beyond, orders are sampled."""


@dataclass(frozen=True)
class Shares:
    """What each player brings.

    Attributes:
        values: the Shapley value of each player; they sum to `total`.
        total: what all together achieve beyond what nobody achieves.
        errors: standard error of each value; zero where nothing was sampled.
        coalitions: how many coalitions were tried.
    """

    values: dict[str, float]
    total: float
    errors: dict[str, float]
    coalitions: int

    def fractions(self) -> dict[str, float]:
        """Return values as parts of the total, which sum to 1; equal parts where there is nothing to divide.

        >>> shapley(lambda who: float(len(who)), ["a", "b"]).fractions()
        {'a': 0.5, 'b': 0.5}
        """
        if self.total == 0:
            return dict.fromkeys(self.values, 1 / len(self.values))
        return {player: value / self.total for player, value in self.values.items()}


def shapley(
    worth: Worth, players: Sequence[str], *, orders: int = 256, tolerance: float = 0.005, seed: int = 0
) -> Shares:
    """Return the Shapley values of the game `worth`: exact for up to eight players, sampled beyond.

    Sampled orders come in pairs, each with its reverse, and turned so that every player comes at every place. Each is
    followed to its end, because whoever comes last may still do harm. Sampling ends when every value's standard error
    is below `tolerance` of the total, or after `orders` orders. At eight players values of 200 games were then at most
    .017 of the total away from the exact ones, and of 185 games in which three players do harm at most .014; where
    gains and harms nearly cancel, a part of the total means little. Values of sampled orders, too, sum to the total
    exactly.

    Args:
        worth: what a coalition achieves; asked once for each coalition.
        players: everybody.
        orders: the most orders to sample.
        tolerance: of a value's standard error, as a part of the total.
        seed: of the sampled orders.

    >>> glove = lambda who: float("left" in who and ("right" in who or "spare" in who))
    >>> {player: round(value, 3) for player, value in shapley(glove, ["left", "right", "spare"]).values.items()}
    {'left': 0.667, 'right': 0.167, 'spare': 0.167}
    """
    if not players or len(set(players)) != len(players):
        raise ConfigError(f"{list(players)} are no players", where="shapley", remedy="name each once, and at least one")
    known = cache(lambda coalition: float(worth(coalition)))
    nobody, everybody = known(frozenset()), known(frozenset(players))
    total = everybody - nobody
    if len(players) <= EXACT_UP_TO:
        return Shares(_exact(known, players), total, dict.fromkeys(players, 0.0), known.cache_info().currsize)
    slack = tolerance * abs(total)
    sampled: list[dict[str, float]] = []
    for order in _orders(players, orders, seed):
        pair = [_along(known, way) for way in (order, order[::-1])]
        sampled.append({player: (pair[0][player] + pair[1][player]) / 2 for player in players})
        # Not before an order has been turned round: a few orders that happen to agree are no proof.
        if len(sampled) % len(players) == 0 and max(_errors(sampled, players).values()) < slack:
            break
    errors = _errors(sampled, players)
    values = {player: float(np.mean([one[player] for one in sampled])) for player in players}
    return Shares(values, total, errors, known.cache_info().currsize)


def weights(shares: Shares, floor: float = 0.05) -> dict[str, float]:
    """Return shares as weights that sum to 1, none below `floor` before the last division.

    A player that brings nothing, or does harm, keeps a small weight: without any it could never learn to bring more.

    >>> weights(Shares({"a": 0.75, "b": -0.25}, 0.5, {}, 4), floor=0.5)
    {'a': 0.75, 'b': 0.25}
    """
    lifted = {player: max(part, floor) for player, part in shares.fractions().items()}
    whole = sum(lifted.values())
    return {player: part / whole for player, part in lifted.items()}


def _exact(worth: Worth, players: Sequence[str]) -> dict[str, float]:
    reached = np.array([worth(coalition) for coalition in _coalitions(tuple(players))])
    return dict(zip(players, (_chances(len(players)) @ reached).tolist(), strict=True))


@cache
def _coalitions(players: tuple[str, ...]) -> list[Coalition]:
    """Return all coalitions; a player takes part where its bit of the coalition's place is set."""
    return [
        frozenset(player for bit, player in enumerate(players) if number >> bit & 1)
        for number in range(2 ** len(players))
    ]


@cache
def _chances(count: int) -> npt.NDArray[np.float64]:
    """Return, for each player and coalition, how much the coalition's worth counts in the player's value.

    With the player, by the chance that in a random order it completes just this coalition; without it, by minus the
    chance that it finds just this one.
    """
    numbers, players = np.arange(2**count), np.arange(count)[:, None]
    member = (numbers >> players & 1).astype(bool)
    before = member.sum(0) - member
    ways = np.array([1 / (count * math.comb(count - 1, size)) for size in range(count)])
    return np.asarray(np.where(member, 1, -1) * ways[before])


def _orders(players: Sequence[str], most: int, seed: int) -> Iterator[list[str]]:
    """Yield half of the orders to follow, the others are their reverses; each drawn one is also turned round.

    Turned by one place after the other, an order puts every player at every place once: what a value owes to the place
    at which its player came by chance cancels.
    """
    rng = np.random.default_rng(seed)
    for number in range(max(most // 2, 1)):
        turn = number % len(players)
        if turn == 0:
            drawn = [players[place] for place in rng.permutation(len(players))]
        yield drawn[turn:] + drawn[:turn]


def _along(worth: Worth, order: Sequence[str]) -> Mapping[str, float]:
    """Return what each player adds when players come in this order."""
    added = {}
    reached, present = worth(frozenset()), frozenset[str]()
    for player in order:
        present |= {player}
        now = worth(present)
        added[player], reached = now - reached, now
    return added


def _errors(sampled: Sequence[Mapping[str, float]], players: Sequence[str]) -> dict[str, float]:
    if len(sampled) < 2:
        return dict.fromkeys(players, math.inf)
    return {
        player: float(np.std([one[player] for one in sampled], ddof=1) / math.sqrt(len(sampled))) for player in players
    }
