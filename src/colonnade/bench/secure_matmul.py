"""How many multiplications a second one encrypted product does, end to end, next to python-paillier."""

from __future__ import annotations

from typing import get_args

from colonnade.bench.device import forget_peak_memory, peak_memory
from colonnade.bench.phe_baseline import KEY_BITS as PHE_KEY_BITS
from colonnade.bench.phe_baseline import PheCosts, measure_phe, phe_cost
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.secure_work import (
    LONGEST,
    SIZES,
    WORTH_REPEATING,
    Cost,
    Direction,
    Pace,
    Pair,
    Parties,
    Size,
    make_row,
    secure_backends,
)
from colonnade.progress import Progress
from colonnade.secure import Product

_WARM_ROUNDS = 3


@BENCHES.register("secure-matmul")
def run(preset: str, progress: Progress) -> list[Row]:
    """One encrypted product between two parties, end to end: multiplications per second next to python-paillier."""
    costs, pace = measure_phe(), Pace(LONGEST[preset])
    progress.message(costs.rule())
    progress.message(
        "end to end: encrypt, load, multiply, re-randomise and mask, decrypt, one after the other in one process, no "
        "background workers, but a library may use all cores (phe uses one); keys and their tables are made before; a "
        f"product under {WORTH_REPEATING:.0f} seconds is done once, so that the columns are encoded, then the best of "
        f"{_WARM_ROUNDS} counts; a longer one is done only once"
    )
    backends, sizes, rows = secure_backends(preset), SIZES[preset], []
    progress.start(len(sizes) * len(backends), "secure-matmul")
    for size in sizes:
        rows += [_phe_row(size, direction, costs) for direction in get_args(Direction)]
    for place, backend in enumerate(backends):
        with Parties(backend, 2) as parties:
            parties.warm_up(0, 1)
            for step, size in enumerate(sizes, place * len(sizes) + 1):
                for direction in get_args(Direction):
                    rows += _measured(size, direction, parties, costs=costs, pace=pace, progress=progress)
                progress.advance(step, n=size.n, d=size.d, parties=size.parties)
    return rows


def _phe_row(size: Size, direction: Direction, costs: PheCosts) -> Row:
    product = size.product(0, 1, direction)
    cost = phe_cost(costs, product)
    return make_row(
        size,
        direction,
        "phe",
        multiplications=product.multiplications,
        cost=cost,
        phe_seconds=cost.seconds,
        memory=None,
        key_bits=PHE_KEY_BITS,
    )


def _measured(
    size: Size, direction: Direction, parties: Parties, *, costs: PheCosts, pace: Pace, progress: Progress
) -> list[Row]:
    product = size.product(0, 1, direction)
    if pace.too_long(parties.name, direction, product.multiplications):
        progress.message(f"left out, too long for the preset: {parties.name}, {direction}, {size}")
        return []
    forget_peak_memory()
    cost = _best(parties.pair(size, 0, 1), product, direction)
    pace.note(parties.name, direction, product.multiplications / cost.seconds)
    return [
        make_row(
            size,
            direction,
            parties.name,
            multiplications=product.multiplications,
            cost=cost,
            phe_seconds=costs.seconds(product),
            memory=peak_memory(),
            key_bits=parties.key_bits,
        )
    ]


def _best(pair: Pair, product: Product, direction: Direction) -> Cost:
    cost = pair.run(product, direction)
    if cost.seconds >= WORTH_REPEATING:
        return cost
    return min((pair.run(product, direction) for _ in range(_WARM_ROUNDS)), key=lambda cost: cost.seconds)
