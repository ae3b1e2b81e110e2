"""One whole iteration of discovery's encrypted work: all ordered pairs of parties, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import groupby, permutations
from operator import add
from typing import get_args

from colonnade.bench.device import cores, forget_peak_memory, peak_memory
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
    Parties,
    Size,
    make_row,
    secure_backends,
)
from colonnade.progress import Progress
from colonnade.secure import Backend, Product

_WARM_ROUNDS = 3
_BOTH = "both"


@BENCHES.register("secure-iteration")
def run(preset: str, progress: Progress) -> list[Row]:
    """A whole iteration, all ordered pairs of parties forward and backward, next to python-paillier."""
    costs, pace = measure_phe(), Pace(LONGEST[preset])
    progress.message(costs.rule())
    progress.message(
        "seconds of an iteration = 20 · n · d² · (1 - 1 / parties) / per_second, but for uneven columns; all pairs "
        "take turns on this machine, the cores shared out among them as background workers; keys and their tables are "
        f"made before; an iteration under {WORTH_REPEATING:.0f} seconds is done once, so that the columns are encoded, "
        f"then the mean of {_WARM_ROUNDS} without pause counts, so that what workers make ahead is paid for; a longer "
        "one is done only once"
    )
    backends, sizes = secure_backends(preset), SIZES[preset]
    rows = [_phe_row(size, costs) for size in sizes]
    progress.start(len(sizes) * len(backends), "secure-iteration")
    for place, backend in enumerate(backends):
        for step, row in enumerate(_rows(sizes, backend, costs, pace, progress), place * len(sizes) + 1):
            rows += [row] if row else []
            progress.advance(step)
    return rows


def _rows(
    sizes: list[Size], backend: type[Backend], costs: PheCosts, pace: Pace, progress: Progress
) -> Iterator[Row | None]:
    """Yield a row for each size, None where it is left out; parties keep their keys from size to size."""
    for count, same in groupby(sizes, key=lambda size: size.parties):
        with Parties(backend, count, workers=cores() // (count * (count - 1))) as parties:
            for pair in parties.evaluators:
                parties.warm_up(*pair)
            for size in same:
                work = sum(product.multiplications for *_, product in _products(size))
                if pace.too_long(parties.name, _BOTH, work):
                    progress.message(f"left out, too long for the preset: {parties.name}, {size}")
                    yield None
                    continue
                forget_peak_memory()
                cost = _mean(parties, size)
                pace.note(parties.name, _BOTH, work / cost.seconds)
                yield make_row(
                    size,
                    _BOTH,
                    parties.name,
                    multiplications=work,
                    cost=cost,
                    phe_seconds=sum(costs.seconds(product) for *_, product in _products(size)),
                    memory=peak_memory(),
                    key_bits=parties.key_bits,
                )


def _phe_row(size: Size, costs: PheCosts) -> Row:
    products = [product for *_, product in _products(size)]
    cost = reduce(add, (phe_cost(costs, product) for product in products))
    return make_row(
        size,
        _BOTH,
        "phe",
        multiplications=sum(product.multiplications for product in products),
        cost=cost,
        phe_seconds=cost.seconds,
        memory=None,
        key_bits=PHE_KEY_BITS,
    )


def _mean(parties: Parties, size: Size) -> Cost:
    pairs = {(holder, owner): parties.pair(size, holder, owner) for holder, owner in parties.evaluators}

    def iterate() -> Cost:
        return reduce(add, (pairs[holder, owner].run(product, way) for holder, owner, way, product in _products(size)))

    cost = iterate()
    if cost.seconds >= WORTH_REPEATING:
        return cost
    several = [iterate() for _ in range(_WARM_ROUNDS)]
    return Cost(sum(cost.seconds for cost in several) / _WARM_ROUNDS, cost.wire_bytes, cost.statistical_bits)


def _products(size: Size) -> Iterator[tuple[int, int, Direction, Product]]:
    for holder, owner in permutations(range(size.parties), 2):
        for direction in get_args(Direction):
            yield holder, owner, direction, size.product(holder, owner, direction)
