"""UnSplit class by class: if these fail, pictures of one class are scored as another's, or a blind guess as a find."""

from types import SimpleNamespace

import numpy as np
import pytest

from colonnade.audit.held_out import people_at
from colonnade.bench.images.classes import CLASSES, labels_of, scored, some_of_each
from colonnade.bench.images.sets import STRIPS
from colonnade.federation.federation import Federation


@pytest.fixture
def federation():
    """Pictures whose brightness tells their class, and whose left half is a little brighter."""
    labels = np.arange(40) % 4
    pictures = np.broadcast_to(labels[:, None, None, None] * 0.1, (40, 3, 6, 4)).astype(np.float32).copy()
    pictures[..., :2] += 0.02
    split = np.where(np.arange(40) < 30, "train", "test")
    return Federation.from_images(pictures, labels, list(STRIPS), split=split)


def test_each_class_is_attacked_by_itself(federation):
    labels = labels_of(federation)
    drawn = some_of_each(labels, 3, 5)
    assert [len(places) for places in drawn] == [5, 5, 5]
    for kind, places in enumerate(drawn):
        held = people_at(federation, STRIPS, places)
        left, right = (np.asarray(held.records[half].images, dtype=float) for half in STRIPS)
        assert left.shape == right.shape == (5, 3, 6, 2)
        np.testing.assert_allclose(right, kind * 0.1, atol=1e-6)
        np.testing.assert_allclose(left, kind * 0.1 + 0.02, atol=1e-6)


def test_all_defenses_meet_the_same_pictures(federation):
    labels = labels_of(federation)
    first, second = (np.concatenate(some_of_each(labels, 4, 3)) for _ in range(2))
    assert np.array_equal(first, second) and len(first) == 12
    everything = some_of_each(labels, 4, 1000)
    assert sorted(np.concatenate(everything)) == list(range(40)), "no more than there are"


def test_a_find_is_a_small_error_and_the_mean_picture_is_scored_beside_it():
    true = np.stack([np.full((3, 4, 4), value) for value in (0.2, 0.9)])
    guesses = true + np.array([0.05, 0.5])[:, None, None, None]
    found = scored(SimpleNamespace(guesses=guesses, truth=SimpleNamespace(records=true, blind=np.full((3, 4, 4), 0.4))))
    assert found == pytest.approx({"asr": 0.5, "mse": (0.0025 + 0.25) / 2, "blind_asr": 0.5, "blind_mse": 0.145})


def test_the_published_number_of_classes():
    assert CLASSES["default"] == CLASSES["paper"] == 10
