"""PriFU: channels that the task does not hold up are closed."""

import pytest
import torch
from torch import nn

import colonnade.defend.prifu  # noqa: F401 - registers it
from colonnade.defend.registry import make_defense
from colonnade.nets import build_bottom, initialised


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def extended(input_shape=(3, 6, 4), **strength):
    defense = make_defense("prifu", **strength)
    bottom = defense.extend(build_bottom("resnet18", input_shape, cut=3, seed=0), input_shape)
    return defense, bottom


def test_open_channels_are_scaled_and_closed_ones_send_their_shift():
    """A closed channel would still show the record."""
    defense, bottom = extended(threshold=0.5)
    weight = torch.linspace(-1, 1, 64)
    with torch.no_grad():
        bottom[2].weight.copy_(weight)
        bottom[2].bias.fill_(0.25)
    x = normal(0, 8, 3, 6, 4)
    h = bottom[1](bottom[0](x))
    upload = bottom(x)
    for channel in range(64):
        expected = weight[channel] * h[:, channel] + 0.25 if weight[channel] > 0.5 else torch.full_like(h[:, 0], 0.25)
        assert torch.allclose(upload[:, channel], expected, atol=1e-6)
    assert defense.meters() == {"channels_open": 0.25}


def test_the_filters_weights_decay_and_nothing_else_does():
    """Channels without use would stay open for ever."""
    grads = {}
    for decay in (0.0, 0.5):
        defense, bottom = extended(decay=decay)
        x = normal(0, 8, 3, 6, 4)
        h = bottom(x)
        defense.backward(x, h, defense.protect(x, h, train=True), normal(1, *h.shape))
        grads[decay] = {name: parameter.grad for name, parameter in bottom.named_parameters()}
    for name, gradient in grads[0.0].items():
        added = 0.5 * 0.1 if name == "2.weight" else 0.0
        assert torch.allclose(grads[0.5][name], gradient + added, atol=1e-6)


def test_closed_channels_get_no_gradient_from_the_task():
    defense, bottom = extended(threshold=0.5, decay=0.0)
    with torch.no_grad():
        bottom[2].weight[:32] = 0.01
    x = normal(0, 8, 3, 6, 4)
    h = bottom(x)
    defense.backward(x, h, defense.protect(x, h, train=True), normal(1, *h.shape))
    assert (bottom[2].weight.grad[:32] == 0).all() and (bottom[2].weight.grad[32:] != 0).all()


def trained_on_four_of_eight_columns(first_weights):
    """A toy: the task needs the first four columns, the others are noise to it."""
    x = normal(0, 256, 8)
    target = x[:, :4].sum(1, keepdim=True)
    defense = make_defense("prifu", decay=0.1)
    bottom = defense.extend(nn.Identity(), (8,))
    top = initialised(lambda: nn.Linear(8, 1), 0)
    with torch.no_grad():
        top.weight.copy_(first_weights)
    optimizer = torch.optim.SGD([*bottom.parameters(), *top.parameters()], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        h = bottom(x)
        upload = defense.protect(x, h, train=True)
        received = upload.detach().requires_grad_()
        nn.functional.mse_loss(top(received), target).backward()
        defense.backward(x, h, upload, received.grad)
        optimizer.step()
    error = nn.functional.mse_loss(top(bottom(x)), target).item() / target.var().item()
    return bottom[2].open().tolist(), error


def test_channels_that_the_task_does_not_need_are_closed_by_training():
    """The filter would be a scale and nothing more."""
    is_open, error = trained_on_four_of_eight_columns(torch.full((8,), 0.1))
    assert is_open == [True] * 4 + [False] * 4
    assert error < 0.1


def test_a_channel_that_starts_on_the_wrong_foot_is_lost():
    """The docstring's warning would be wrong: the published rule closes a needed channel for good."""
    is_open, error = trained_on_four_of_eight_columns(torch.tensor([-0.1] + [0.1] * 7))
    assert is_open == [False] + [True] * 3 + [False] * 4
    x = normal(0, 256, 8)
    target = x[:, :4].sum(1, keepdim=True)
    without_it = torch.cat([x[:, 1:4], torch.ones(256, 1)], dim=1)
    best = without_it @ torch.linalg.lstsq(without_it, target).solution
    assert error == pytest.approx(nn.functional.mse_loss(best, target).item() / target.var().item(), rel=1e-3)
