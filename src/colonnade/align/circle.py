"""The private set intersection: every list goes once round the circle, and a mask of the common records comes back.

Place 0 is the combiner. At stage s the party at place p holds the list of the party at place p - s, encrypted with
the keys of places p - s … p and shuffled by each of them. No two lists that a party holds carry the same keys, so it
cannot compare them; only the combiner gets lists under all keys, and it cannot tell which id an entry stands for,
because somebody else shuffled each of them. docs/security/alignment.md has the argument.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from colonnade.align.cipher import POINT_BYTES, Cipher, Points, as_bytes, check_points
from colonnade.align.courier import COMMON, LIST, Courier, Due
from colonnade.align.ids import Rows
from colonnade.errors import AlignmentError

Mask = npt.NDArray[np.bool_]


def find_common(
    courier: Courier, circle: Sequence[str], sizes: Mapping[str, int], cipher: Cipher, points: Points
) -> Mask:
    """Return which of this party's records all parties of `circle` hold.

    Args:
        courier: this party's messages.
        circle: the parties in the order agreed, the combiner first.
        sizes: how many records each party has.
        cipher: this party's key.
        points: this party's ids under that key, in the order of its rows.
    """
    parties, place = len(circle), circle.index(courier.name)
    following, previous = circle[(place + 1) % parties], circle[place - 1]
    shuffles = [random_permutation(len(points))]
    points = points[shuffles[0]]
    for stage in range(1, parties):
        due = _points_due(sizes[circle[place - stage]])
        points = courier.exchange(LIST, following, points, previous, due)
        points = cipher.encrypt_again(points, previous)
        shuffles.append(random_permutation(len(points)))
        points = points[shuffles[-1]]

    mask = _combine(courier, circle, sizes, points) if place == 0 else _ask_combiner(courier, circle[0], points)
    count = int(mask.sum())
    for stage in range(parties - 1, 0, -1):
        due = _mask_due(sizes[circle[place - stage + 1]])
        mask = courier.exchange(COMMON, previous, undo(shuffles[stage], mask), following, due)
        if int(mask.sum()) != count:
            raise AlignmentError(
                f"marked {int(mask.sum())} common records where {count} were marked before",
                where=following,
                remedy="align again; if it happens again, a party does not follow the protocol",
            )
    return undo(shuffles[0], mask)


def random_permutation(length: int) -> Rows:
    """Return a permutation that nobody can guess: the order of 64-bit keys from the system's secure source."""
    keys = np.frombuffer(os.urandom(8 * length), dtype=np.uint64)
    return np.argsort(keys, kind="stable")


def undo(shuffle: Rows, mask: Mask) -> Mask:
    """Return `mask` as it was before its entries were shuffled."""
    before = np.empty_like(mask)
    before[shuffle] = mask
    return before


def _combine(courier: Courier, circle: Sequence[str], sizes: Mapping[str, int], points: Points) -> Mask:
    """Compare the lists under all keys; tell each holder of a list which of its entries are in all of them."""
    lists = {courier.name: as_bytes(points)}
    for place, holder in enumerate(circle[1:], start=1):
        owner = circle[(place + 1) % len(circle)]
        received = courier.receive(holder, LIST, _points_due(sizes[owner]))
        check_points(received, holder)
        lists[holder] = as_bytes(received)
    common = set.intersection(*map(set, lists.values()))
    masks = {holder: np.array([point in common for point in held]) for holder, held in lists.items()}
    for holder in circle[1:]:
        courier.send(holder, COMMON, masks[holder])
    return masks[courier.name]


def _ask_combiner(courier: Courier, combiner: str, points: Points) -> Mask:
    courier.send(combiner, LIST, points)
    return courier.receive(combiner, COMMON, _mask_due(len(points)))


def _points_due(records: int) -> Due:
    return Due(np.dtype(np.uint8), (records, POINT_BYTES))


def _mask_due(records: int) -> Due:
    return Due(np.dtype(np.bool_), (records,))
