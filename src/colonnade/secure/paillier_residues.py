"""Random residues r^n: what hides a Paillier ciphertext, and what re-randomises one.

One residue costs one long exponentiation. Whoever needs many raises a set of random bases once and then multiplies
random small powers of them. That is no short-exponent trick: the exponents together carry 128 bits more than the group
has, so by the leftover hash lemma a product is within 2^-63 of a uniform residue and independent of all else, whatever
the group's structure. Nothing is assumed beyond Paillier's own assumption, and each party draws its own bases.

The bound: residues form a group G = Z_(p-1) × Z_(q-1). For uniform bases and two independent vectors of exponents with
difference δ, the products collide with probability E[gcd(δ, p-1) · gcd(δ, q-1)] / |G|. Of `_BASES` or more exponents,
all differences are divisible by m with probability about m^-128, and all are zero with 2^-128 / |G|; so the expectation
is below 1 + 2^-125, and the distance from uniform, averaged over bases, at most half the root of 2^-125.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from gmpy2 import mpz

from colonnade.secure.paillier_threads import in_threads
from colonnade.secure.ring import random_bytes

DISTANCE_BITS = 63
"""A residue is within 2^-63 of uniform."""

_WINDOW = 6  # bits of an exponent that one multiplication covers
_BASES = 128
_EXTRA_BITS = 128
_TABLES_PAY = 170  # residues: by then, raising the bases has cost no more than raising each one would


class Residues:
    """A source of random residues y^exponent modulo `modulus`.

    Args:
        modulus: n² for everybody; p² or q² for the owner.
        group_bits: an upper bound on the bits of the number of residues.
        draw: returns a unit's residue: exactly uniform, slow.
    """

    def __init__(self, modulus: mpz, group_bits: int, draw: Callable[[], mpz]) -> None:
        self._modulus, self._draw = modulus, draw
        length = group_bits + _EXTRA_BITS
        self._windows = length // (_BASES * _WINDOW)
        self._bases = -(-length // (self._windows * _WINDOW))
        self._tables: list[list[mpz]] = []
        self._taken = 0

    def take(self, count: int, threads: int) -> list[mpz]:
        """Return `count` fresh residues."""
        self._taken += count
        if not self._tables and self._taken < _TABLES_PAY:
            return in_threads(self._drawn, range(count), threads)
        if not self._tables:
            bases = in_threads(self._drawn, range(self._bases), threads)
            self._tables = in_threads(self._tables_of, bases, threads)
        return in_threads(self._combined, range(count), threads)

    def _drawn(self, items: Sequence[int]) -> list[mpz]:
        return [self._draw() for _ in items]

    def _tables_of(self, bases: Sequence[mpz]) -> list[list[mpz]]:
        tables = []
        for base in bases:
            for _ in range(self._windows):
                tables.append(powers(base, 1 << _WINDOW, self._modulus))
                base = tables[-1][-1] * base % self._modulus
        return tables

    def _combined(self, items: Sequence[int]) -> list[mpz]:
        random = np.frombuffer(random_bytes(len(items) * len(self._tables)), np.uint8) & ((1 << _WINDOW) - 1)
        residues, modulus = [], self._modulus
        for digits in random.reshape(len(items), -1):
            residue = mpz(1)
            for table, digit in zip(self._tables, digits.tolist(), strict=True):
                residue = residue * table[digit] % modulus
            residues.append(residue)
        return residues


def powers(base: mpz, count: int, modulus: mpz) -> list[mpz]:
    """Return base^0, base^1, … base^(count - 1)."""
    table = [mpz(1)]
    for _ in range(count - 1):
        table.append(table[-1] * base % modulus)
    return table
