"""Channels that are kept or dropped at random, by a gate that learns."""

import copy

import pytest
import torch
from learned_parts import conv_bottom, dense_bottom, images, one_step, set_up, vectors

from colonnade.defend import make_defense
from colonnade.defend.d3sfl import D3SFL
from colonnade.errors import ConfigError


@pytest.mark.parametrize("train", [True, False])
def test_channels_go_whole_or_not_at_all(train):
    """Half a channel would be a soft mask, which hides nothing."""
    x, preparation = images()
    at_work = set_up(D3SFL(), conv_bottom(), x, preparation)
    upload = at_work.upload(torch.arange(len(x)), train)
    h = at_work.network(x).detach()
    kept = (upload - h).abs().amax(dim=(2, 3)) < 1e-6
    dropped = upload.abs().amax(dim=(2, 3)) == 0
    assert (kept | dropped).all() and kept.any() and dropped.any()
    again = at_work.upload(torch.arange(len(x)), train)
    assert not torch.equal(upload == 0, again == 0)


def test_the_gate_reaches_its_sparsity():
    x = vectors(256)
    at_work = set_up(D3SFL(weight=0.0, sparsity=0.4), dense_bottom(width=20), x)
    for _ in range(200):
        one_step(at_work, rate=0.0, grad=torch.zeros(256, 20))
    dropped = torch.stack([at_work.upload(torch.arange(256), train=False) == 0 for _ in range(10)])
    assert dropped.float().mean().item() == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_one_step_against_the_slow_version(kind):
    x, preparation = images() if kind == "maps" else (vectors(), None)
    defense = D3SFL(weight=3.0)
    at_work = set_up(defense, conv_bottom() if kind == "maps" else dense_bottom(), x, preparation)
    one_step(at_work)  # a decoder that has learned nothing yet has no gradient
    bottom, gate, decoder = (
        copy.deepcopy(part) for part in (at_work.network, defense.learners["gate"], defense.adversary)
    )
    upload, grad = one_step(at_work, rate=0.05)

    decoder.learn(upload, x)
    h = bottom.train()(x)
    wide = [1] * (h.dim() - 2)
    kept = (upload.flatten(2) if wide else upload[..., None]).abs().amax(2) > 0
    # A tanh or a ReLU is never zero over a whole channel of these records, so what is zero was dropped.
    kept = kept.float().view(*kept.shape, *wide)
    (grad * h * kept - 3.0 * decoder.capped_error(h * kept, x) / h.numel()).sum().backward()
    with torch.no_grad():
        for parameter in bottom.parameters():
            parameter -= 0.05 * parameter.grad
    fixed = h.detach()
    chances = torch.sigmoid(gate(fixed.flatten(2).mean(2) if wide else fixed, train=True))
    straight = kept + (chances - chances.detach()).view(*chances.shape, *wide)
    excess = chances.mean() - 0.6
    gate.descend((grad * fixed * straight).sum() - 3.0 * decoder.capped_error(fixed * straight, x) + excess**2)
    for mine, slow in ((at_work.network, bottom), (defense.learners["gate"].network, gate.network)):
        for name, tensor in mine.state_dict().items():
            torch.testing.assert_close(tensor, slow.state_dict()[name], rtol=1e-3, atol=1e-5)


def test_anybody_can_drop_as_many():
    h = torch.ones(200, 50, 2, 2)
    dropped = D3SFL(sparsity=0.3).operator()(h) == 0
    assert dropped.float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert (dropped.float().mean((2, 3)) % 1 == 0).all()


def test_strength_is_checked_and_described():
    assert make_defense("d3sfl", weight=0.5).describe() == {"name": "d3sfl", "weight": 0.5, "sparsity": 0.4}
    with pytest.raises(ConfigError, match=r"d3sfl\.sparsity: -0\.1"):
        make_defense("d3sfl", sparsity=-0.1)
