"""SDAR reads undefended uploads and leaves no trace in the run it watches."""

import numpy as np
import pytest
import torch
from insider_parts import AUXILIARY, CLASSES, PRIVATE, SHAPES, Halves, Table, digits, evidence_of_halves, model_weights
from torch.nn import functional

from colonnade.attack.sdar import Sdar
from colonnade.errors import ConfigError
from colonnade.nets.adversarial import build_conditional_discriminator


def test_undefended_halves_of_digits_are_read():
    """The audit would miss what an honest server learns by watching. Measured means: .21 to .46 over four seeds."""
    run = Halves(Sdar("smoke", updates=2, batch_size=32))
    run.train(80)
    assert np.mean(list(run.skill().values())) > 0.25


def test_a_decoder_that_is_told_the_class_reads_too_and_asks_for_it():
    """Measured means: .23 to .44 over four seeds."""
    run = Halves(Sdar("smoke", updates=2, batch_size=32, conditional=True))
    run.train(80)
    _, labels = digits()
    assert np.mean(list(run.skill(labels[PRIVATE + AUXILIARY :]).values())) > 0.25
    with pytest.raises(ConfigError, match="needs the class of each record"):
        run.attack.reconstruct_all(run.uploads())


def test_the_run_is_the_same_whether_it_is_watched_or_not():
    """An honest but curious party that changes the run is neither; its utility numbers would be another run's.

    The top model has batch normalisation here: in training mode it would remember the simulators' uploads.
    """
    watched, alone = Halves(Sdar("smoke", batch_size=8)), Halves()
    honest, sent = watched.train(3)
    alone.train(3)
    assert torch.equal(watched.weights(), alone.weights())
    assert all(torch.equal(honest[party], sent[party]) for party in honest)


def test_a_table_through_the_whole_machinery_is_the_same_watched_or_not():
    table, attack = Table(), Sdar("smoke")
    assert torch.equal(model_weights(table.train(attack)), model_weights(table.train()))
    assert all(np.isfinite(value) for value in table.skill(attack, table.train()).values())


def test_simulators_discriminators_and_decoder_learn_and_the_top_model_does_not():
    run = Halves(Sdar("smoke", batch_size=8))
    attack = run.attack
    learners = [attack.shadows, attack.discriminators, attack.decoder]
    before = [torch.nn.utils.parameters_to_vector(network.parameters()).clone() for network in learners]
    top = torch.nn.utils.parameters_to_vector(run.top.network.parameters()).clone()
    uploads = {party: torch.rand(6, *shape) for party, shape in SHAPES.items()}
    attack.watch(0, uploads, torch.arange(6), uploads)
    after = [torch.nn.utils.parameters_to_vector(network.parameters()) for network in learners]
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert torch.equal(top, torch.nn.utils.parameters_to_vector(run.top.network.parameters()))
    assert all(parameter.grad is None for parameter in run.top.network.parameters())


def test_discriminators_learn_as_slowly_as_published():
    """A discriminator at the simulators' rate wins at once, and then teaches them nothing."""
    attack = Halves(Sdar("paper", discriminator_width=8)).attack
    rates = [found.param_groups[0]["lr"] for found in (attack._simulate, attack._spot, attack._reproduce)]
    assert rates == pytest.approx([1e-3, 2e-5, 5e-4])


def test_judging_is_the_cross_entropy_of_each_class():
    """Both sides of the game would be played for the wrong prize."""
    attack = Halves(Sdar("smoke")).attack
    attack.discriminators.eval()  # without dropout
    uploads = [torch.rand(5, *shape) for shape in SHAPES.values()]
    labels = torch.tensor([3, 1, 4, 1, 5])
    for as_victims in (True, False):
        slow = 0.0
        for discriminator, upload in zip(attack.discriminators, uploads, strict=True):
            chances = torch.sigmoid(discriminator(upload, labels))[:, 0]
            right = chances if as_victims else 1 - chances
            slow -= right.log().mean().item()
        assert attack._judged(uploads, labels, as_victims=as_victims).item() == pytest.approx(slow, rel=1e-4)


@pytest.mark.parametrize("shape", [(4, 16, 8), (4, 8, 4), (3, 1, 1), (12,)])
def test_a_discriminator_hears_the_class_and_leaves_the_global_stream_alone(shape):
    network = build_conditional_discriminator(shape, CLASSES, width=8, seed=0)
    uploads = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))  # some say next to nothing
    state = torch.get_rng_state()
    network.train()(uploads, torch.tensor([0, 1, 2]))
    assert torch.equal(torch.get_rng_state(), state)
    network.eval()
    first, second = (network(uploads, torch.full((3,), label)) for label in (0, 1))
    assert first.shape == (3, 1)
    assert not torch.allclose(first, second)


def test_dropout_is_torchs_but_for_the_stream():
    dropout = build_conditional_discriminator((4, 16, 8), CLASSES, width=8, seed=0).body[-2]
    dropped = dropout(torch.ones(400, 50))
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.6])
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(dropout.eval()(torch.ones(2, 2)), functional.dropout(torch.ones(2, 2), training=False))


def test_a_party_that_nothing_is_known_of_is_named():
    """The top model takes all uploads: without one party's simulator there is nothing to ask it."""
    attack = Sdar("smoke")
    attack.meet({"left": evidence_of_halves()["left"]})
    with pytest.raises(ConfigError, match="nothing is known of 'right'"):
        attack.begin(torch.nn.Identity(), SHAPES, CLASSES)
