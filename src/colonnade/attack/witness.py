"""A witness: an honest active party that kept every training upload, and reads in all of a record's what none tells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.attack.base import Attack, Strength
from colonnade.attack.decoder import Decoder, pairs_of
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.attack.registry import ATTACKS
from colonnade.data.batches import Positions
from colonnade.errors import ConfigError, DataError
from colonnade.learn.timetable import Timetable
from colonnade.strength import yes_or_no

KEPT_WHOLE = 600
"""Uploads of at most so many numbers are kept one by one; of longer ones, which would fill the memory, the mean."""


class Memory:
    """Keeps what each training record's uploads told, over all epochs, and sends honest gradients.

    It is a `Curious` of `learn.active`: `co.train(federation, curious=memory)` fills it, and learns what it would have
    learned without. The active party sees no more here than it always does, and nobody can notice that it forgets
    nothing.

    Args:
        timetable: which records come at which step; every party of the run knows it.
    """

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._kept: dict[str, Tensor] = {}
        self._epoch, self._batches = -1, dict[int, Positions]()

    def begin(self, top: nn.Module, shapes: Mapping[str, tuple[int, ...]], outputs: int) -> None:
        """Make room for uploads of these shapes."""
        records, epochs = len(self._timetable.train), self._timetable.epochs
        self._kept = {
            party: torch.zeros(records, epochs if math.prod(shape) <= KEPT_WHOLE else 1, *shape)
            for party, shape in shapes.items()
        }

    def watch(
        self, step: int, uploads: Mapping[str, Tensor], labels: Tensor, honest: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """Keep the uploads of a batch; return the gradients as they are."""
        epochs = self._timetable.epochs
        epoch, positions = self._at(step)
        rows = self._rows(positions)
        for party, upload in uploads.items():
            if len(upload) != len(rows):
                what = f"{len(upload)} uploads came for {len(rows)} records"
                raise DataError(what, where=party, remedy="let a witness watch parties that hold every record")
            told = upload.detach().float()
            # Where uploads are: the way to the host and back would take longer than to keep them.
            kept = self._kept[party] = self._kept[party].to(told.device)
            if kept.shape[1] == epochs:
                kept[rows, epoch] = told
            else:
                kept[rows, 0] += told / epochs
        return honest

    def of(self, party: str, positions: Positions) -> Tensor:
        """Return what was kept of the training records at these aligned positions: (records, epochs, ...).

        Of long uploads there is the mean alone, as if there had been one epoch.
        """
        return self._kept[party][self._rows(positions)].cpu()

    def _at(self, step: int) -> tuple[int, Positions]:
        """Return the epoch of a step, and whose records it was about."""
        epoch = step // self._timetable.steps_per_epoch
        if epoch != self._epoch:  # the order of an epoch is drawn once, not at each of its steps
            self._epoch, self._batches = epoch, dict(self._timetable.batches(epoch))
        return epoch, self._batches[step]

    def _rows(self, positions: Positions) -> Tensor:
        trained_on = self._timetable.train
        rows = np.searchsorted(trained_on, positions)
        if (rows == len(trained_on)).any() or (trained_on[rows] != positions).any():
            # The nearest record's uploads would pass for theirs.
            remedy = "ask for people who were trained on"
            raise DataError(
                "of some of these records training uploaded nothing", where="attack 'witness'", remedy=remedy
            )
        return torch.from_numpy(rows)


@ATTACKS.register("witness")
class Witness(Attack):
    """Oracle inversion of training: one who kept all uploads knows some of the training people, and wants the others.

    It is shown all training uploads of a record, (records, epochs, ...), as `Memory` keeps them. Two strong decoders
    learn from the records that it knows: one reads the mean of a record's uploads, in which fresh noise averages out,
    the other all of them as one long vector, in which what the network told early and forgot is still there. The better
    one on pairs held back guesses. Where the second axis has one entry, as for uploads too long to be kept one by one,
    the mean is all there is.

    An audit repeats the training for it. All other attacks want people who were not trained on, whom the finished model
    uploads.

    Args:
        epochs: passes of a decoder over the pairs; None takes those of the strong preset.
        mixed: compute in bfloat16 where the device gains from it.
    """

    name: ClassVar[str] = "witness"
    strength: ClassVar[Strength] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_UPLOADS}
    )

    of_training: ClassVar[bool] = True

    def __init__(self, epochs: int | None = None, mixed: bool = False) -> None:
        super().__init__()
        self.mixed = yes_or_no("witness.mixed", mixed)
        self.epochs = self._decoder(epochs, self.mixed).epochs
        self._reader: tuple[Decoder, Callable[[Tensor], Tensor]] | None = None

    @property
    def takes_repeats(self) -> bool:
        """Whether uploads must have a second axis: they must, one entry an epoch."""
        return True

    def fit(self, evidence: Evidence) -> None:
        """Learn both readings from known people's uploads, and keep the better one."""
        uploads, records = pairs_of(evidence, where="attack 'witness'")
        order = torch.randperm(len(records), generator=self.generator)
        held_back, train = order.tensor_split([max(len(order) // 10, 1)])
        found = []
        for reading in readings_of(uploads):
            decoder = self._decoder(self.epochs, self.mixed)
            decoder.seed(self.random_seed, self.device)
            known: dict[str, Tensor] = {
                Knowledge.AUXILIARY_UPLOADS: reading(uploads[train]),
                Knowledge.AUXILIARY_RECORDS: records[train],
            }
            decoder.fit(Evidence(evidence.input_shape, known))
            error = nn.functional.mse_loss(decoder.reconstruct(reading(uploads[held_back])), records[held_back])
            found.append((error.item(), decoder, reading))
        self._reader = min(found, key=lambda one: one[0])[1:]

    def reconstruct(self, uploads: Tensor) -> Tensor:
        """Return the guesses for records whose training uploads these are, on the CPU."""
        if self._reader is None:
            raise ConfigError("it has learned nothing yet", where="attack 'witness'", remedy="call fit first")
        decoder, reading = self._reader
        return decoder.reconstruct(reading(uploads))

    def describe(self) -> dict[str, Any]:
        """Return the name, the strength, the knowledge and the decoders' epochs."""
        return {**super().describe(), "epochs": self.epochs, "mixed": self.mixed}

    @staticmethod
    def _decoder(epochs: int | None, mixed: bool) -> Decoder:
        return Decoder("strong", epochs=epochs, mixed=mixed)


def readings_of(uploads: Tensor) -> list[Callable[[Tensor], Tensor]]:
    """Return the ways to read all uploads of a record, (records, uploads, ...): their mean, and one long vector.

    Fresh noise averages out in the one; in the other, what was told early and forgotten is still there.
    """
    return [_mean, _sequence] if uploads.shape[1] > 1 else [_mean]


def _mean(uploads: Tensor) -> Tensor:
    return uploads.float().mean(dim=1)


def _sequence(uploads: Tensor) -> Tensor:
    return uploads.float().flatten(1)
