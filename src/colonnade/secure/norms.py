"""Squared norms of weights that two parties hold in shares: the edge strengths of a graph, without showing a weight.

‖f + g‖² = ‖f‖² + ‖g‖² + 2⟨f, g⟩: the first two are local, the inner product along the hidden axis is an encrypted one.

**Scales.** Weights have 36 bits behind the point and their squares would need 72, so shares are first shortened by 20
bits: one party rounds down, the other up, and what they then hold adds up to the weight at scale 16, modulo 2^39, off
by less than one unit 2^-16 (and exactly zero for a weight of zero). A square is known modulo 2^40 from its root modulo
2^39. So the result, at scale 32, is right modulo 2^40 whatever the shares were (no rare failures, as usual when shares
are truncated): **squared norms must be below 2^8**, norms below 16; the error of a norm is below √h · 2^-16.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError
from colonnade.secure.backend import Product
from colonnade.secure.dispatch import Line
from colonnade.secure.ring import PLAIN_BITS, RING_BITS, WEIGHT_SCALE, PlainMatrix, RingMatrix, wrap

SHORTENED = 20
"""Bits that shares lose before they are multiplied."""
NORM_SCALE = 2 * (WEIGHT_SCALE - SHORTENED)
NORM_BITS = RING_BITS - SHORTENED + 1
LARGEST_SQUARED_NORM = 2 ** (NORM_BITS - NORM_SCALE)

NormShares = npt.NDArray[np.uint64]
"""Shares of squared norms, modulo 2^40."""

_NORM_MASK = np.uint64((1 << NORM_BITS) - 1)


def norms_as_holder(line: Line, fragment: RingMatrix) -> NormShares:
    """Return this party's shares of the squared norms of all rows; the peer calls `norms_as_owner` with its fragment.

    Args:
        line: to the peer.
        fragment: this party's shares of the weights, (rows, hidden), scale 36.
    """
    short = fragment >> np.uint64(SHORTENED)
    groups, group = _groups(line, short)
    prepared = [line.evaluator.prepare(_digits(part), memory=0) for part in groups]
    cross = line.answer_all(prepared, group)
    return _own_and_cross(short, cross)


def norms_as_owner(line: Line, fragment: RingMatrix) -> NormShares:
    """Return this party's shares of the squared norms of all rows; the peer calls `norms_as_holder`."""
    up = np.uint64((1 << SHORTENED) - 1)
    short = wrap(fragment + up) >> np.uint64(SHORTENED)
    groups, group = _groups(line, short)
    secrets = [_stacked(part) for part in groups]
    product = Product(group, secrets[0].shape[0], group)
    line.send_secrets(secrets, product)
    return _own_and_cross(short, line.receive_shares(len(secrets), product))


def reveal_norms(*shares: NormShares) -> npt.NDArray[np.float64]:
    """Return squared norms from all their shares."""
    total = np.sum(shares, axis=0, dtype=np.uint64) & _NORM_MASK
    return np.ldexp(total.astype(np.float64), -NORM_SCALE)


def _groups(line: Line, short: RingMatrix) -> tuple[list[RingMatrix], int]:
    """Cut rows into groups, the last one filled up with zeros: a group is computed as the diagonal of one product."""
    if short.ndim != 2 or not short.size:
        raise DataError(f"weights must have two axes, not shape {short.shape}")
    group = min(line.backend.diagonal_group(2 * short.shape[1]), short.shape[0])
    filled = np.pad(short, ((0, -short.shape[0] % group), (0, 0)))
    return list(filled.reshape(-1, group, short.shape[1])), group


def _digits(short: RingMatrix) -> PlainMatrix:
    """Return numbers modulo 2^39 as two digits to the base 2^20 side by side, each small enough for a plain matrix."""
    unused = np.int64(64 - (RING_BITS - SHORTENED))
    centred = short.view(np.int64) << unused >> unused
    half = 1 << (PLAIN_BITS - 1)
    low = (centred + half & (1 << PLAIN_BITS) - 1) - half
    return np.hstack([low, (centred - low) >> PLAIN_BITS])


def _stacked(short: RingMatrix) -> RingMatrix:
    """Return what the two digits of the other factor are multiplied with, a column per row."""
    return wrap(np.hstack([short, short << np.uint64(PLAIN_BITS)]).T)


def _own_and_cross(short: RingMatrix, cross: list[RingMatrix]) -> NormShares:
    inner = np.concatenate([np.diagonal(part) for part in cross])[: short.shape[0]]
    total: NormShares = np.square(short).sum(axis=1, dtype=np.uint64) + np.uint64(2) * inner
    return total & _NORM_MASK
