"""How matrices lie in polynomials, so that one product of polynomials is a tile of a matrix product.

A tile of the secret matrix M (c rows, w columns) and one of the plain matrix A (r rows, c columns) become

    Σ M[j, k] · x^(w·j + k)        and        Σ A[i, j] · x^(w·(i·c + c − 1 − j)),        with r·c·w ≤ N,

and coefficient x^(w·(i·c + c − 1) + k) of their product is (A·M)[i, k]. Terms that wrap around land on smaller powers
of x than the first of these. The width w is a multiple of the stride s, a power of two, so the plain polynomial is one
in y = x^s and has only N / s different values at the N points of the number-theoretic transform: that is why an encoded
matrix is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from colonnade.secure.backend import LEAST_STATISTICAL_BITS, Product
from colonnade.secure.ring import PlainMatrix, RingMatrix

DEGREE = 8192
SMALLEST_STRIDE = 8  # more than 1024 points in y would need large tables to encode
LARGEST_PITCH = 15

# Measured cost, in microseconds of both parties together: of a ciphertext that goes out, of one that comes back, of
# a product of polynomials, and of each point of the transform. Only their ratios matter, and both parties must
# have the same.
_INPUT_COST, _OUTPUT_COST, _PRODUCT_COST, _POINTS_COST = 3000, 3500, 60, 0.25


def _parts(whole: int, part: int) -> int:
    return -(-whole // part)


@dataclass(frozen=True)
class Tile:
    """A way to cut one product; see the module for `stride`, `height` (r) and `depth` (c); `pitch` is w / stride."""

    product: Product
    stride: int
    height: int
    depth: int
    pitch: int = 1

    @property
    def width(self) -> int:
        """Columns of the secret matrix in a tile (w)."""
        return self.stride * self.pitch

    @property
    def points(self) -> int:
        """Number of different values of a transformed plain polynomial."""
        return DEGREE // self.stride

    @property
    def grid(self) -> tuple[int, int, int]:
        """Number of tiles along rows, inner axis and columns."""
        product = self.product
        return (
            _parts(product.rows, self.height),
            _parts(product.inner, self.depth),
            _parts(product.columns, self.width),
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
    def cost(self) -> float:
        """Estimated cost; a standing factor is encrypted once for many products."""
        down, deep, across = self.grid
        inputs = 0 if self.product.standing else self.inputs * _INPUT_COST
        products = down * deep * across * _PRODUCT_COST + across * self.points * _POINTS_COST
        return inputs + self.outputs * _OUTPUT_COST + products

    @property
    def plain_terms(self) -> int:
        """How many numbers of the plain matrix enter one ciphertext of the product at most."""
        return self.height * self.product.inner

    def pack_secret(self, secret: RingMatrix) -> RingMatrix:
        """Return the polynomials of the secret matrix: (column tiles, inner tiles, DEGREE)."""
        _, deep, across = self.grid
        padded = _pad(secret, deep * self.depth, across * self.width)
        tiles = padded.reshape(deep, self.depth, across, self.width).transpose(2, 0, 1, 3)
        polynomials = np.zeros((across, deep, DEGREE), np.uint64)
        polynomials[:, :, : self.depth * self.width] = tiles.reshape(across, deep, -1)
        return polynomials

    def pack_plain(self, plain: PlainMatrix) -> PlainMatrix:
        """Return the polynomials in y of a block of the plain matrix: (row tiles, inner tiles, points)."""
        down, deep = _parts(plain.shape[0], self.height), _parts(plain.shape[1], self.depth)
        padded = _pad(plain, down * self.height, deep * self.depth)
        tiles = padded.reshape(down, self.height, deep, self.depth)[..., ::-1].transpose(0, 2, 1, 3)
        polynomials = np.zeros((down, deep, self.points), np.int64)
        polynomials[:, :, : self.height * self.depth * self.pitch : self.pitch] = tiles.reshape(down, deep, -1)
        return polynomials

    def unpack_product(self, polynomials: RingMatrix) -> RingMatrix:
        """Return the product from its polynomials (column tiles · row tiles, DEGREE)."""
        down, _, across = self.grid
        used = polynomials[:, : self.height * self.depth * self.width]
        tiles = used.reshape(across, down, self.height, self.depth, self.width)[:, :, :, -1]
        whole = tiles.transpose(1, 2, 0, 3).reshape(down * self.height, across * self.width)
        return np.ascontiguousarray(whole[: self.product.rows, : self.product.columns])


class Diagonal(Tile):
    """All inner products of a diagonal in one polynomial.

    Row i of the plain matrix and column i of the secret one lie at c·aᵢ, where c is their length:

        Σ A[i, j] · x^(c·aᵢ + c − 1 − j)        and        Σ M[j, i] · x^(c·aᵢ + j).

    Coefficient x^(2·c·aᵢ + c − 1) of their product is (A·M)[i, i] and nothing else: rows i' and columns i" only get
    there if aᵢ' + aᵢ" = 2·aᵢ, and the places are such that no three of them are evenly spaced.
    """

    @classmethod
    def of(cls, product: Product) -> Self:
        """Return the one way to cut the diagonal of `product`."""
        return cls(product, 1, product.rows, product.inner)

    @staticmethod
    def largest(inner: int) -> int:
        """Return how many inner products of this length fit."""
        return int((_uneven_places() < (DEGREE // inner + 1) // 2).sum())

    @property
    def grid(self) -> tuple[int, int, int]:
        """One tile."""
        return 1, 1, 1

    def pack_secret(self, secret: RingMatrix) -> RingMatrix:
        """Return the polynomial of the secret matrix: (1, 1, DEGREE)."""
        polynomial = np.zeros((1, 1, DEGREE), np.uint64)
        polynomial[0, 0, self._starts()[:, None] + np.arange(self.depth)] = secret.T
        return polynomial

    def pack_plain(self, plain: PlainMatrix) -> PlainMatrix:
        """Return the polynomial of the plain matrix: (1, 1, DEGREE)."""
        polynomial = np.zeros((1, 1, DEGREE), np.int64)
        polynomial[0, 0, self._starts()[:, None] + np.arange(self.depth)[::-1]] = plain
        return polynomial

    def unpack_product(self, polynomials: RingMatrix) -> RingMatrix:
        """Return the diagonal as a column, from its polynomial (1, DEGREE)."""
        found: RingMatrix = polynomials[0, 2 * self._starts() + self.depth - 1]
        return found[:, None]

    def _starts(self) -> npt.NDArray[np.int64]:
        return self.depth * _uneven_places()[: self.height]


@cache
def _uneven_places() -> npt.NDArray[np.int64]:
    """Return whole numbers of which no three are evenly spaced: those without a 2 to the base 3, below DEGREE / 2.

    Twice such a number has no 1; for a sum of two of them to have none, they must agree in each digit.
    """
    return np.array([int(f"{number:b}", 3) for number in range(1 << 8)])


@lru_cache(maxsize=256)
def choose_tile(product: Product, statistical_bits: Callable[[Tile], float]) -> Tile:
    """Return the cheapest way to cut `product` that hides the plain matrix well enough.

    Both parties get the same tile, since it depends on nothing but their arguments. If no tile hides well enough, the
    one that hides best is returned: the caller judges it.

    Args:
        product: its shape.
        statistical_bits: how well a product cut like this can be hidden.
    """

    def order(tile: Tile) -> tuple[float, float, int, int, int]:
        missing = max(0.0, LEAST_STATISTICAL_BITS - statistical_bits(tile))
        return missing, tile.cost, tile.stride, tile.pitch, tile.depth

    return min((tile for stride in _strides() for tile in _tiles(product, stride)), key=order)


def _strides() -> list[int]:
    return [1 << power for power in range(SMALLEST_STRIDE.bit_length() - 1, DEGREE.bit_length())]


def _tiles(product: Product, stride: int) -> Iterator[Tile]:
    points = DEGREE // stride
    deepest = min(points, product.inner)
    # Other depths need as many inner tiles as the next smaller one of these.
    depths = [depth for depth in range(1, deepest + 1) if depth == _parts(product.inner, _parts(product.inner, depth))]
    for pitch in _pitches(product.columns, stride):
        room = points // pitch
        yield from (
            Tile(product, stride, min(product.rows, room // depth), depth, pitch) for depth in depths if depth <= room
        )


def _pitches(columns: int, stride: int) -> list[int]:
    """Return by how many strides tiles may be wide: with an even number, a larger stride would do the same."""
    widest = min(_parts(columns, stride), DEGREE // stride, LARGEST_PITCH)
    return [1, *(pitch for pitch in range(3, widest + 1, 2))]


def _pad(matrix: npt.NDArray[Any], rows: int, columns: int) -> npt.NDArray[Any]:
    return np.pad(matrix, ((0, rows - matrix.shape[0]), (0, columns - matrix.shape[1])))
