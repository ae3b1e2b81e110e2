"""If these fail, an active party that lets a run be resumed takes the noise off a party's uploads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from colonnade.defend import make_defense
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.bottom import Bottom
from colonnade.stream import Chain

LONG = 1 << 200
ROWS = torch.arange(4)


def bottom(chain):
    network = nn.Linear(3, 2)
    for parameter in network.parameters():
        nn.init.constant_(parameter, 0.5)
    defense = make_defense("gaussian", sigma=1.0)
    defense.seed(LONG)
    settings = OptimizerSettings(name="sgd", learning_rate=0.1)
    return Bottom(network, torch.ones(4, 3), defense, settings=settings, device=torch.device("cpu"), chain=chain)


def answered(made, gradient, updates=1):
    """The upload after one that was answered with this gradient; nothing is learned, so all that changes is noise."""
    made.upload(ROWS, train=True)
    made.learn(torch.full((4, 2), gradient), rate=0.0, updates=updates)
    return made.upload(ROWS, train=True)


@pytest.mark.parametrize("updates", [1, 3])
def test_noise_hangs_on_what_was_answered(updates):
    assert torch.equal(answered(bottom(None), 1.0), answered(bottom(None), 2.0)), "why we care"
    alike, again, other = (answered(bottom(Chain(LONG)), gradient, updates) for gradient in (1.0, 1.0, 2.0))
    assert torch.equal(alike, again)
    assert not torch.isclose(alike, other).any()


def test_a_resumed_bottom_uploads_what_an_undisturbed_one_does():
    undisturbed, resumed = bottom(Chain(LONG)), bottom(Chain(LONG))
    answered(undisturbed, 1.0)
    kept = {name: value.clone() for name, value in undisturbed.state_dict().items()}
    resumed.load_state_dict(kept)
    assert torch.equal(answered(resumed, 3.0), answered(undisturbed, 3.0))
