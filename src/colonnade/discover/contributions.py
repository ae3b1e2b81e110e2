"""What each party's columns bring to the variables of the others: Shapley values of the held-out likelihood.

Every target party plays a game of its own. The other parties are the players; what a coalition S is worth is the mean
log-likelihood of the party's own variables, summed over them, on records that nothing was learned from, when its
decoders see its own features and those of S:

    v(S) = mean over records i of  Σ_j log mean over others m of  p_j(x_ij | z_own,i + Σ_{k∈S} z_ki + Σ_{k∉S} z_km)

Own columns are always there, so nobody is paid for explaining itself. Features of absent parties are those of somebody
else, all of one record m: averaged over many, the decoders predict as widely as they must without them. Features of the
average person would be cheaper, but then a decoder stays as sure as with the cause at hand and is punished for it
without bound. Measured, y = tanh 2x + x + noise of .5, .2, .1: knowing x is worth 1.30, 2.30, 3.19 nats by other
people's features, 1.32, 2.18, 2.77 by decoders taught anew without it, and 5.6, 32, 76 by the average person's.

Where parties' columns depend on each other, somebody else's features are less likely beside one's own than they are by
themselves: a coalition is then worth less than what could be predicted from its columns alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from colonnade.discover.decoders import Decoders
from colonnade.discover.exchange import Floats
from colonnade.discover.variables import Mask
from colonnade.measure.shapley import Coalition, shapley

DRAWS = 100
"""So many other records, at most, lend their features for those of absent parties."""


@dataclass(frozen=True)
class HeldOut:
    """What a target party has of the records that nothing was learned from.

    Attributes:
        own: features of its own columns for its variables, (records, variables · hidden).
        apart: the same of each other party.
        target, observed: its variables, and where they are known; (records, variables).
    """

    own: Floats
    apart: Mapping[str, Floats]
    target: Floats
    observed: Mask


def brought(decoders: Decoders, seen: HeldOut, seed: int) -> dict[str, float]:
    """Return what each other party brings to the target party's variables, in nats a record; 0 without features."""
    values = dict.fromkeys(seen.apart, 0.0)
    players = [party for party, features in seen.apart.items() if features.any()]
    if players:
        values |= shapley(lambda present: worth(decoders, seen, present), players, seed=seed).values
    return values


def worth(decoders: Decoders, seen: HeldOut, present: Coalition) -> float:
    """Return v(S) of the module's equation, in nats a record, up to a constant."""
    known, absent = seen.own.copy(), np.zeros_like(seen.own)
    for party, features in seen.apart.items():
        if party in present:
            known += features
        else:
            absent += features
    total = np.full(seen.target.shape, -np.inf)
    shifts = _shifts(len(absent)) if absent.any() else [0]
    for shift in shifts:
        losses = decoders.losses(known + np.roll(absent, shift, axis=0), seen.target, seen.observed)
        np.logaddexp(total, -losses, out=total)
    return float((total - math.log(len(shifts))).sum(axis=1).mean())


def shares(values: Mapping[str, float]) -> dict[str, float]:
    """Return values as parts of their sum; empty where there is nothing to share out.

    >>> shares({"clinic": 0.75, "lab": 0.25, "insurer": 0.0})
    {'clinic': 0.75, 'lab': 0.25, 'insurer': 0.0}
    >>> shares({"clinic": 0.0, "lab": 0.0})
    {}
    """
    total = sum(values.values())
    return {party: value / total for party, value in values.items()} if total > 0 else {}


def _shifts(records: int) -> list[int]:
    """Return how far to go for somebody else: near and far, since neighbours in a table may be alike."""
    return sorted({int(shift) for shift in np.linspace(1, records - 1, DRAWS)})
