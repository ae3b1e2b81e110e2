"""Pruning: the smallest entries of each record stay at home."""

import pytest
import torch

import colonnade.defend.prune  # noqa: F401 - registers it
from colonnade.defend.registry import make_defense
from colonnade.errors import ConfigError


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(50,), (5, 2, 5)])
@pytest.mark.parametrize("rate", [0.0, 0.29, 0.9, 0.99, 1.0])
def test_each_record_loses_its_own_smallest_entries(shape, rate):
    """A batch-wide threshold would let one loud record silence the others."""
    h = normal(0, 6, *shape) * torch.logspace(-3, 3, 6).view(-1, *[1] * len(shape))
    upload = make_defense("prune", rate=rate).protect(h, h, train=False)
    for row, sent in zip(h.flatten(1), upload.flatten(1), strict=True):
        order = sorted(range(50), key=lambda j: abs(row[j].item()))
        gone = {0.0: 0, 0.29: 14, 0.9: 45, 0.99: 49, 1.0: 50}[rate]
        expected = row.clone()
        expected[order[:gone]] = 0
        assert torch.equal(sent, expected)


def test_equal_entries_are_not_all_kept_or_all_lost():
    """A layer of many zeros after a ReLU, or one constant map, would break the rate."""
    assert make_defense("prune", rate=0.9).protect(None, torch.ones(2, 20), train=True).sum(1).tolist() == [2, 2]


def test_gradients_reach_only_what_was_sent():
    """The bottom would learn from entries the task never saw."""
    h = normal(0, 4, 20).requires_grad_()
    defense = make_defense("prune", rate=0.75)
    upload = defense.protect(h, h, train=True)
    grad = normal(1, 4, 20)
    defense.backward(h, h, upload, grad)
    assert torch.equal(h.grad, torch.where(upload != 0, grad, 0.0))


def test_the_operator_is_the_pruning_itself():
    h = normal(0, 4, 20)
    defense = make_defense("prune", rate=0.5)
    assert torch.equal(defense.operator()(h), defense.protect(h, h, train=False))


@pytest.mark.parametrize("rate", [-0.1, 1.1, 90, "a"])
def test_rates_that_are_no_share_are_refused(rate):
    """Somebody writes 90 for 90 per cent and would upload nothing at all."""
    with pytest.raises(ConfigError, match=r"prune\.rate"):
        make_defense("prune", rate=rate)
