"""Packed Paillier, measured on blocks: a product of a thousand records takes from minutes to hours.

Every step of that backend works on whole ciphertexts, and the ciphertexts of a product lie in columns that have nothing
to do with one another: how a column is multiplied follows from its rows and inner axis alone. So a product is as much
work as its first column of ciphertexts, a **block**, times their number. Nothing is scaled along rows or the inner
axis, where tables of powers make the cost uneven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from colonnade.bench.secure_work import Cost, Parties, Step, Task
from colonnade.secure import Product
from colonnade.secure.paillier_packing import Layout

_ROUNDS, _SHORT = 3, 0.5  # what takes fewer seconds is done so often, and the best counts

RULE = (
    "packed Paillier, where extrapolated_from is not empty: a block is one ciphertext a row, columns / slots of them "
    "(rounded up) make a product, and seconds = Σ over the products of blocks · seconds of one block of the same rows "
    "and inner axis, measured end to end between two of the parties; bytes and statistical_bits follow exactly from "
    "the shapes; peak_memory is not known"
)


@dataclass(frozen=True)
class Extrapolated:
    """The cost of a task, scaled up, and the shapes of the blocks that were measured for it."""

    cost: Cost
    source: str


def count_ciphertexts(task: Task, key_bits: int) -> int:
    """Return how many ciphertexts travel for a task, there and back."""
    return sum(
        (step.product.rows + step.product.inner) * Layout.of(step.product, key_bits).blocks for step in task.steps
    )


def is_one_block(task: Task, key_bits: int) -> bool:
    """Whether there is nothing to scale up: one product of one block."""
    return len(task.steps) == 1 and Layout.of(task.steps[0].product, key_bits).blocks == 1


def block_of(step: Step, key_bits: int) -> Step:
    """Return the first block of a product, as a product between the first two parties."""
    product = step.product
    columns = min(product.columns, Layout.of(product, key_bits).slots)
    return Step(0, 1, step.direction, Product(product.rows, product.inner, columns))


def extrapolate(parties: Parties, task: Task) -> Extrapolated:
    """Measure one block for each kind of product in a task and scale it up."""
    measured: dict[tuple[str, int, int], tuple[Step, Cost]] = {}
    costs = []
    for step in task.steps:
        kind = step.direction, step.product.rows, step.product.inner
        if kind not in measured:
            block = block_of(step, parties.key_bits)
            measured[kind] = block, measure_once_or_more(parties, Task(task.size, block.direction, (block,)))
        costs.append(_scaled(measured[kind][1], step.product, parties.key_bits))
    shapes = (block.product for block, _ in measured.values())
    source = ", ".join(f"{shape.rows} x {shape.inner} x {shape.columns}" for shape in shapes)
    return Extrapolated(reduce(add, costs), source)


def measure_once_or_more(parties: Parties, task: Task) -> Cost:
    """Return the cost of a task: this backend keeps nothing from one product to the next, so the first counts too."""
    perform = parties.rehearse(task)
    cost = perform()
    if cost.seconds < _SHORT:
        again = (perform() for _ in range(_ROUNDS - 1))
        cost = min(cost, *again, key=lambda each: each.seconds)
    return cost


def _scaled(block: Cost, product: Product, key_bits: int) -> Cost:
    layout = Layout.of(product, key_bits)
    return replace(
        block,
        seconds=block.seconds * layout.blocks,
        wire_bytes=block.wire_bytes * layout.blocks,
        statistical_bits=layout.statistical_bits,
    )
