"""Exact scaling of shares by public factors: edges shrink or vanish while their weights stay hidden.

Two parties hold a and b with a + b = W modulo 2^59, |W| < 2^55, and both know a factor s = m / 2^20 in [0, 1]. Scaling
both shares by s would be off by s · 2^59 whenever a + b wraps, so they first find out, in shares, whether it does:

- The holder adds 2^56 to its share. Then a + b = v + 2^59 · w over the integers, where v = W + 2^56 is in [0, 2^57)
  and the wrap w is 0 or 1.
- Let α and β be the top bits (of 2^58) of a and b. **w = α ∨ β**: if neither is set, a + b < 2^59, so w = 0. If both
  are, a + b ≥ 2^59, so w = 1. If one is, a + b ≥ 2^58 > v, so w = 1 again.
- w = α + β − α·β, and shares of α·β come from one encrypted product of bits, the only message.
- s · W = s·a + s·b − m · 2^39 · w − m · 2^36: each party computes its part, the holder rounds down and the owner up.

The result is off by less than one unit of 2^-36 whatever the shares are; a weight of zero stays exactly zero. Nothing
is opened: a new share is made from the party's old one and from its share of α·β.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.secure.dispatch import Line
from colonnade.secure.inner import inner_products_as_holder, inner_products_as_owner
from colonnade.secure.ring import RING_BITS, RingMatrix, check_ring, wrap

FACTOR_BITS = 20
UNIT_FACTOR = 1 << FACTOR_BITS
"""The factor that leaves a share as it is."""
LARGEST_BITS = RING_BITS - 4
"""What is scaled must be below 2^55 in magnitude; nobody could see it if it were not."""

Factors = npt.NDArray[np.int64]
"""Whole numbers from 0 to 2^20 that stand for 0 to 1."""

_LIFT = np.uint64(1 << (LARGEST_BITS + 1))
_LOW = np.uint64(UNIT_FACTOR - 1)


def encode_factors(values: npt.ArrayLike, *, where: str | None = None) -> Factors:
    """Return real factors from 0 to 1 as whole numbers of 20 bits behind the point, rounded."""
    numbers = np.asarray(values, np.float64)
    if not ((numbers >= 0) & (numbers <= 1)).all():  # also for nan
        raise DataError("a factor is not between 0 and 1", where=where)
    return np.rint(numbers * UNIT_FACTOR).astype(np.int64)


def rescale_as_holder(line: Line, share: RingMatrix, factors: Factors) -> RingMatrix:
    """Return this party's share of the scaled matrix; the peer calls `rescale_as_owner` with its share.

    Args:
        line: to the peer.
        share: this party's share, (rows, columns).
        factors: the same at both parties, in the shape of the share or one that spreads to it.
    """
    multipliers, chosen = _chosen(share, factors)
    lifted = wrap(share[chosen] + _LIFT)
    both = inner_products_as_holder(line, _top(lifted).view(np.int64)[:, None]) if chosen.any() else lifted
    constant = multipliers << np.uint64(LARGEST_BITS + 1 - FACTOR_BITS)
    part = _scaled(lifted, multipliers, up=False) - _unwrapped(lifted, both, multipliers) - constant
    return _assembled(share, factors, chosen, part)


def rescale_as_owner(line: Line, share: RingMatrix, factors: Factors) -> RingMatrix:
    """Return this party's share of the scaled matrix; the peer calls `rescale_as_holder`."""
    multipliers, chosen = _chosen(share, factors)
    kept = share[chosen]
    both = inner_products_as_owner(line, _top(kept)[:, None]) if chosen.any() else kept
    part = _scaled(kept, multipliers, up=True) - _unwrapped(kept, both, multipliers)
    return _assembled(share, factors, chosen, part)


def _chosen(share: RingMatrix, factors: Factors) -> tuple[RingMatrix, npt.NDArray[np.bool_]]:
    """Return the factors of those entries that need a product, and where they are: both parties choose the same."""
    check_ring(share)
    if factors.dtype != np.int64 or (factors < 0).any() or (factors > UNIT_FACTOR).any():
        raise DataError(f"factors must be int64 from 0 to 2^{FACTOR_BITS}", remedy="make them with encode_factors")
    spread = _spread(share, factors)
    chosen = (spread != 0) & (spread != UNIT_FACTOR)
    return spread[chosen].astype(np.uint64), chosen


def _spread(share: RingMatrix, factors: Factors) -> Factors:
    try:
        return np.broadcast_to(factors, share.shape)
    except ValueError:
        raise DataError(f"factors of shape {factors.shape} do not spread to shares of shape {share.shape}") from None


def _top(numbers: RingMatrix) -> RingMatrix:
    return numbers >> np.uint64(RING_BITS - 1)


def _scaled(numbers: RingMatrix, multipliers: RingMatrix, *, up: bool) -> RingMatrix:
    """Return numbers · multipliers / 2^20, rounded down or up; halves of 20 bits keep it within 64 bits."""
    low = multipliers * (numbers & _LOW) + (_LOW if up else np.uint64(0))
    whole: RingMatrix = multipliers * (numbers >> np.uint64(FACTOR_BITS)) + (low >> np.uint64(FACTOR_BITS))
    return whole


def _unwrapped(numbers: RingMatrix, both: RingMatrix, multipliers: RingMatrix) -> RingMatrix:
    """Return this party's part of s · 2^59 · w, from its top bit and its share of the product of both."""
    return (multipliers << np.uint64(RING_BITS - FACTOR_BITS)) * (_top(numbers) - both)


def _assembled(share: RingMatrix, factors: Factors, chosen: npt.NDArray[np.bool_], part: RingMatrix) -> RingMatrix:
    result = np.where(_spread(share, factors) == 0, np.uint64(0), share)
    result[chosen] = wrap(part)
    return result
