"""If these fail, a page says that nobody is recognised whom many uploads, or a whole training, name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import colonnade as co
from colonnade.attack.matcher import Matcher, identified
from colonnade.audit.attacks import bottom_of
from colonnade.audit.evidence import prepared, working_copy
from colonnade.audit.settings import Settings
from colonnade.bench.keystone.matching import fits_of_finished, fits_of_training
from colonnade.bench.keystone.reading import Crowd
from colonnade.learn.train import train

KNOWN, WANTED = np.arange(1000), np.arange(1000, 1200)
PARTIES = ["left", "right"]
MATCHER = Matcher(epochs=12)


@pytest.fixture(scope="module")
def crowd():
    """Digits under noise that leaves little of one upload."""
    digits = co.load_dataset("digits")
    federation = co.Federation.from_images(digits.images, digits.label, PARTIES)
    model = train(federation, {"name": "gaussian", "sigma": 1.0}, seed=0, epochs=5, progress=False)
    return Crowd(working_copy(model, PARTIES), federation, Settings(), seed=0)


def named(fits):
    return identified(sum(fits.values()))


def test_many_uploads_name_more_people_than_one(crowd):
    """Noise that is fresh each time, or a coin, hides a record in one upload and not in twenty."""
    stage = crowd.once(KNOWN, WANTED)
    again = partial(crowd.again, positions=WANTED, times=20)
    found = list(fits_of_finished(MATCHER, stage, crowd.often(KNOWN, WANTED, 20), again))
    assert [name for name, _ in found] == ["matcher", "matcher-repeated", "matcher-repeated"]
    one, added, averaged = (named(fits) for _, fits in found)
    assert added > one + 0.1 and averaged > one + 0.1
    again = list(crowd.again("left", WANTED, 2))
    assert all(map(torch.equal, again, crowd.again("left", WANTED, 2))), "an audit can be repeated"
    assert not torch.equal(*again) and not torch.equal(again[0], stage.uploads["left"][1])


def test_what_cancels_in_the_mean_of_a_training_is_read_in_its_sequence(crowd):
    """A network that turned its numbers around halfway would look as if it had never told anything."""
    stage = crowd.once(KNOWN, WANTED)
    clean = {
        party: tuple(
            prepared(bottom_of(stage.model, party), people.records[party]).flatten(1)
            for people in (stage.auxiliary, stage.targets)
        )
        for party in PARTIES
    }
    turned = {party: tuple(torch.stack([told, -told], 1) for told in both) for party, both in clean.items()}
    ((name, fits),) = fits_of_training(MATCHER, replace(stage, uploads=turned))
    assert name == "matcher-witness"
    assert named(fits) > 0.5
    silent = {party: tuple(torch.stack([0 * told, 0 * told], 1) for told in both) for party, both in clean.items()}
    assert named(dict(fits_of_training(MATCHER, replace(stage, uploads=silent)))["matcher-witness"]) < 0.05
