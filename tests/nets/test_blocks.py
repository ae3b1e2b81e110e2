"""Modules that PyTorch lacks: if these fail, a record's number hangs on strangers, or a batch of one stops a run."""

import pytest
import torch
from torch.nn import functional

from colonnade.nets.blocks import RunningNorm, UnitNorm


def batch(count=64, seed=0):
    return 3 + 2 * torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def test_earlier_batches_are_remembered_as_by_a_batch_norm():
    usual, ours = torch.nn.BatchNorm1d(4, momentum=0.05, affine=False), RunningNorm(4, 0.05)
    for seed in range(3):
        usual(batch(seed=seed))
        ours(batch(seed=seed))
    assert list(usual.state_dict()) == list(ours.state_dict())
    for name, expected in usual.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], expected)
    torch.testing.assert_close(ours.eval()(batch(seed=9)), usual.eval()(batch(seed=9)))


def test_training_divides_by_what_is_remembered_and_gradients_leave_that_alone():
    norm, x = RunningNorm(4, 0.1), batch().requires_grad_()
    found = norm(x)
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    torch.testing.assert_close(found, (x - mean) / (variance + norm.eps).sqrt())
    norm(batch(seed=1))  # before the gradient is back
    found.backward(torch.ones_like(found))
    torch.testing.assert_close(x.grad, (1 / (variance + norm.eps).sqrt()).expand_as(x))


@pytest.mark.parametrize("norm", [UnitNorm(4, affine=False), RunningNorm(4, 0.1)], ids=lambda norm: type(norm).__name__)
def test_one_record_is_a_batch_and_is_not_remembered(norm):
    norm(batch())
    before = norm.running_mean.clone()
    x = batch(1)
    expected = functional.batch_norm(x, before, norm.running_var, eps=norm.eps)
    torch.testing.assert_close(norm(x), expected)
    assert torch.equal(norm.running_mean, before)
