"""DISCO: the pruner works against the decoder, the bottom never does."""

import copy

import pytest
import torch
from learned_parts import conv_bottom, copied, dense_bottom, images, one_step, set_up, vectors
from torch import nn

from colonnade.defend import make_defense
from colonnade.defend.disco import TEMPERATURE, Disco
from colonnade.errors import ConfigError


def slow_mask(scores, ratio):
    rows = []
    for record in scores:
        threshold = sorted(record.tolist())[int(ratio * len(record))]
        rows.append([1 / (1 + torch.exp(-(score - threshold) / TEMPERATURE)) for score in record])
    return torch.tensor(rows)


def test_each_record_loses_its_lowest_channels():
    x, preparation = images()
    defense = Disco(ratio=0.6)
    at_work = set_up(defense, conv_bottom(), x, preparation)
    h = at_work.network(x).detach()
    pruner = defense.learners["pruner"]
    expected = slow_mask(pruner(h, train=False).detach(), 0.6)
    upload = defense.protect(x, h, train=False)
    torch.testing.assert_close(upload, h * expected[:, :, None, None], rtol=1e-4, atol=1e-6)
    # Four of eight channels lie below the threshold, one on it, three above.
    assert ((expected < 0.5).sum(1) == 4).all() and ((expected > 0.5).sum(1) == 3).all()


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_one_step_is_the_published_one(kind):
    """Decoder first; then pruner with (1 - rho) task - rho decoder; the bottom with the task alone."""
    x, preparation = images() if kind == "maps" else (vectors(), None)
    defense = Disco(weight=0.3)
    at_work = set_up(defense, conv_bottom() if kind == "maps" else dense_bottom(), x, preparation)
    one_step(at_work)  # a decoder that has learned nothing yet has no gradient
    bottom, pruner = copy.deepcopy(at_work.network), copy.deepcopy(defense.learners["pruner"])
    decoder = copy.deepcopy(defense.adversary)

    upload, grad = one_step(at_work, rate=0.05)

    h = bottom.train()(x)
    scores = pruner(h.detach(), train=True)
    threshold = scores.sort(dim=1).values[:, int(0.6 * scores.shape[1]), None]
    mask = torch.sigmoid((scores - threshold) / TEMPERATURE).view(*scores.shape, *[1] * (h.dim() - 2))
    torch.testing.assert_close((h * mask).detach(), upload)
    decoder.learn(upload, x)
    seen = h.detach() * mask
    loss = 0.7 * (grad * seen).sum() - 0.3 * decoder.error(seen, x)
    pruner.descend(loss)
    (grad * h * mask.detach()).sum().backward()
    with torch.no_grad():
        for parameter in bottom.parameters():
            parameter -= 0.05 * parameter.grad
    for mine, slow in ((defense.learners["pruner"].network, pruner.network), (at_work.network, bottom)):
        for name, tensor in mine.state_dict().items():
            torch.testing.assert_close(tensor, slow.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_the_pruner_learns_to_hide_what_only_the_decoder_wants():
    """Two of four features carry the record and no task: they are the ones to go."""
    x = vectors(256, 4)
    bottom = nn.Linear(4, 4, bias=False)
    nn.init.eye_(bottom.weight)
    defense = Disco(weight=0.9, ratio=0.5)
    at_work = set_up(defense, bottom, x)
    for _ in range(400):
        upload = at_work.upload(torch.arange(256), train=True)
        # The task wants features 0 and 1 as they are, and does not care for the others.
        grad = (upload - x) * torch.tensor([1.0, 1.0, 0.0, 0.0]) * 20 / 256
        at_work.learn(grad, rate=0.0)
    with torch.no_grad():
        kept = (at_work.upload(torch.arange(256), train=False) / x).mean(0)
    assert kept[:2].min() > kept[2:].max()


def test_strength_is_checked_and_described():
    assert make_defense("disco", weight=0.3).describe() == {"name": "disco", "weight": 0.3, "ratio": 0.6}
    with pytest.raises(ConfigError, match=r"disco\.ratio: 1\.5"):
        make_defense("disco", ratio=1.5)
    assert copied(Disco()) and Disco().operator() is None
