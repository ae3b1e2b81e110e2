"""A plain matrix as values at the points of the transform, cut into limbs and kept for many products."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from colonnade.secure.backend import DEFAULT_MEMORY, PreparedMatrix
from colonnade.secure.bfv_words import PRIMES, library
from colonnade.secure.modular import Limbs, Words, combine, left_limbs, limbs
from colonnade.secure.ring import PlainMatrix, check_plain
from colonnade.secure.tiles import DEGREE, Tile

ROW_TILES, INNER_TILES = 32, 64
"""Tiles of the plain matrix that are worked on at once: large enough for quick products, small enough for caches."""


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

    def encoded(self, tile: Tile, transposed: bool, down: slice, deep: slice) -> list[Limbs]:
        """Return a block of tiles as a left factor for each prime: (points, row tiles, 3 · inner tiles)."""
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
    polynomials = tile.pack_plain(plain).astype(np.float64)
    encoded = []
    for prime, powers in zip(PRIMES, _powers(tile.points), strict=True):
        values = combine([polynomials @ digit for digit in powers], prime)
        encoded.append(left_limbs(values.transpose(2, 0, 1)))
    return encoded


@cache
def _powers(points: int) -> list[list[Limbs]]:
    """Return for each prime the limbs of a matrix [exponent, point]: what y^exponent is at each point.

    The library evaluates at odd powers of a root of unity, in bit-reversed order; a polynomial in y = x^stride has the
    same value on each run of `stride` points.
    """
    width = points.bit_length() - 1
    reverse = [int(f"{point:0{width}b}"[::-1], 2) for point in range(points)]
    exponents = np.outer(np.arange(points), 2 * np.array(reverse) + 1) % (2 * points)
    return [limbs(table[exponents]) for table in _root_powers(points)]


def _root_powers(points: int) -> Iterator[Words]:
    for prime, root in zip(PRIMES, library().roots, strict=True):
        first, table = pow(root, DEGREE // points, prime), [1]
        while len(table) < 2 * points:
            table.append(table[-1] * first % prime)
        yield np.array(table, np.uint64)
