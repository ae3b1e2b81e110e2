"""The cipher commutes and keeps order; bytes that are no points are refused by the name of their sender."""

from __future__ import annotations

import numpy as np
import pytest

from colonnade.align import cipher as module
from colonnade.align.cipher import POINT_BYTES, Cipher, as_bytes
from colonnade.errors import AlignmentError

IDS = [f"string:{number}".encode() for number in range(40)]


def test_two_keys_commute_and_order_is_kept():
    """Alignment stands on this property of the library; a new version that sorts or salts would break it."""
    first, second = Cipher(), Cipher()
    there = second.encrypt_again(first.encrypt(IDS), "first")
    back = first.encrypt_again(second.encrypt(IDS), "second")
    assert there.shape == (len(IDS), POINT_BYTES)
    np.testing.assert_array_equal(there, back)


def test_every_cipher_has_a_key_of_its_own():
    """A repeated key would let a party recognise ids from an earlier alignment."""
    assert not set(as_bytes(Cipher().encrypt(IDS))) & set(as_bytes(Cipher().encrypt(IDS)))


def test_batches_on_several_threads_equal_one_batch(monkeypatch):
    cipher = Cipher()
    whole = cipher.encrypt(IDS)
    again = cipher.encrypt_again(whole, "peer")
    monkeypatch.setattr(module, "_BATCH", 7)
    np.testing.assert_array_equal(cipher.encrypt(IDS), whole)
    np.testing.assert_array_equal(cipher.encrypt_again(whole, "peer"), again)


def faulty(change):
    points = Cipher().encrypt(IDS).copy()
    return change(points)


def off_the_curve(points):
    points[3] = [2] + [255] * 32
    return points


def wrong_sign(points):
    points[3, 0] = 4
    return points


def infinity(points):
    points[3] = 0
    return points


def repeated(points):
    points[3] = points[4]
    return points


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (off_the_curve, "no points of the curve"),
        (wrong_sign, "no points of the curve"),
        (infinity, "no points of the curve"),
        (repeated, "the same point twice"),
        (lambda points: points[:, :32], "instead of points"),
        (lambda points: points.astype(np.int64), "instead of points"),
        (lambda points: points.ravel(), "instead of points"),
    ],
)
def test_what_is_no_list_of_points_is_refused_by_sender(change, reason):
    with pytest.raises(AlignmentError, match=f"lab: .*{reason}"):
        Cipher().encrypt_again(faulty(change), "lab")
