"""The work that the secure benches time: products between parties, through the interface every backend offers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, Self

import numpy as np

from colonnade.bench.registry import Row
from colonnade.errors import RunError
from colonnade.secure import Backend, Evaluator, KeyPair, Product, backend
from colonnade.secure.backend import BACKENDS
from colonnade.secure.ring import (
    GRADIENT_SCALE,
    PlainMatrix,
    RingMatrix,
    encode,
    encode_plain,
    matmul,
    random_ring,
    wrap,
)

Direction = Literal["forward", "backward"]
HIDDEN = 10
"""Hidden units of each variable's encoder, as published."""

_WARM = 200


@dataclass(frozen=True)
class Size:
    """`n` records of `d` columns, spread over `parties` as evenly as can be."""

    n: int
    d: int
    parties: int

    @property
    def widths(self) -> list[int]:
        """Columns of each party."""
        return [self.d // self.parties + (party < self.d % self.parties) for party in range(self.parties)]

    def product(self, holder: int, owner: int, direction: Direction) -> Product:
        """Return the product of the holder's columns with the owner's weights, or transposed with its gradient."""
        columns, outputs = self.widths[holder], HIDDEN * self.widths[owner]
        return Product(self.n, columns, outputs) if direction == "forward" else Product(columns, self.n, outputs)


SIZES: dict[str, list[Size]] = {
    "smoke": [Size(16, 10, 2)],
    "default": [Size(n, d, parties) for parties in (2, 3, 5) for n in (16, 256, 1000) for d in (10, 50, 100, 200)],
}
SIZES["paper"] = SIZES["default"]

LONGEST: dict[str, float] = {"smoke": 10, "default": 2, "paper": float("inf")}
"""Seconds that a product may be expected to take under any but the default backend, which is measured at every size.

What would take longer is left out, and the notes say so.
"""
DEFAULT_BACKEND = "bfv"

WORTH_REPEATING = 10.0
"""What takes fewer seconds is done once, so that the columns are encoded, before it is measured."""


@dataclass(frozen=True)
class Cost:
    """What one product or several took: seconds, bytes on the wire, and the statistical bits of the least hidden."""

    seconds: float
    wire_bytes: int
    statistical_bits: float

    def __add__(self, other: Cost) -> Cost:
        bits = min(self.statistical_bits, other.statistical_bits)
        return Cost(self.seconds + other.seconds, self.wire_bytes + other.wire_bytes, bits)


class Parties:
    """The keys of some parties under one backend, and each one's evaluators for the others' keys.

    Use it as a context manager: evaluators may own worker processes.
    """

    def __init__(self, backend: type[Backend], count: int, workers: int = 0) -> None:
        engine = backend()
        self.name = engine.name
        self.key_pairs = [engine.generate() for _ in range(count)]
        self.key_bits = self.key_pairs[0].key_bits
        self.evaluators = {
            (holder, owner): engine.evaluator(self.key_pairs[owner].public_bytes(), workers=workers)
            for holder, owner in permutations(range(count), 2)
        }

    def warm_up(self, holder: int, owner: int) -> None:
        """Let a pair make once what lasts as long as the key: tables of powers."""
        evaluator, key_pair = self.evaluators[holder, owner], self.key_pairs[owner]
        key_pair.encrypt(np.zeros((_WARM, 1), np.uint64), Product(1, _WARM, 1))
        tall = Product(_WARM, 1, 1)
        encrypted = evaluator.load(key_pair.encrypt(np.zeros((1, 1), np.uint64), tall), tall)
        evaluator.to_shares(evaluator.premultiply(evaluator.prepare(np.ones((_WARM, 1), np.int64)), encrypted))

    def pair(self, size: Size, holder: int, owner: int) -> Pair:
        """Return a pair of parties with columns of this size prepared."""
        columns = encode_plain(np.random.default_rng(holder).standard_normal((size.n, size.widths[holder])))
        return Pair(columns, self.evaluators[holder, owner], self.key_pairs[owner])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for evaluator in self.evaluators.values():
            evaluator.close()


class Pair:
    """A holder of columns, prepared once, and an owner of weights."""

    def __init__(self, columns: PlainMatrix, evaluator: Evaluator, key_pair: KeyPair) -> None:
        self._columns, self._evaluator, self._key_pair = columns, evaluator, key_pair
        self._prepared = evaluator.prepare(columns)

    def run(self, product: Product, direction: Direction) -> Cost:
        """Send one product there and back and time it, then check it.

        Raises:
            RunError: the shares do not add up to the product.
        """
        secret = _secret(product, direction)
        multiply = self._evaluator.premultiply if direction == "forward" else self._evaluator.premultiply_transposed
        started = time.perf_counter()
        ciphertexts = self._key_pair.encrypt(secret, product)
        masked = self._evaluator.to_shares(multiply(self._prepared, self._evaluator.load(ciphertexts, product)))
        share = self._key_pair.receive_shares(masked.ciphertexts, product)
        seconds = time.perf_counter() - started
        plain = self._columns if direction == "forward" else np.ascontiguousarray(self._columns.T)
        if not np.array_equal(wrap(share + masked.share), matmul(plain, secret)):
            raise RunError(f"the shares of {product} do not add up")
        return Cost(seconds, ciphertexts.nbytes + masked.ciphertexts.nbytes, masked.statistical_bits)


class Pace:
    """Predicts from what a backend has done how long the next product takes."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._rates: dict[tuple[str, str], float] = {}

    def too_long(self, backend: str, direction: str, multiplications: int) -> bool:
        """Whether the measurement would take longer than a preset allows; never for the first of its kind."""
        rate = self._rates.get((backend, direction))
        return backend != DEFAULT_BACKEND and rate is not None and multiplications / rate > self._longest

    def note(self, backend: str, direction: str, per_second: float) -> None:
        """Remember the best rate: a small product tells little of a large one, which keeps a backend busier."""
        self._rates[backend, direction] = max(per_second, self._rates.get((backend, direction), 0.0))


def secure_backends(preset: str) -> list[type[Backend]]:
    """Return the backends to compare; a smoke run leaves the weaker Paillier keys out."""
    backend()
    return [BACKENDS[name] for name in BACKENDS if preset != "smoke" or name != "paillier-2048"]


def make_row(
    size: Size,
    direction: str,
    backend: str,
    *,
    multiplications: int,
    cost: Cost,
    phe_seconds: float,
    memory: int | None,
    key_bits: int,
) -> Row:
    """Return a row with the keys that all secure benches share."""
    return {
        "backend": backend,
        "n": size.n,
        "d": size.d,
        "parties": size.parties,
        "direction": direction,
        "per_second": round(multiplications / cost.seconds, 1),
        "ratio_to_phe": round(phe_seconds / cost.seconds, 1),
        "bytes": cost.wire_bytes,
        "peak_memory": memory,
        "statistical_bits": round(cost.statistical_bits, 1),
        "key_bits": key_bits,
    }


def _secret(product: Product, direction: Direction) -> RingMatrix:
    """Forward, the secret is a share of weights: uniform. Backward, a gradient."""
    if direction == "forward":
        return random_ring(product.secret_shape)
    return encode(np.random.default_rng(1).standard_normal(product.secret_shape), GRADIENT_SCALE)
