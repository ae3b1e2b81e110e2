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
    """Training records in fixed blocks, so that each is encoded once; their order changes from epoch to epoch.

    Attributes:
        training: the records of each block.
        validation: records that no weight is learned from.
    """

    def __init__(self, records: int, settings: DiscoverySettings, seed: int) -> None:
        order = np.concatenate(epoch_batches(np.arange(records), records, seed, 0)) if records else np.zeros(0, int)
        held_out = int(records * settings.validation)
        self.validation, train = np.sort(order[:held_out]), order[held_out:]
        if len(train) < 2:
            raise DataError("no record is left to learn from", where="validation", remedy="lower the share held out")
        count = -(-len(train) // settings.batch_size)
        self.training: list[Positions] = [np.asarray(part) for part in np.array_split(train, count)]
        self._settings, self._seed = settings, seed

    def __len__(self) -> int:
        return len(self.training)

    def at(self, step: int) -> int:
        """Return the block of exchange number `step`."""
        epoch, place = divmod(step, len(self))
        return int(np.concatenate(epoch_batches(np.arange(len(self)), len(self), self._seed, 1 + epoch))[place])

    def minibatches(self, records: int) -> Iterator[slice]:
        """Yield the parts of a block that local updates go through, as often as the settings say."""
        size = self._settings.minibatch
        for _ in range(self._settings.local_passes):
            for start in range(0, records, size):
                yield slice(start, min(start + size, records))

    def looks(self, epochs: int) -> int:
        """Return how often the coordinator looks at the graph in so many epochs."""
        return -(-epochs * len(self) // self._settings.validate_every)
