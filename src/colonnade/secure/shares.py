"""Additive shares modulo 2^59: parts that add up to a secret matrix, each alone uniform and worthless."""

from __future__ import annotations

from functools import reduce

import numpy as np

from colonnade.errors import DataError
from colonnade.secure.ring import RingMatrix, random_ring, wrap


def split(secret: RingMatrix, parties: int = 2) -> list[RingMatrix]:
    """Cut a matrix into one share per party; any of them but all tell nothing about it.

    >>> secret = np.array([[1, 2**58]], np.uint64)
    >>> bool((reveal(*split(secret, parties=3)) == secret).all())
    True
    """
    masks = [random_ring(secret.shape) for _ in range(parties - 1)]
    return [*masks, subtract(secret, *masks)]


def add(*shares: RingMatrix) -> RingMatrix:
    """Return the sum of shares: of several secrets at one party (their sum's share), or of one secret (the secret).

    Updating a shared weight by a shared gradient is this, done by every party on its own.
    """
    if len({share.shape for share in shares}) != 1:
        raise DataError(f"shares of different shapes do not add up: {[share.shape for share in shares]}")
    return wrap(reduce(np.add, shares))


def subtract(share: RingMatrix, *others: RingMatrix) -> RingMatrix:
    """Return a share less others."""
    return wrap(share - add(*others)) if others else share


def add_public(share: RingMatrix, public: RingMatrix, *, first: bool) -> RingMatrix:
    """Return this party's share after a public matrix was added to the secret: one party adds it, the others do not.

    Args:
        share: what this party holds.
        public: what everybody knows.
        first: whether this is the party that adds it; exactly one must be.
    """
    return add(share, public) if first else share


def reveal(*shares: RingMatrix) -> RingMatrix:
    """Return the secret that all its shares add up to."""
    return add(*shares)
