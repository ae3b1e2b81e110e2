"""A plain matrix as values at the points of the transform, cut into limbs and kept for many products."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from colonnade.secure.backend import DEFAULT_MEMORY, PreparedMatrix
from colonnade.secure.bfv_words import PRIMES, library
from colonnade.secure.modular import RIGHT_BITS, Limbs, Words, left_limbs, multiply, residues, right_limbs, shifted
from colonnade.secure.ring import PlainMatrix, check_plain, wrap
from colonnade.secure.tiles import DEGREE, Diagonal, Tile

ROW_TILES, INNER_TILES = 32, 64
"""Tiles of the plain matrix that are worked on at once: large enough for quick products, small enough for caches."""

_AT_ONCE = 64  # terms: 20 + 27 + 6 bits, so that sums stay whole numbers in float64


def blocks(count: int, size: int) -> Iterator[slice]:
    """Cut `range(count)` into slices of at most `size`."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


class BfvPrepared(PreparedMatrix):
    """A plain matrix and what has been encoded of it, per direction and tile, as long as there is memory."""

    def __init__(self, plain: PlainMatrix, memory: int = DEFAULT_MEMORY) -> None:
        self._plain = check_plain(plain).copy()
        self.shape = (plain.shape[0], plain.shape[1])
        self.memory = memory
        self.kept = 0
        self._encoded: dict[tuple[bool, Tile, int, int], list[Limbs]] = {}

    def diagonal(self, tile: Diagonal, transposed: bool) -> list[Words]:
        """Return the whole matrix as the plain factor of a diagonal; such a product is not repeated."""
        return encode_diagonal(self._plain.T if transposed else self._plain, tile)

    def encoded(self, tile: Tile, transposed: bool, down: slice, deep: slice) -> list[Limbs]:
        """Return a block of tiles as a left factor for each prime: (points, 3 · row tiles, inner tiles)."""
        key = transposed, tile, down.start, deep.start
        if key in self._encoded:
            return self._encoded[key]
        plain = self._plain.T if transposed else self._plain
        rows = slice(down.start * tile.height, down.stop * tile.height)
        inner = slice(deep.start * tile.depth, deep.stop * tile.depth)
        block = encode(plain[rows, inner], tile)
        size = sum(factor.nbytes for factor in block)
        if self.kept + size <= self.memory:
            self.kept += size
            self._encoded[key] = block
        return block


def encode(plain: PlainMatrix, tile: Tile) -> list[Limbs]:
    """Return the values of a block's polynomials at the points of the transform, as limbs for each prime."""
    polynomials = tile.pack_plain(plain)
    down, deep, points = polynomials.shape
    flat = polynomials.reshape(-1, points)
    used = flat[:, : tile.height * tile.depth * tile.pitch : tile.pitch]
    found = _at_once(used, points, tile.pitch) if used.shape[1] <= _AT_ONCE else _in_two_steps(flat)
    return [left_limbs(values.reshape(points, down, deep)) for values in found]


def encode_diagonal(plain: PlainMatrix, tile: Diagonal) -> list[Words]:
    """Return the values of a diagonal's polynomial at all points, for each prime."""
    here = library()
    return list(here.values(here.transformed(here.plaintext(wrap(tile.pack_plain(plain))))))


def _at_once(coefficients: PlainMatrix, points: int, pitch: int) -> Iterator[Words]:
    """Return for each prime the values of polynomials in y^pitch (number, terms), as (points, number).

    The library evaluates at odd powers of a root of unity, in bit-reversed order; a polynomial in y = x^stride has the
    same value on each run of `stride` points.
    """
    number, terms = coefficients.shape
    factors = coefficients.T.astype(np.float64)
    for index in range(len(PRIMES)):
        yield _reduced(_powers(points, index, terms, pitch) @ factors, index).reshape(points, number)


def _in_two_steps(polynomials: PlainMatrix) -> Iterator[Words]:
    """Return for each prime the values of polynomials in y (number, points), as (points, number).

    As in any fast transform, exponents are split into a low and a high part, here of about equal size so that both
    steps are matrix products. The first step depends on the high bits of a point alone.
    """
    number, points = polynomials.shape
    first, second = _split(points)
    coefficients = polynomials.reshape(number, first, second).transpose(1, 0, 2).reshape(first, -1).astype(np.float64)
    for index, prime in enumerate(PRIMES):
        values = _reduced(_powers(first, index, first) @ coefficients, index).reshape(first, number, second)
        product = multiply(left_limbs(values), _second_powers(points, index), prime)
        yield product.transpose(0, 2, 1).reshape(points, number)


def _reduced(sums: Limbs, index: int) -> Words:
    """Return residues of sums whose upper half belongs to the low limbs of powers, the lower one to the high limbs."""
    low, high = np.split(sums.astype(np.int64), 2)
    value = shifted(high, RIGHT_BITS, PRIMES[index])
    value += low
    return residues(value, PRIMES[index])


def _split(points: int) -> tuple[int, int]:
    """Return how many values the high and the low part of an exponent have."""
    width = points.bit_length() - 1
    return 1 << (width + 1) // 2, 1 << width // 2


@cache
def _powers(points: int, index: int, terms: int, pitch: int = 1) -> Limbs:
    """Return what y^(pitch · exponent) is at each point, [point, exponent]: low limbs, and below them high limbs."""
    exponents = np.outer(_odd(points), pitch * np.arange(terms)) % (2 * points)
    powers = _root_powers(points, index)[exponents]
    mask = np.uint64((1 << RIGHT_BITS) - 1)
    return np.concatenate([powers & mask, powers >> np.uint64(RIGHT_BITS)]).astype(np.float64)


@cache
def _second_powers(points: int, index: int) -> Limbs:
    """Return, as a right factor, what y^(low part) is at each point: [high part of point][exponent, low part]."""
    first, second = _split(points)
    odd = _odd(points).reshape(first, 1, second)
    exponents = np.arange(second)[None, :, None] * odd % (2 * points)
    return right_limbs(_root_powers(points, index)[exponents])


def _odd(points: int) -> PlainMatrix:
    """Return the power of the root of unity that belongs to each point."""
    width = points.bit_length() - 1
    return np.array([2 * int(f"{point:0{width}b}"[::-1], 2) + 1 if width else 1 for point in range(points)])


@cache
def _root_powers(points: int, index: int) -> Words:
    prime = PRIMES[index]
    first, table = pow(library().roots[index], DEGREE // points, prime), [1]
    while len(table) < 2 * points:
        table.append(table[-1] * first % prime)
    return np.array(table, np.uint64)
