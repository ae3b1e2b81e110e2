"""How matrices lie in polynomials, so that one product of polynomials is a tile of a matrix product.

With stride s (a power of two) and y = x^s, a tile of the secret matrix M (c rows, s columns) and one of the plain
matrix A (r rows, c columns) become

    Σ M[j, k] · y^j · x^k        and        Σ A[i, j] · y^(i·c + c − 1 − j),        with r·c ≤ L = N / s,

and coefficient y^(i·c + c − 1) · x^k of their product is (A·M)[i, k]. Terms that wrap around land on smaller powers of
y than the first of these. The plain polynomial is one in y alone, so it has only L different values at the N points of
the number-theoretic transform: that is why an encoded matrix is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.secure.backend import LEAST_STATISTICAL_BITS, Product
from colonnade.secure.ring import PlainMatrix, RingMatrix

DEGREE = 8192
SMALLEST_STRIDE = 8  # more than 1024 points in y would need large tables to encode

# Measured cost, in microseconds of both parties together: of a ciphertext that goes out, of one that comes back
# (its mask is most of it), of a product of polynomials. Only their ratios matter, and both parties must have the same.
_INPUT_COST, _OUTPUT_COST, _PRODUCT_COST = 4000, 7000, 40


def _parts(whole: int, part: int) -> int:
    return -(-whole // part)


@dataclass(frozen=True)
class Tile:
    """A way to cut one product; see the module for `stride`, `height` (r) and `depth` (c)."""

    product: Product
    stride: int
    height: int
    depth: int

    @property
    def points(self) -> int:
        """Number of different values of a transformed plain polynomial (L)."""
        return DEGREE // self.stride

    @property
    def grid(self) -> tuple[int, int, int]:
        """Number of tiles along rows, inner axis and columns."""
        product = self.product
        return (
            _parts(product.rows, self.height),
            _parts(product.inner, self.depth),
            _parts(product.columns, self.stride),
        )

    @property
    def inputs(self) -> int:
        """Number of ciphertexts of the secret factor."""
        _, deep, across = self.grid
        return deep * across

    @property
    def outputs(self) -> int:
        """Number of ciphertexts of the product."""
        down, _, across = self.grid
        return down * across

    @property
    def cost(self) -> int:
        """Estimated cost."""
        down, deep, across = self.grid
        return self.inputs * _INPUT_COST + self.outputs * _OUTPUT_COST + down * deep * across * _PRODUCT_COST

    @property
    def plain_terms(self) -> int:
        """How many numbers of the plain matrix enter one ciphertext of the product at most."""
        return self.height * self.product.inner

    def pack_secret(self, secret: RingMatrix) -> RingMatrix:
        """Return the polynomials of the secret matrix: (column tiles, inner tiles, DEGREE)."""
        _, deep, across = self.grid
        padded = _pad(secret, deep * self.depth, across * self.stride)
        tiles = padded.reshape(deep, self.depth, across, self.stride).transpose(2, 0, 1, 3)
        polynomials = np.zeros((across, deep, DEGREE), np.uint64)
        polynomials[:, :, : self.depth * self.stride] = tiles.reshape(across, deep, -1)
        return polynomials

    def pack_plain(self, plain: PlainMatrix) -> PlainMatrix:
        """Return the polynomials in y of a block of the plain matrix: (row tiles, inner tiles, points)."""
        down, deep = _parts(plain.shape[0], self.height), _parts(plain.shape[1], self.depth)
        padded = _pad(plain, down * self.height, deep * self.depth)
        tiles = padded.reshape(down, self.height, deep, self.depth)[..., ::-1].transpose(0, 2, 1, 3)
        polynomials = np.zeros((down, deep, self.points), np.int64)
        polynomials[:, :, : self.height * self.depth] = tiles.reshape(down, deep, -1)
        return polynomials

    def unpack_product(self, polynomials: RingMatrix) -> RingMatrix:
        """Return the product from its polynomials (column tiles · row tiles, DEGREE)."""
        down, _, across = self.grid
        powers = polynomials.reshape(across, down, self.points, self.stride)
        tiles = powers[:, :, self.depth - 1 : self.height * self.depth : self.depth]
        whole = tiles.transpose(1, 2, 0, 3).reshape(down * self.height, across * self.stride)
        return np.ascontiguousarray(whole[: self.product.rows, : self.product.columns])


@lru_cache(maxsize=256)
def choose_tile(product: Product, statistical_bits: Callable[[Tile], float]) -> Tile:
    """Return the cheapest way to cut `product` that hides the plain matrix well enough.

    Both parties get the same tile, since it depends on nothing but their arguments. If no tile hides well enough, the
    one that hides best is returned: the caller judges it.

    Args:
        product: its shape.
        statistical_bits: how well a product cut like this can be hidden.
    """

    def order(tile: Tile) -> tuple[float, int, int, int]:
        return max(0.0, LEAST_STATISTICAL_BITS - statistical_bits(tile)), tile.cost, tile.stride, tile.depth

    return min((tile for stride in _strides() for tile in _tiles(product, stride)), key=order)


def _strides() -> list[int]:
    return [1 << power for power in range(SMALLEST_STRIDE.bit_length() - 1, DEGREE.bit_length())]


def _tiles(product: Product, stride: int) -> list[Tile]:
    points = DEGREE // stride
    deepest = min(points, product.inner)
    return [Tile(product, stride, min(product.rows, points // depth), depth) for depth in range(1, deepest + 1)]


def _pad(matrix: npt.NDArray[Any], rows: int, columns: int) -> npt.NDArray[Any]:
    return np.pad(matrix, ((0, rows - matrix.shape[0]), (0, columns - matrix.shape[1])))
