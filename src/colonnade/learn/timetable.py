"""Which records come at which step: the same at every party, from a shared seed and without a message."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.data.batches import Positions, epoch_batches, evaluation_batches
from colonnade.data.split import TEST, TRAIN, VALIDATION
from colonnade.errors import DataError

EVALUATION_BATCH = 1024  # no gradient is kept, so evaluation can take more records at once


class Timetable:
    """Batches of aligned positions, by epoch and step.

    Args:
        split: for every aligned position 0 (train), 1 (validation) or 2 (test).
        batch_size: records per step.
        epochs: how often every training record comes up.
        seed: shared by all parties.
    """

    def __init__(self, split: npt.NDArray[np.uint8], batch_size: int, epochs: int, seed: int) -> None:
        self.train, self.validation, self.test = (np.flatnonzero(split == part) for part in (TRAIN, VALIDATION, TEST))
        if len(self.train) == 0:
            raise DataError("no record is left to train on", where="split", remedy="raise the training share")
        self.epochs = epochs
        self._batch_size, self._seed = batch_size, seed
        self.steps_per_epoch = len(self._epoch(0))
        self.steps = self.steps_per_epoch * epochs

    def batches(self, epoch: int, start: int = 0) -> list[tuple[int, Positions]]:
        """Return (step, positions) of `epoch`, from step `start` on."""
        first = epoch * self.steps_per_epoch
        return [(first + i, batch) for i, batch in enumerate(self._epoch(epoch)) if first + i >= start]

    def validation_batches(self, epoch: int) -> list[tuple[int, Positions]]:
        """Return (message step, positions) of the evaluation that ends `epoch`."""
        batches = evaluation_batches(self.validation, EVALUATION_BATCH)
        return [(epoch * len(batches) + i, batch) for i, batch in enumerate(batches)]

    def test_batches(self) -> list[tuple[int, Positions]]:
        """Return (message step, positions) of the last evaluation."""
        return list(enumerate(evaluation_batches(self.test, EVALUATION_BATCH)))

    def _epoch(self, epoch: int) -> list[Positions]:
        return epoch_batches(self.train, self._batch_size, self._seed, epoch)
