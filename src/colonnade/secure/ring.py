"""Whole numbers modulo 2^59, and real numbers as fixed point on them; nothing is ever truncated.

A party's columns have 14 bits behind the point, gradients 22, weights 36. So a column times a gradient lands on the
scale of weights, shares of weights are updated by addition alone, and a column times a weight has scale 50. A sum that
leaves ±2^58 would wrap silently: every encoder and `check_product` raise a `DataError` before anything is encrypted.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from colonnade.errors import DataError

RING_BITS = 59
PLAIN_BITS = 20
PLAIN_SCALE, GRADIENT_SCALE = 14, 22
WEIGHT_SCALE = PLAIN_SCALE + GRADIENT_SCALE
PRODUCT_SCALE = PLAIN_SCALE + WEIGHT_SCALE

RingMatrix = npt.NDArray[np.uint64]
"""Elements of the ring: each below 2^59."""
PlainMatrix = npt.NDArray[np.int64]
"""What one party multiplies with in the clear: each below 2^20 in magnitude."""

_MASK = np.uint64((1 << RING_BITS) - 1)
_HALF = 1 << (RING_BITS - 1)
_LIMB_BITS, _LIMBS = 20, 3
_EXACT_INNER = 1 << 12  # 20 + 20 + 12 bits: sums of limb products stay whole numbers in float64


def wrap(numbers: npt.NDArray[Any]) -> RingMatrix:
    """Return whole numbers (64 bits, signed or not) modulo 2^59.

    >>> int(wrap(np.array([-1]))[0]) == 2**59 - 1
    True
    """
    return np.ascontiguousarray(numbers).view(np.uint64) & _MASK


def signed(ring: RingMatrix) -> npt.NDArray[np.int64]:
    """Return the representatives from -2^58 to 2^58 - 1."""
    shift = np.int64(64 - RING_BITS)
    return np.ascontiguousarray(ring).view(np.int64) << shift >> shift


def encode(values: npt.ArrayLike, scale: int, *, where: str | None = None) -> RingMatrix:
    """Return real numbers as ring elements with `scale` bits behind the point, rounded.

    Raises:
        DataError: a number is not finite or does not fit; the message shows no value.
    """
    return wrap(_fixed_point(values, scale, RING_BITS - 1, where))


def decode(ring: RingMatrix, scale: int) -> npt.NDArray[np.float64]:
    """Return the real numbers that ring elements with `scale` bits behind the point stand for."""
    return np.ldexp(signed(ring).astype(np.float64), -scale)


def encode_plain(values: npt.ArrayLike, *, where: str | None = None) -> PlainMatrix:
    """Return a party's columns as small whole numbers of scale 14; standardised columns fit (magnitude below 64).

    Raises:
        DataError: a number is not finite or does not fit; the message shows no value.
    """
    return _fixed_point(values, PLAIN_SCALE, PLAIN_BITS, where)


def encode_gradient(values: npt.ArrayLike, *, where: str | None = None) -> PlainMatrix:
    """Return gradients as small whole numbers of scale 22, for products in which they are the plain factor.

    Raises:
        DataError: a number is not finite or not below 1/4 in magnitude; the message shows no value.
    """
    return _fixed_point(values, GRADIENT_SCALE, PLAIN_BITS, where)


def check_plain(plain: PlainMatrix) -> PlainMatrix:
    """Return `plain` if it is a non-empty matrix of int64 below 2^20 in magnitude; a `DataError` otherwise."""
    if plain.ndim != 2 or not plain.size or plain.dtype != np.int64:
        raise DataError(f"a plain matrix must be int64 with two axes, not {plain.dtype} {plain.shape}")
    if plain.max() >= 1 << PLAIN_BITS or plain.min() <= -(1 << PLAIN_BITS):
        raise DataError(f"a plain number does not fit in {PLAIN_BITS} bits", remedy="encode it with encode_plain")
    return plain


def check_ring(ring: RingMatrix) -> RingMatrix:
    """Return `ring` if it is a non-empty matrix of uint64 below 2^59; a `DataError` otherwise."""
    if ring.ndim != 2 or not ring.size or ring.dtype != np.uint64:
        raise DataError(f"a secret matrix must be uint64 with two axes, not {ring.dtype} {ring.shape}")
    if ring.max() > _MASK:
        raise DataError(f"a secret number is no element of the ring modulo 2^{RING_BITS}", remedy="encode or wrap it")
    return ring


def check_product(plain: PlainMatrix, limit: float, scale: int, *, where: str | None = None) -> None:
    """Make sure that `plain` times any matrix of real numbers up to `limit` in magnitude and of `scale` does not wrap.

    Neither party could see a wrap, so the owner of the columns checks it against the agreed limit of the other factor.

    Raises:
        DataError: some product could wrap.
    """
    largest_row = int(np.abs(plain).sum(axis=1).max())
    if largest_row * limit * 2.0**scale >= _HALF:
        raise DataError(
            "the product of these columns with the agreed largest weight does not fit the ring",
            where=where,
            remedy="standardise the columns, clip outliers, or agree on a smaller largest weight",
        )


def matmul(plain: PlainMatrix, ring: RingMatrix) -> RingMatrix:
    """Return the exact product of a plain and a ring matrix, modulo 2^59.

    The ring matrix is cut into limbs of 20 bits, so that floating-point matrix products are exact and quick.

    >>> matmul(np.array([[-2, 3]]), np.array([[5], [2**59 - 1]], np.uint64)) == wrap(np.array([[-13]]))
    array([[ True]])
    """
    check_plain(plain)
    total = np.zeros((plain.shape[0], ring.shape[1]), np.uint64)
    for start in range(0, plain.shape[1], _EXACT_INNER):
        part = slice(start, start + _EXACT_INNER)
        left, right = plain[:, part].astype(np.float64), ring[part]
        for limb in range(_LIMBS):
            shift = np.uint64(limb * _LIMB_BITS)
            digits = right >> shift & np.uint64((1 << _LIMB_BITS) - 1)
            total += (left @ digits.astype(np.float64)).astype(np.int64).view(np.uint64) << shift
    return total & _MASK


def random_ring(shape: tuple[int, ...]) -> RingMatrix:
    """Return independent elements, uniform in the ring, from a cryptographically secure source."""
    return random_words(int(np.prod(shape)), RING_BITS).reshape(shape)


def random_words(count: int, bits: int) -> npt.NDArray[np.uint64]:
    """Return `count` independent uniform whole numbers of at most `bits` bits (up to 64) from a secure source."""
    return np.frombuffer(random_bytes(8 * count), np.uint64) >> np.uint64(64 - bits)


def random_below(bound: int, count: int) -> npt.NDArray[np.uint64]:
    """Return `count` independent whole numbers, exactly uniform below `bound`: too large draws are drawn anew."""
    bits = (bound - 1).bit_length()
    words = random_words(count, bits)
    while (again := np.flatnonzero(words >= np.uint64(bound))).size:
        words[again] = random_words(again.size, bits)
    return words


def random_bytes(count: int) -> bytes:
    """Return secure random bytes: AES-256 in counter mode under a key that is drawn from the system for this call."""
    stream = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()
    return stream.update(bytes(count))


def _fixed_point(values: npt.ArrayLike, scale: int, bits: int, where: str | None) -> npt.NDArray[np.int64]:
    with np.errstate(over="ignore"):  # becomes infinite, and is refused
        numbers = np.rint(np.ldexp(np.asarray(values, np.float64), scale))
    if not np.all(np.abs(numbers) < 2.0**bits):  # also false for nan
        raise DataError(
            f"a number is not finite or not below {2.0 ** (bits - scale):g} in magnitude",
            where=where,
            remedy="standardise the columns, clip outliers, or use a smaller learning rate",
        )
    return numbers.astype(np.int64)
