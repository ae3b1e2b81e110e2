"""The work that the secure benches time: products between parties, through the interface every backend offers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from operator import add
from typing import Literal, Self

import numpy as np

from colonnade.errors import RunError
from colonnade.secure import Backend, Evaluator, KeyPair, Product
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
class Step:
    """One product: the holder's columns with the owner's weights, or transposed with the owner's gradient."""

    holder: int
    owner: int
    direction: Direction
    product: Product

    @property
    def columns_shape(self) -> tuple[int, int]:
        """Shape of the holder's columns: (records, columns)."""
        shape = self.product.rows, self.product.inner
        return shape if self.direction == "forward" else shape[::-1]


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

    def step(self, holder: int, owner: int, direction: Direction) -> Step:
        """Return one product between two of the parties."""
        columns, outputs = self.widths[holder], HIDDEN * self.widths[owner]
        forward = direction == "forward"
        product = Product(self.n, columns, outputs) if forward else Product(columns, self.n, outputs)
        return Step(holder, owner, direction, product)


@dataclass(frozen=True)
class Task:
    """What one row of a result is about: products of one size, done one after the other."""

    size: Size
    direction: str
    steps: tuple[Step, ...]

    @property
    def multiplications(self) -> int:
        """How many multiplications of numbers all products together stand for."""
        return sum(step.product.multiplications for step in self.steps)

    @property
    def parties(self) -> int:
        """How many parties take part."""
        return 1 + max(max(step.holder, step.owner) for step in self.steps)

    def __str__(self) -> str:
        return f"{self.direction}, n={self.size.n}, d={self.size.d}, parties={self.size.parties}"


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
        self._warm: set[tuple[int, int]] = set()

    def rehearse(self, task: Task) -> Callable[[], Cost]:
        """Prepare the columns of a task; return what does all its products once and tells their cost."""
        pairs = {(step.holder, step.owner): self._pair(step) for step in task.steps}
        return lambda: reduce(add, (pairs[step.holder, step.owner].run(step) for step in task.steps))

    def _pair(self, step: Step) -> Pair:
        evaluator, key_pair = self.evaluators[step.holder, step.owner], self.key_pairs[step.owner]
        if (step.holder, step.owner) not in self._warm:
            _warm_up(evaluator, key_pair)
            self._warm.add((step.holder, step.owner))
        columns = encode_plain(np.random.default_rng(step.holder).standard_normal(step.columns_shape))
        return Pair(columns, evaluator, key_pair)

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

    def run(self, step: Step) -> Cost:
        """Send one product there and back and time it, then check it.

        Raises:
            RunError: the shares do not add up to the product.
        """
        forward, product = step.direction == "forward", step.product
        secret = _secret(product, step.direction)
        multiply = self._evaluator.premultiply if forward else self._evaluator.premultiply_transposed
        started = time.perf_counter()
        ciphertexts = self._key_pair.encrypt(secret, product)
        masked = self._evaluator.to_shares(multiply(self._prepared, self._evaluator.load(ciphertexts, product)))
        share = self._key_pair.receive_shares(masked.ciphertexts, product)
        seconds = time.perf_counter() - started
        plain = self._columns if forward else np.ascontiguousarray(self._columns.T)
        if not np.array_equal(wrap(share + masked.share), matmul(plain, secret)):
            raise RunError(f"the shares of {product} do not add up")
        return Cost(seconds, ciphertexts.nbytes + masked.ciphertexts.nbytes, masked.statistical_bits)


def _warm_up(evaluator: Evaluator, key_pair: KeyPair) -> None:
    """Let a pair make once what lasts as long as the key: tables of powers."""
    key_pair.encrypt(np.zeros((_WARM, 1), np.uint64), Product(1, _WARM, 1))
    tall = Product(_WARM, 1, 1)
    encrypted = evaluator.load(key_pair.encrypt(np.zeros((1, 1), np.uint64), tall), tall)
    evaluator.to_shares(evaluator.premultiply(evaluator.prepare(np.ones((_WARM, 1), np.int64)), encrypted))


def _secret(product: Product, direction: Direction) -> RingMatrix:
    """Forward, the secret is a share of weights: uniform. Backward, a gradient."""
    if direction == "forward":
        return random_ring(product.secret_shape)
    return encode(np.random.default_rng(1).standard_normal(product.secret_shape), GRADIENT_SCALE)
