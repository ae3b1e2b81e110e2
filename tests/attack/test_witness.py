"""If these fail, an active party that keeps all training uploads looks harmless, or harmful where it learns nothing."""

import numpy as np
import pytest
import torch
from insider_parts import NETWORK, Table, model_weights
from sklearn.datasets import load_digits

import colonnade as co
from colonnade.attack import Evidence
from colonnade.attack.witness import KEPT_WHOLE, Memory, Witness
from colonnade.errors import ConfigError, DataError
from colonnade.learn.timetable import Timetable
from colonnade.measure.reconstruct import skill, squared_error

EPOCHS, RECORDS = 8, 700


def digits():
    images = torch.from_numpy(load_digits().images[:RECORDS].astype(np.float32)).flatten(1) / 16
    return images[torch.randperm(RECORDS, generator=torch.Generator().manual_seed(0))]


def narrow(images):
    """A frozen bottom: twelve numbers of a record."""
    weights = torch.randn(images.shape[1], 12, generator=torch.Generator().manual_seed(1))
    return (images - images.mean(0)) @ weights / 8


def seen(uploads, epochs):
    """Let a memory watch training uploads, `uploads(epoch)` of all records each time."""
    timetable = Timetable(np.zeros(RECORDS, np.uint8), 64, epochs, seed=0)
    memory = Memory(timetable)
    memory.begin(torch.nn.Identity(), {"left": tuple(uploads(0).shape[1:])}, 2)
    for epoch in range(epochs):
        told = uploads(epoch)
        for step, positions in timetable.batches(epoch):
            honest = {"left": torch.ones(1)}
            assert memory.watch(step, {"left": told[positions]}, torch.zeros(len(positions)), honest) is honest
    return memory.of("left", np.arange(RECORDS))


def read(kept, records):
    """Return the skill of a witness who knows all but two hundred."""
    held = {"uploads": kept[:200], "auxiliary_uploads": kept[200:], "auxiliary_records": records[200:]}
    attack = Witness(epochs=25)
    attack.fit(Evidence((records.shape[1],), held))
    error = squared_error(attack.reconstruct(kept[:200]), records[:200]).mean()
    return skill(error, squared_error(records[200:].mean(0), records[:200]).mean())


def noisy(epoch):
    told = narrow(digits())
    return told + 1.5 * told.std() * torch.randn(told.shape, generator=torch.Generator().manual_seed(100 + epoch))


def test_fresh_noise_averages_out_over_training():
    """An audit of single uploads would call noise protection that whole training takes off."""
    once, always = (read(seen(noisy, epochs), digits()) for epochs in (1, EPOCHS))
    assert once < 0.3
    assert always > once + 0.15


def test_the_same_upload_again_and_again_tells_nothing_more():
    """Otherwise the attack is stronger for a reason that has nothing to do with many uploads."""
    once, always = (read(seen(lambda epoch: narrow(digits()), epochs), digits()) for epochs in (1, EPOCHS))
    assert once > 0.4
    assert always == pytest.approx(once, abs=0.03)


def test_what_was_told_once_and_forgotten_is_still_read():
    """The mean of all uploads would hide what a network uploads only early, so all of them are read as well."""

    def turning(epoch):
        return narrow(digits()) * (1.0 if epoch % 2 else -1.0)

    kept = seen(turning, 2)
    assert kept.mean(1).abs().max() < 1e-6
    assert read(kept, digits()) > 0.4


def test_long_uploads_are_kept_as_their_mean():
    """Every epoch of sixteen thousand numbers a record would fill the memory."""
    wide = torch.randn(EPOCHS, RECORDS, 2, KEPT_WHOLE, generator=torch.Generator().manual_seed(0))
    kept = seen(lambda epoch: wide[epoch], EPOCHS)
    assert kept.shape == (RECORDS, 1, 2, KEPT_WHOLE)
    assert torch.allclose(kept[:, 0], wide.mean(0), atol=1e-5)


def test_watching_a_training_changes_nothing_and_keeps_each_record_under_its_own_place():
    table = Table()
    split = np.where(np.arange(table.records) < table.private, 0, 2).astype(np.uint8)
    memory = Memory(Timetable(split, 64, 2, seed=0))
    settings = {"network": NETWORK, "epochs": 2, "batch_size": 64, "seed": 0, "progress": False}
    settings["optimizer"] = {"learning_rate": 1e-12}  # a bottom that stands still uploads the same each time
    settings["split"] = {"train": 0.9, "validation": 0.0, "test": 0.1}
    model = co.train(table.federation, curious=memory, **settings)
    assert torch.equal(model_weights(model), model_weights(co.train(table.federation, **settings)))
    people = np.array([5, 1599, 77])
    for party in table.columns:
        told = model.parts[party].bottom.upload(table.federation.records[party].take(people))
        kept = memory.of(party, people)
        assert kept.shape[:2] == (3, 2)
        assert torch.allclose(kept, told[:, None].expand_as(kept), atol=1e-5)


def test_nobodys_uploads_pass_for_those_of_who_was_not_trained_on():
    """A neighbour's would, and the witness would be scored on guesses about somebody else."""
    split = np.array([0, 1, 0, 2] * 20, np.uint8)
    timetable = Timetable(split, 8, 1, seed=0)
    memory = Memory(timetable)
    memory.begin(torch.nn.Identity(), {"left": (3,)}, 2)
    for step, positions in timetable.batches(0):
        memory.watch(
            step, {"left": torch.rand(len(positions), 3)}, torch.zeros(len(positions)), {"left": torch.ones(1)}
        )
    assert len(memory.of("left", timetable.train)) == len(timetable.train)
    for stranger in (1, len(split) + 5):
        with pytest.raises(DataError, match="training uploaded nothing"):
            memory.of("left", np.array([0, stranger]))


def test_records_that_a_party_lacks_are_refused():
    timetable = Timetable(np.zeros(8, np.uint8), 4, 1, seed=0)
    memory = Memory(timetable)
    memory.begin(torch.nn.Identity(), {"left": (2,)}, 2)
    with pytest.raises(DataError, match="left: 3 uploads came for 4 records"):
        memory.watch(0, {"left": torch.zeros(3, 2)}, torch.zeros(4), {})


def test_a_witness_that_has_learned_nothing_says_so():
    with pytest.raises(ConfigError, match="learned nothing"):
        Witness().reconstruct(torch.zeros(2, 1, 3))


def test_what_is_neither_yes_nor_no_is_refused():
    with pytest.raises(ConfigError, match=r"witness\.mixed: 'nope' is not allowed"):
        Witness(mixed="nope")
