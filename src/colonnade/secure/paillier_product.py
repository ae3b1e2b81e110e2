"""Plain matrix times encrypted matrix: products of powers of ciphertexts, many at a time.

Each row of the plain matrix asks for one product of powers. With many rows, tables of each ciphertext's small powers
pay (Straus); with many ciphertexts a row, collecting those with equal digits does (Pippenger). Exponents are shifted to
be positive and the shift is taken out once for all rows. The work depends on the digits of the plain matrix: its holder
computes on its own machine, on its own numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz, powmod

from colonnade.secure.paillier_residues import powers
from colonnade.secure.paillier_threads import in_threads
from colonnade.secure.ring import PLAIN_BITS, PlainMatrix

_EXPONENT_BITS = PLAIN_BITS + 1
_OVERHEAD = 64  # bytes that Python adds to a number in a table

Digits = npt.NDArray[np.int64]
"""Digits of the exponents: (rows, windows from the highest, inner)."""


@dataclass(frozen=True)
class Method:
    """How to multiply: by tables or by buckets, with digits of `window` bits."""

    kind: Literal["tables", "buckets"]
    window: int

    @property
    def windows(self) -> int:
        """Digits of an exponent."""
        return -(-_EXPONENT_BITS // self.window)


def choose_method(rows: int, inner: int, ciphertext_bytes: int, memory: int) -> Method:
    """Return the method with the fewest multiplications whose tables fit into `memory` bytes."""

    def cost(method: Method) -> int:
        if method.kind == "tables":
            return (inner << method.window) + rows * method.windows * inner
        return rows * method.windows * (inner + (2 << method.window))

    fitting = [
        Method("tables", window)
        for window in range(1, 13)
        if (inner << window) * (ciphertext_bytes + _OVERHEAD) <= memory
    ]
    return min(fitting + [Method("buckets", window) for window in range(1, 13)], key=cost)


def premultiply(plain: PlainMatrix, columns: Sequence[mpz], modulus: mpz, threads: int, memory: int) -> list[mpz]:
    """Return, for each row of `plain`, the product over j of columns[j] ** plain[row, j] modulo `modulus`."""
    rows, inner = plain.shape
    method = choose_method(rows, inner, (modulus.bit_length() + 7) // 8, memory)
    digits = _digits(plain, method)
    unshift = _unshift(columns, modulus)
    if method.kind == "buckets":
        return in_threads(
            lambda part: [_by_buckets(digits[row], columns, method.window, unshift, modulus) for row in part],
            range(rows),
            threads,
        )
    count = 1 << method.window
    tables = in_threads(lambda part: [powers(column, count, modulus) for column in part], columns, threads)
    return in_threads(
        lambda part: [_by_tables(digits[row], tables, method.window, unshift, modulus) for row in part],
        range(rows),
        threads,
    )


def _digits(plain: PlainMatrix, method: Method) -> Digits:
    shifts = method.window * np.arange(method.windows - 1, -1, -1)[:, None]
    exponents = plain[:, None, :] + (1 << PLAIN_BITS)
    return exponents >> shifts & ((1 << method.window) - 1)


def _unshift(columns: Sequence[mpz], modulus: mpz) -> mpz:
    """Return what takes the shift of all exponents by 2^20 out again."""
    together = mpz(1)
    for column in columns:
        together = together * column % modulus
    return gmpy2.invert(powmod(together, 1 << PLAIN_BITS, modulus), modulus)


def _by_tables(digits: Digits, tables: Sequence[list[mpz]], window: int, unshift: mpz, modulus: mpz) -> mpz:
    result = mpz(1)
    for row in digits.tolist():
        result = powmod(result, 1 << window, modulus)
        for table, digit in zip(tables, row, strict=True):
            if digit:
                result = result * table[digit] % modulus
    return result * unshift % modulus


def _by_buckets(digits: Digits, columns: Sequence[mpz], window: int, unshift: mpz, modulus: mpz) -> mpz:
    result = mpz(1)
    for row in digits.tolist():
        buckets = [mpz(1)] * (1 << window)
        for column, digit in zip(columns, row, strict=True):
            buckets[digit] = buckets[digit] * column % modulus
        running, weighted = mpz(1), mpz(1)  # Π bucket^digit = Π over digits of the product of all higher buckets
        for bucket in reversed(buckets[1:]):
            running = running * bucket % modulus
            weighted = weighted * running % modulus
        result = powmod(result, 1 << window, modulus) * weighted % modulus
    return result * unshift % modulus
