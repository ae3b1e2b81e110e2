"""FSHA hijacks the uploads, with neither labels nor architecture."""

import numpy as np
import pytest
import torch
from insider_parts import CLASSES, SHAPES, Halves, Table, evidence_of_halves, model_weights

from colonnade.attack.fsha import Fsha
from colonnade.errors import ConfigError
from colonnade.nets.adversarial import build_critic, build_pilot


def test_columns_of_two_parties_are_read():
    """The audit would call uploads safe from who has no labels.

    Measured over four seeds and two parties: .61 to .92, and once -.98, where the victim had settled on a mirror image.
    """
    table, attack = Table(), Fsha("smoke", critic_steps=3, critic_width=64)
    model = table.train(attack, epochs=20, seed=2)
    assert min(table.skill(attack, model).values()) > 0.5


def test_labels_and_architecture_stay_out_of_its_reach():
    """The weakest attacker of the table would be stronger than it says."""
    attack = Fsha("smoke")
    attack.meet(evidence_of_halves())
    for thing in ("auxiliary_labels", "labels", "bottom_factory"):
        with pytest.raises(ConfigError, match="was not granted"):
            getattr(attack.evidence["left"], thing)
    attack.begin(torch.nn.Identity(), SHAPES, 1)
    assert not hasattr(attack, "auxiliary_labels")


def test_the_labels_of_the_batch_do_not_matter():
    def answers(labels):
        attack = Halves(Fsha("smoke", critic_width=4)).attack
        uploads = {party: torch.ones(6, *shape) for party, shape in SHAPES.items()}
        return attack.watch(0, uploads, labels, uploads)["right"]

    assert torch.equal(answers(torch.zeros(6, dtype=torch.long)), answers(torch.arange(6)))


def test_gradients_are_those_of_the_critics_verdict_and_not_the_tasks():
    run = Halves(Fsha("smoke", critic_width=4))
    honest, sent = run.train(2)
    uploads = {party: torch.rand(3, *shape) for party, shape in SHAPES.items()}
    answered = run.attack.watch(2, uploads, torch.zeros(3, dtype=torch.long), honest)
    for number, party in enumerate(SHAPES):
        assert not torch.equal(honest[party], sent[party])
        critic, step = run.attack.critics[number].double(), 1e-4
        upload = uploads[party].double()
        nudge = torch.zeros_like(upload)
        nudge[1, 2, 3, 1] = step
        slope = (critic(upload + nudge).mean() - critic(upload - nudge).mean()) / (2 * step)
        assert answered[party][1, 2, 3, 1].item() == pytest.approx(slope.item(), rel=1e-3, abs=1e-8)


@pytest.mark.parametrize(("preset", "shape"), [("smoke", (3, 4, 2)), ("paper", (3, 4, 2)), ("smoke", (6,))])
def test_the_penalty_is_the_distance_of_the_slope_from_one(preset, shape):
    """A critic without its leash runs away, and the victim with it. Held against differences, number by number."""
    attack = Fsha(preset)
    critic = build_critic(shape, width=4, seed=0).double()
    upload, pilot = torch.rand(2, 2, *shape, dtype=torch.double)
    attack.seed(7)
    found = attack._gradient_penalty(critic, upload, pilot).item()
    share = torch.rand(2, *[1] * len(shape), generator=torch.Generator().manual_seed(7)).double()
    between, step = upload + share * (pilot - upload), 1e-6
    slopes = torch.zeros_like(between)
    for place in np.ndindex(*between.shape):
        nudge = torch.zeros_like(between)
        nudge[place] = step
        slopes[place] = (critic(between + nudge).sum() - critic(between - nudge).sum()) / (2 * step)
    groups = slopes.reshape(-1, 8) if preset == "paper" else slopes.reshape(2, -1)
    assert found == pytest.approx(((groups.norm(dim=1) - 1) ** 2).mean().item(), rel=1e-4)


def test_a_pilot_takes_the_sign_and_the_scale_of_the_first_uploads():
    """Uploads behind a ReLU are never negative: driven at a pilot that is, the victim could not follow."""
    attack = Halves(Fsha("smoke", critic_width=4)).attack
    uploads = {"left": torch.rand(6, *SHAPES["left"]), "right": 30 * torch.randn(6, *SHAPES["right"])}
    attack.watch(0, uploads, torch.arange(6), uploads)
    with torch.no_grad():
        left, right = attack.imitate(attack.strips(attack.auxiliary[:200]))
    assert left.min() >= 0
    assert right.min() < 0
    assert right.std().item() == pytest.approx(uploads["right"].std().item(), rel=0.2)


@pytest.mark.parametrize(
    ("record", "upload"),
    [
        *[((3, 32, 16), (128, 16, 8)), ((1, 28, 14), (8, 12, 5)), ((1, 8, 4), (16, 8, 4)), ((3, 8, 8), (5, 1, 1))],
        *[((3, 8, 8), (7,)), ((5,), (7,)), ((5,), (2, 3, 3)), ((1, 4, 4), (2, 8, 8))],
    ],
)
@pytest.mark.parametrize("linear", [True, False])
def test_a_pilot_makes_uploads_of_any_shape(record, upload, linear):
    pilot = build_pilot(record, upload, linear=linear, width=4, seed=0)
    assert pilot(torch.rand(2, *record)).shape == (2, *upload)


def test_a_linear_pilot_has_no_activation_before_its_last_layer():
    pilot = build_pilot((1, 16, 8), (4, 4, 2), linear=True, width=4, seed=0).eval()
    first, second = torch.rand(2, 3, 1, 16, 8)
    middle = pilot((first + second) / 2)
    assert torch.allclose(middle, (pilot(first) + pilot(second)) / 2, atol=1e-6)


def test_the_bottoms_no_longer_learn_the_task():
    table = Table()
    assert not torch.equal(model_weights(table.train(Fsha("smoke"))), model_weights(table.train()))


def test_a_batch_of_one_record_passes_by():
    """The last batch of an epoch may hold a single record, which can't be normalised: the run would end there."""
    attack = Halves(Fsha("smoke", critic_width=4)).attack
    uploads = {party: torch.rand(1, *shape) for party, shape in SHAPES.items()}
    assert attack.watch(0, uploads, torch.zeros(1, dtype=torch.long), uploads) is uploads


def test_a_regression_can_be_attacked_since_no_class_is_needed():
    attack = Fsha("smoke", critic_width=4)
    attack.meet(evidence_of_halves())
    attack.begin(torch.nn.Identity(), SHAPES, 1)
    uploads = {party: torch.rand(3, *shape) for party, shape in SHAPES.items()}
    sent = attack.watch(0, uploads, torch.rand(3), uploads)
    assert set(sent) == set(SHAPES)
    assert CLASSES not in {sent[party].shape[1] for party in sent}
