"""PCAT trains pseudo-clients behind the victims' top model and leaves no trace in the run."""

import pytest
import torch
from insider_parts import (
    AUXILIARY,
    CLASSES,
    SHAPES,
    Halves,
    Table,
    evidence_of_halves,
    halves,
    model_weights,
    skill_of,
)
from torch.nn import functional

from colonnade.attack import Evidence
from colonnade.attack.pcat import Pcat
from colonnade.errors import ConfigError


def test_undefended_halves_of_digits_are_read_and_refining_helps():
    """The audit would miss what an honest server learns by watching, without knowing the bottoms.

    Measured over four seeds and two halves: .26 to .67, and .01 to .03 more with fifty steps of refining each time.
    """
    run = Halves(Pcat("smoke", late_start=20, inverse_epochs=30, refine_steps=50))
    run.train(150)
    uploads = run.uploads()
    refined = run.attack.reconstruct_all(uploads)
    run.attack.refine_steps = 0
    plain = run.attack.reconstruct_all(uploads)
    for party, strip in halves().items():
        assert skill_of(plain[party], strip) > 0.2
        assert skill_of(refined[party], strip) > skill_of(plain[party], strip)


def test_refining_brings_the_pseudo_uploads_to_the_uploads():
    """A guess is refined by what its pseudo-upload lacks; the wrong sign or a moving pseudo-client would spoil it."""
    run = Halves(Pcat("smoke", late_start=2, inverse_epochs=1))
    run.train(4)
    uploads = list(run.uploads().values())
    before = [value.clone() for value in run.attack.shadows.state_dict().values()]

    def missed(steps):
        run.attack.refine_steps = steps
        with torch.no_grad():
            made = run.attack.imitate(run.attack.strips(run.attack.guess(uploads, None)))
        return [functional.mse_loss(*pair).item() for pair in zip(made, uploads, strict=True)]

    assert all(after < start for start, after in zip(missed(0), missed(30), strict=True))
    assert all(torch.equal(*pair) for pair in zip(before, run.attack.shadows.state_dict().values(), strict=True))


def test_records_are_drawn_of_the_classes_of_the_batch():
    """Without this alignment the pseudo-clients learn from another mixture of classes than the victims."""
    attack = Halves(Pcat("smoke")).attack
    labels = torch.randint(CLASSES, (5000,), generator=torch.Generator().manual_seed(0))
    rows = attack.draw_like(labels)
    assert torch.equal(attack.auxiliary_labels[rows], labels)
    assert set(rows.tolist()) == set(range(AUXILIARY)), "every record has its turn"


def test_a_class_without_auxiliary_records_borrows_from_all():
    attack, evidence = Pcat("smoke"), {}
    for party, given in evidence_of_halves().items():
        kept = given.auxiliary_labels != 3
        held = {"auxiliary_records": given.auxiliary_records[kept], "auxiliary_labels": given.auxiliary_labels[kept]}
        evidence[party] = Evidence(given.input_shape, held)
    attack.meet(evidence)
    attack.begin(torch.nn.Linear(1, 1), SHAPES, CLASSES)
    rows = attack.draw_like(torch.tensor([3] * 4000 + [9] * 10))
    assert attack.auxiliary_labels[rows[:4000]].unique().tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert attack.auxiliary_labels[rows[4000:]].tolist() == [9] * 10


def test_pseudo_clients_wait_for_the_late_start():
    """Before the top model knows anything, serving it teaches nothing worth having."""
    attack = Halves(Pcat("smoke", late_start=2)).attack
    uploads = {party: torch.rand(6, *shape) for party, shape in SHAPES.items()}
    states = []
    for step in range(3):
        attack.watch(step, uploads, torch.arange(6), uploads)
        states.append(torch.nn.utils.parameters_to_vector(attack.shadows.parameters()).clone())
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[1], states[2])


def test_a_run_that_ends_before_the_late_start_is_said():
    """Guesses of a pseudo-client that never learned would be reported as protection."""
    with pytest.raises(ConfigError, match="ended after 3 batches"):
        Halves(Pcat("smoke", late_start=3)).train(3)


def test_the_run_is_the_same_whether_it_is_watched_or_not():
    watched, alone = Halves(Pcat("smoke", late_start=1, inverse_epochs=1)), Halves()
    honest, sent = watched.train(4)
    alone.train(4)
    assert torch.equal(watched.weights(), alone.weights())
    assert all(torch.equal(honest[party], sent[party]) for party in honest)


def test_a_table_through_the_whole_machinery_is_the_same_watched_or_not():
    table, attack = Table(), Pcat("smoke", late_start=3)
    assert torch.equal(model_weights(table.train(attack)), model_weights(table.train()))


def test_the_top_model_is_asked_and_never_taught():
    """The published port let the pseudo-loss leak into the server's step."""
    run = Halves(Pcat("smoke", late_start=0))
    run.train(1)
    uploads = {party: torch.rand(6, *shape) for party, shape in SHAPES.items()}
    state = {name: value.clone() for name, value in run.top.network.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in run.top.network.parameters()]
    run.attack.watch(1, uploads, torch.arange(6), uploads)
    assert run.top.network.training
    assert all(torch.equal(state[name], value) for name, value in run.top.network.state_dict().items())
    assert all(torch.equal(old, now.grad) for old, now in zip(gradients, run.top.network.parameters(), strict=True))


def test_the_architecture_is_not_known_to_it():
    attack = Pcat("smoke")
    attack.meet(evidence_of_halves())
    with pytest.raises(ConfigError, match="'architecture' was not granted"):
        _ = attack.evidence["left"].bottom_factory
