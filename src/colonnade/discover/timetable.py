"""Which records come at which exchange: the same at every party, from a shared seed and without a message."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from colonnade.data.batches import epoch_batches
from colonnade.errors import DataError
from colonnade.federation.discovery import DiscoverySettings

Positions = npt.NDArray[np.int64]
FEWEST_HELD_OUT = 20
"""Fewer records judge nobody."""


class Blocks:
    """All records in fixed blocks, so that each is encoded once; their order changes from epoch to epoch.

    Attributes:
        rows: the records of each block.
        held_out: the same for records that nothing is learned from; their numbers follow those of `rows`.
    """

    def __init__(self, records: int, settings: DiscoverySettings, seed: int) -> None:
        if records < 2:
            raise DataError("there is nothing to learn from one record", where="records", told=True)
        order, held = _shuffled(records, seed, 0), held_out_of(records, settings)
        self.rows = _parts(order[held:], settings.batch_size)
        self.held_out = _parts(order[:held], settings.batch_size)
        self._settings, self._seed = settings, seed

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def learned(self) -> int:
        """Records that something is learned from."""
        return sum(map(len, self.rows))

    def at(self, exchange: int) -> int:
        """Return the block of exchange number `exchange`."""
        epoch, place = divmod(exchange, len(self))
        return int(_shuffled(len(self), self._seed, 1 + epoch)[place])

    def minibatches(self, exchange: int, records: int) -> Iterator[Positions]:
        """Yield the parts of a block that local updates go through, in an order of this exchange's own."""
        size, passes = self._settings.minibatch, self._settings.local_passes
        for each in range(passes):
            order = _shuffled(records, self._seed, (1 << 40) + exchange * passes + each)
            yield from np.array_split(order, max(records // size, 1))

    def looks(self, epochs: int) -> int:
        """Return how often the coordinator looks at the graph in so many epochs."""
        return -(-epochs * len(self) // self._settings.validate_every)

    def rate(self, exchange: int) -> float:
        """Return the encoders' learning rate: it rises in the first exchanges, from a tenth."""
        rising = self._settings.warm_up * self._settings.epochs * len(self)
        share = min(exchange / rising, 1.0) if rising else 1.0
        return self._settings.learning_rate * (0.1 + 0.9 * share)


def held_out_of(records: int, settings: DiscoverySettings) -> int:
    """Return how many of so many records nothing is learned from."""
    held = round(settings.held_out * records)
    if settings.held_out and held < FEWEST_HELD_OUT:
        what = f"{held} of {records} records are held out, and at least {FEWEST_HELD_OUT} must judge contributions"
        raise DataError(what, where="held_out", remedy="hold a larger share out, or none", told=True)
    return held


def _parts(rows: Positions, size: int) -> list[Positions]:
    count = -(-len(rows) // size)
    return [np.sort(part) for part in np.array_split(rows, count)] if count else []


def _shuffled(count: int, seed: int, number: int) -> Positions:
    return np.concatenate(epoch_batches(np.arange(count), count, seed, number))
