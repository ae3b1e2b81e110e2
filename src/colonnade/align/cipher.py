"""A commutative cipher: ids hashed to points of a curve, points raised to secret keys, in any order of the keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import private_set_intersection.python as psi

from colonnade.errors import AlignmentError

POINT_BYTES = 33
"""A point of P-256, compressed: one byte for the sign, 32 for the coordinate."""

Points = npt.NDArray[np.uint8]

_BATCH = 2048  # points that one thread encrypts at a time: about 0.2 s
_SIGNS = (2, 3)


class Cipher:
    """One party's key for one alignment. It is drawn here, lives in memory only and is never shown.

    openmined-psi does the curve arithmetic (ECDH over P-256, hashing ids to points). Its objects are not safe to
    share between threads, so every batch makes its own; it lets go of the interpreter lock while it computes, so
    batches run on all cores and heartbeats go on.
    """

    def __init__(self) -> None:
        self._key: bytes = psi.client.CreateWithNewKey(True).GetPrivateKeyBytes()

    def encrypt(self, ids: Sequence[bytes]) -> Points:
        """Return hash(id) ** key for each id, in order."""
        return _in_batches(self._encrypt_batch, ids)

    def encrypt_again(self, points: Points, sender: str) -> Points:
        """Return point ** key for each point that `sender` sent, in order; refuse what is no list of points."""
        check_points(points, sender)
        try:
            return _in_batches(self._encrypt_batch_again, as_bytes(points))
        except RuntimeError:  # what the library raises for bytes that are not on the curve
            raise _refused("sent bytes that are no points of the curve", sender) from None

    def _encrypt_batch(self, ids: Sequence[bytes]) -> bytes:
        request = psi.client.CreateFromKey(self._key, True).CreateRequest(ids)
        return b"".join(request.encrypted_elements)

    def _encrypt_batch_again(self, elements: Sequence[bytes]) -> bytes:
        request = psi.Request(reveal_intersection=True, encrypted_elements=elements)
        response = psi.server.CreateFromKey(self._key, True).ProcessRequest(request)
        return b"".join(response.encrypted_elements)


def check_points(points: npt.NDArray[Any], sender: str) -> None:
    """Raise an `AlignmentError` that names `sender` unless `points` are distinct compressed points by their look."""
    if points.dtype != np.uint8 or points.ndim != 2 or points.shape[1] != POINT_BYTES:
        raise _refused(f"sent a list of type {points.dtype} and shape {points.shape} instead of points", sender)
    if not np.isin(points[:, 0], _SIGNS).all():
        raise _refused("sent bytes that are no points of the curve", sender)
    if len(set(as_bytes(points))) != len(points):
        raise _refused("sent the same point twice", sender)


def as_bytes(points: Points) -> list[bytes]:
    """Return each point as a bytes object, which can be hashed and compared."""
    packed = points.tobytes()
    return [packed[at : at + POINT_BYTES] for at in range(0, len(packed), POINT_BYTES)]


def _in_batches(work: Callable[[Sequence[bytes]], bytes], items: Sequence[bytes]) -> Points:
    batches = [items[at : at + _BATCH] for at in range(0, len(items), _BATCH)]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        packed = b"".join(pool.map(work, batches))
    return np.frombuffer(packed, dtype=np.uint8).reshape(len(items), POINT_BYTES)


def _refused(what: str, sender: str) -> AlignmentError:
    return AlignmentError(what, where=sender, remedy="run the same version of Colonnade at every party")
