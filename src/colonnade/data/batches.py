"""Batches that every party draws alike from a shared seed, without a word between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.errors import ConfigError

Positions = npt.NDArray[np.int64]


def epoch_batches(positions: npt.ArrayLike, batch_size: int, seed: int, epoch: int) -> list[Positions]:
    """Return the batches of one epoch: each position once, in an order that (seed, epoch) decides.

    A last batch of a single record joins the one before it, since a batch norm cannot learn from one record.

    Example:
        >>> [batch.tolist() for batch in epoch_batches([10, 11, 12, 13, 14], 2, seed=0, epoch=0)]
        [[13, 12], [11, 10, 14]]
    """
    if seed < 0 or epoch < 0:
        raise ConfigError("seed and epoch must not be negative", where="batches")
    chosen = np.asarray(positions, dtype=np.int64)
    # Raw bits of PCG64 are the same in every numpy; what Generator.permutation makes of them is not promised to be.
    order = np.argsort(np.random.PCG64([seed, epoch]).random_raw(len(chosen)), kind="stable")
    batches = evaluation_batches(chosen[order], batch_size)
    if len(batches) > 1 and len(batches[-1]) == 1 and batch_size > 1:
        last = batches.pop()
        batches[-1] = np.concatenate([batches[-1], last])
    return batches


def evaluation_batches(positions: npt.ArrayLike, batch_size: int) -> list[Positions]:
    """Return positions in their order, cut into batches; the last may be shorter."""
    if batch_size < 1:
        raise ConfigError(f"batch size is {batch_size}", where="batches", remedy="give at least 1")
    chosen = np.asarray(positions, dtype=np.int64)
    return [chosen[start : start + batch_size] for start in range(0, len(chosen), batch_size)]
