"""Inner products of one party's plain rows with another's secret rows, row by row, in shares.

As many as fit are the diagonal of one product of matrices (`Product.diagonal`). What else such a product contains is
masked like the rest, and nobody keeps a share of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from colonnade.secure.backend import Product
from colonnade.secure.dispatch import Line
from colonnade.secure.ring import PlainMatrix, RingMatrix


def inner_products_as_holder(line: Line, rows: PlainMatrix) -> RingMatrix:
    """Return this party's shares, one for each row; the peer calls `inner_products_as_owner` with as many rows."""
    groups = _groups(line, rows)
    prepared = [line.evaluator.prepare(group, memory=0) for group in groups]
    return np.concatenate(line.answer_all(prepared, groups.shape[1], diagonal=True)).ravel()[: len(rows)]


def inner_products_as_owner(line: Line, rows: RingMatrix) -> RingMatrix:
    """Return this party's shares, one for each row."""
    groups = _groups(line, rows)
    product = Product(groups.shape[1], rows.shape[1], groups.shape[1], diagonal=True)
    line.send_secrets([np.ascontiguousarray(group.T) for group in groups], product)
    return np.concatenate(line.receive_shares(len(groups), product)).ravel()[: len(rows)]


def _groups(line: Line, rows: npt.NDArray[np.int64 | np.uint64]) -> npt.NDArray[np.int64 | np.uint64]:
    """Return rows as (groups, rows of a group, length), the last group filled up with zeros."""
    size = min(line.backend.diagonal_group(rows.shape[1]), len(rows))
    filled = np.pad(rows, ((0, -len(rows) % size), (0, 0)))
    return filled.reshape(-1, size, rows.shape[1])
