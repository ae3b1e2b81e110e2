"""python-paillier, the published system's engine: measured at a small size, composed for large ones.

It is slow enough that a product of 1000 records would take hours, and its cost is a sum over single numbers, so the sum
is taken instead. It is under the GPL, which is why only this bench and the tests know it.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from colonnade.bench.secure_work import Cost
from colonnade.errors import ConfigError, RunError
from colonnade.secure import Product
from colonnade.secure.ring import PLAIN_BITS, RING_BITS, random_ring, random_words, signed

KEY_BITS = 2048
STATISTICAL_BITS = 40
SMALL = Product(rows=6, inner=4, columns=6)
_ROUNDS = 3
_MASK_BITS = RING_BITS + PLAIN_BITS + SMALL.inner.bit_length() + STATISTICAL_BITS


@dataclass(frozen=True)
class PheCosts:
    """Seconds for one number: to encrypt it, to multiply and add it, to mask and to decrypt it."""

    encrypt: float
    multiply: float
    mask: float
    decrypt: float

    def seconds(self, product: Product) -> float:
        """Return what a product with its way into shares takes."""
        results = product.rows * product.columns
        return (
            product.inner * product.columns * self.encrypt
            + product.multiplications * self.multiply
            + results * (self.mask + self.decrypt)
        )

    def rule(self) -> str:
        """Return how `seconds` composes, in words and numbers."""
        return (
            f"phe ({KEY_BITS} bits) is measured on a product of {SMALL.rows} × {SMALL.inner} × {SMALL.columns}, the "
            f"best of {_ROUNDS} rounds on one core, and extrapolated: "
            f"seconds = inner · columns · {self.encrypt:.3g} (encrypt) "
            f"+ rows · inner · columns · {self.multiply:.3g} (multiply and add) "
            f"+ rows · columns · ({self.mask:.3g} (encrypt and add a mask) + {self.decrypt:.3g} (decrypt)); "
            f"every ratio is to this, also where a backend's key is longer"
        )


def phe_cost(costs: PheCosts, product: Product) -> Cost:
    """Return what a product takes, with the bytes of its ciphertexts there and back: one a number."""
    sent = (product.inner + product.rows) * product.columns * KEY_BITS // 4
    return Cost(costs.seconds(product), sent, STATISTICAL_BITS)


def measure_phe() -> PheCosts:
    """Run a small product through python-paillier, there and back; the best of a few rounds.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from phe import generate_paillier_keypair
    except ImportError:
        raise ConfigError("python-paillier is not installed", remedy="pip install phe==1.5.0") from None
    public, private = generate_paillier_keypair(n_length=KEY_BITS)
    rounds = [_round(public, private) for _ in range(_ROUNDS)]
    return PheCosts(*(min(times) for times in zip(*rounds, strict=True)))


def _round(public: Any, private: Any) -> tuple[float, float, float, float]:
    """Return the seconds for one number of each of the four stages."""
    rows, inner, columns = SMALL.rows, SMALL.inner, SMALL.columns
    secret = signed(random_ring((inner, columns))).tolist()
    plain = (random_words(rows * inner, PLAIN_BITS).astype(int) - (1 << PLAIN_BITS - 1)).reshape(rows, inner).tolist()
    masks = [[secrets.randbits(_MASK_BITS) for _ in range(columns)] for _ in range(rows)]

    clock = [time.perf_counter()]
    encrypted = [[public.encrypt(number) for number in row] for row in secret]
    clock.append(time.perf_counter())
    product = [
        [sum((encrypted[j][k] * row[j] for j in range(1, inner)), encrypted[0][k] * row[0]) for k in range(columns)]
        for row in plain
    ]
    clock.append(time.perf_counter())
    masked = [
        [number + public.encrypt(mask) for number, mask in zip(*both, strict=True)]
        for both in zip(product, masks, strict=True)
    ]
    clock.append(time.perf_counter())
    opened = [[private.decrypt(number) for number in row] for row in masked]
    clock.append(time.perf_counter())

    first = sum(x * w[0] for x, w in zip(plain[0], secret, strict=True)) + masks[0][0]
    if opened[0][0] != first:
        raise RunError("python-paillier's product is wrong")
    counts = (inner * columns, SMALL.multiplications, rows * columns, rows * columns)
    durations = (after - before for before, after in pairwise(clock))
    encrypt, multiply, mask, decrypt = (seconds / count for seconds, count in zip(durations, counts, strict=True))
    return encrypt, multiply, mask, decrypt
