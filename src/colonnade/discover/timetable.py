"""Which records come at which exchange: the same at every party, from a shared seed and without a message."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from colonnade.data.batches import epoch_batches
from colonnade.errors import DataError
from colonnade.federation.discovery import DiscoverySettings

Positions = npt.NDArray[np.int64]


class Blocks:
    """All records in fixed blocks, so that each is encoded once; their order changes from epoch to epoch.

    Attributes:
        rows: the records of each block.
    """

    def __init__(self, records: int, settings: DiscoverySettings, seed: int) -> None:
        if records < 2:
            raise DataError("there is nothing to learn from one record", where="records")
        count = -(-records // settings.batch_size)
        order = _shuffled(records, seed, 0)
        self.rows: list[Positions] = [np.sort(part) for part in np.array_split(order, count)]
        self._settings, self._seed = settings, seed

    def __len__(self) -> int:
        return len(self.rows)

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


def _shuffled(count: int, seed: int, number: int) -> Positions:
    return np.concatenate(epoch_batches(np.arange(count), count, seed, number))
