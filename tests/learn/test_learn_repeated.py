"""If these fail, an attack on a GPU learns something else than on a processor, and its audit says nothing."""

import copy

import pytest
import torch
from torch import nn

from colonnade.federation.task import OptimizerSettings
from colonnade.learn.optimize import Optimizer
from colonnade.learn.repeated import RepeatedStep

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
RATES = [0.01, 0.02, 0.005, 0.01, 0.0, 0.03]


def network(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)).to(device)


def batches(device):
    """The third is a smaller one, as at the end of an epoch: no recording fits it."""
    drawn = torch.Generator().manual_seed(1)
    sizes = [32, 32, 7, 32, 32, 32]
    return [tuple(torch.randn(size, wide, generator=drawn).to(device) for wide in (6, 2)) for size in sizes]


def loss_of(learned):
    return lambda given, wanted: nn.functional.mse_loss(learned(given), wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name, decay", [("adam", 0.0), ("adamw", 0.1)])
def test_it_learns_what_plain_steps_learn(device, name, decay):
    settings = OptimizerSettings(name=name, learning_rate=0.01, weight_decay=decay)
    plain = network(device)
    repeated = copy.deepcopy(plain)
    optimizer, take = Optimizer(plain.parameters(), settings), RepeatedStep(repeated, loss_of(repeated), settings)
    for batch, rate in zip(batches(device), RATES, strict=True):
        optimizer.zero_grad()
        loss_of(plain)(*batch).backward()
        optimizer.step(rate)
        take(batch, rate)
    for (what, one), other in zip(plain.state_dict().items(), repeated.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, msg=lambda said, what=what: f"{what}: {said}")


def test_it_moves_the_weights():
    learned = network("cpu")
    before = copy.deepcopy(learned.state_dict())
    RepeatedStep(learned, loss_of(learned), OptimizerSettings(name="adam"))(batches("cpu")[0], 0.01)
    assert not torch.equal(before["0.weight"], learned.state_dict()["0.weight"])


def test_a_step_that_it_does_not_know_is_refused():
    """It would be one of AdamW otherwise, and nobody would be told."""
    learned = network("cpu")
    with pytest.raises(ValueError, match="not of sgd"):
        RepeatedStep(learned, loss_of(learned), OptimizerSettings(name="sgd"))
