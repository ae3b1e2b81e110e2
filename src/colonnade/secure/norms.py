"""Squared norms of weights that two parties hold in shares: the edge strengths of a graph, without showing a weight.

‖f + g‖² = ‖f‖² + ‖g‖² + 2⟨f, g⟩: the first two are local, the inner product along the hidden axis is an encrypted one.

**Scales.** Weights have 36 bits behind the point and their squares would need 72, so shares are first shortened by 20
bits: one party rounds down, the other up, and what they then hold adds up to the weight at scale 16, modulo 2^39, off
by less than one unit 2^-16 (and exactly zero for a weight of zero). A square is known modulo 2^40 from its root modulo
2^39. So the result, at scale 32, is right modulo 2^40 whatever the shares were (no rare failures, as usual when shares
are truncated): **squared norms must be below 2^8**, norms below 16; the error of a norm is below √h · 2^-16.

Weights of another scale, or a smaller largest squared norm, leave other bits: with `scale` bits behind the point and
squared norms below `largest` = 2^r, weights keep f = 60 − scale − r bits (scale − 19 at most) and the error of a norm
is below √h · 2^-f. After a public integer map with 10 bits (scale 46) and r = 2 these are 12 bits. Where that is too
coarse, bring the shares back to scale 36 first: `rescale` by 2^-10 is exact.

**Groups.** A squared norm over several rows (a cause with several columns) is the sum of theirs, and shares of a sum
are sums of shares: each party adds up its own after the protocol, which is the same with and without groups. Then
`largest` bounds the sum, and h in the bound above is the number of all weights in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.secure.dispatch import Line
from colonnade.secure.inner import inner_products_as_holder, inner_products_as_owner
from colonnade.secure.ring import PLAIN_BITS, RING_BITS, WEIGHT_SCALE, PlainMatrix, RingMatrix, wrap

LARGEST_SQUARED_NORM = 256

NormShares = npt.NDArray[np.uint64]
"""Shares of squared norms, modulo a power of two (2^40 unless told otherwise)."""
Groups = npt.NDArray[np.int64]
"""For each row the number of the norm that it is part of, from 0 on."""


@dataclass(frozen=True)
class NormScale:
    """How shares of weights are shortened before they are squared; see the module.

    Attributes:
        scale: bits behind the point of the weights.
        largest: power of two that squared norms stay below.
    """

    scale: int = WEIGHT_SCALE
    largest: float = LARGEST_SQUARED_NORM

    def __post_init__(self) -> None:
        fraction, _ = np.frexp(self.largest)
        if fraction != 0.5:
            raise DataError(f"the largest squared norm must be a power of two, not {self.largest}")
        if self.kept < 1 or self.shortened >= RING_BITS:
            raise DataError(f"squared norms up to {self.largest} of weights of scale {self.scale} cannot be computed")

    @property
    def kept(self) -> int:
        """Bits behind the point of the shortened weights, which must fit two digits of a plain matrix."""
        exact = RING_BITS + 1 - self.scale - int(np.log2(self.largest))
        return min(exact, self.scale - (RING_BITS - 2 * PLAIN_BITS))

    @property
    def shortened(self) -> int:
        """Bits that shares lose before they are multiplied."""
        return self.scale - self.kept

    @property
    def mask(self) -> np.uint64:
        """What squared norms are known modulo, less one."""
        return np.uint64((1 << (RING_BITS - self.shortened + 1)) - 1)


def norms_as_holder(
    line: Line,
    fragment: RingMatrix,
    *,
    scale: int = WEIGHT_SCALE,
    largest: float = LARGEST_SQUARED_NORM,
    groups: Groups | None = None,
) -> NormShares:
    """Return this party's shares of the squared norms of all rows; the peer calls `norms_as_owner` with its fragment.

    Args:
        line: to the peer.
        fragment: this party's shares of the weights, (rows, hidden).
        scale: bits behind the point of the weights.
        largest: power of two that every squared norm is below; smaller ones are computed more precisely.
        groups: which norm each row is part of; None: each row has its own.
    """
    form = NormScale(scale, largest)
    short = fragment >> np.uint64(form.shortened)
    cross = inner_products_as_holder(line, _digits(_checked(short), form))
    return _grouped(_own_and_cross(short, cross), groups, form)


def norms_as_owner(
    line: Line,
    fragment: RingMatrix,
    *,
    scale: int = WEIGHT_SCALE,
    largest: float = LARGEST_SQUARED_NORM,
    groups: Groups | None = None,
) -> NormShares:
    """Return this party's shares of the squared norms of all rows; the peer calls `norms_as_holder`."""
    form = NormScale(scale, largest)
    up = np.uint64((1 << form.shortened) - 1)
    short = wrap(fragment + up) >> np.uint64(form.shortened)
    cross = inner_products_as_owner(line, _scaled(_checked(short)))
    return _grouped(_own_and_cross(short, cross), groups, form)


def reveal_norms(
    *shares: NormShares, scale: int = WEIGHT_SCALE, largest: float = LARGEST_SQUARED_NORM
) -> npt.NDArray[np.float64]:
    """Return squared norms from all their shares, which were made with the same `scale` and `largest`."""
    form = NormScale(scale, largest)
    total = np.sum(shares, axis=0, dtype=np.uint64) & form.mask
    return np.ldexp(total.astype(np.float64), -2 * form.kept)


def _checked(short: RingMatrix) -> RingMatrix:
    if short.ndim != 2 or not short.size:
        raise DataError(f"weights must have two axes, not shape {short.shape}")
    return short


def _digits(short: RingMatrix, form: NormScale) -> PlainMatrix:
    """Return shortened numbers as two digits to the base 2^20 side by side, each small enough for a plain matrix."""
    unused = np.int64(64 - (RING_BITS - form.shortened))
    centred = short.view(np.int64) << unused >> unused
    half = 1 << (PLAIN_BITS - 1)
    low = (centred + half & (1 << PLAIN_BITS) - 1) - half
    return np.hstack([low, (centred - low) >> PLAIN_BITS])


def _scaled(short: RingMatrix) -> RingMatrix:
    """Return what the two digits of the other factor are multiplied with."""
    return wrap(np.hstack([short, short << np.uint64(PLAIN_BITS)]))


def _own_and_cross(short: RingMatrix, cross: RingMatrix) -> NormShares:
    total: NormShares = np.square(short).sum(axis=1, dtype=np.uint64) + np.uint64(2) * cross
    return total


def _grouped(rows: NormShares, groups: Groups | None, form: NormScale) -> NormShares:
    """Return the sums over groups of rows; what they wrap at 2^64 is a multiple of what they are known modulo."""
    if groups is None:
        return rows & form.mask
    if groups.shape != rows.shape or groups.min() < 0:
        raise DataError(f"groups of shape {groups.shape} came where one number for each of {rows.size} rows was due")
    total = np.zeros(int(groups.max()) + 1, np.uint64)
    np.add.at(total, groups, rows)
    return total & form.mask
