"""How much an edge must be worth to stay in the graph; nothing here looks at the truth."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

STRONG = 0.05
"""Nats a record from which a variable's strongest cause tells what causes are worth in this data set."""
SHARE, SHARE_OF_ROOT = 0.035, 0.12
"""Of what strong causes are worth. Chosen on fresh synthetic graphs with four kinds of noise."""


def least_worth(worth: npt.NDArray[np.float64], weights: int, records: int) -> float:
    """Return what an edge must be worth, in nats a record.

    It pays for its weights as in the Bayesian information criterion, and is not small beside the strongest causes of
    this data set's variables. Where these are worth many nats, their root counts: a share of them would ask too much.

    Args:
        worth: of each edge, causes in rows.
        weights: that an edge has.
        records: that they were learned from.

    >>> least_worth(np.array([[0.0, 2.0], [0.0, 0.0]]), weights=5, records=1000)
    0.07
    """
    price = weights * math.log(records) / (2 * records)
    strongest = worth.max(axis=0)
    strongest = strongest[strongest > STRONG]
    if not len(strongest):
        return price
    median = float(np.median(strongest))
    return max(price, min(SHARE * median, SHARE_OF_ROOT * math.sqrt(median)))
