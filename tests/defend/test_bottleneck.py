"""Our own defense: narrow, normalised, noisy, and set against a local decoder."""

import copy

import pytest
import torch
from learned_parts import conv_bottom, copied, dense_bottom, images, one_step, seeded, set_up, vectors
from torch import nn

from colonnade.defend import make_defense
from colonnade.defend.bottleneck import Bottleneck
from colonnade.errors import ConfigError


def quiet(**arguments):
    """Without noise and without a decoder."""
    return Bottleneck(**{"sigma": 0.0, "adversary": 0.0, **arguments})


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_channels_are_few_and_of_unit_scale(kind):
    """A network could outgrow the noise."""
    x, preparation = images() if kind == "maps" else (vectors(), None)
    at_work = set_up(quiet(channels=3), conv_bottom() if kind == "maps" else dense_bottom(), x, preparation)
    upload = at_work.upload(torch.arange(len(x)), train=True)
    assert upload.shape[1] == 3
    columns = upload.movedim(1, -1).reshape(-1, 3)
    torch.testing.assert_close(columns.mean(0), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(columns.std(0, correction=0), torch.ones(3), rtol=1e-3, atol=0)
    assert not list(at_work.network[1][1].parameters())


@pytest.mark.parametrize("train", [True, False])
def test_a_record_has_the_same_noise_each_time(train):
    """A curious party would average the noise away."""
    x = vectors(400)
    defense = Bottleneck(sigma=2.0, memoise=True, adversary=0.0)
    at_work = set_up(defense, dense_bottom(), x)
    h = torch.zeros(400, 8)
    first, second = (defense.protect(x, h, train) for _ in range(2))
    assert torch.equal(first, second) and first.std().item() == pytest.approx(2.0, rel=0.05)
    fresh = Bottleneck(sigma=2.0, memoise=False, adversary=0.0)
    fresh.seed(0)
    assert not torch.equal(fresh.protect(x, h, train), fresh.protect(x, h, train))
    assert at_work.upload(torch.arange(3), train=False).shape == (3, 8)


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_the_bottom_learns_the_task_against_the_decoder(kind):
    x, preparation = images() if kind == "maps" else (vectors(), None)
    defense = Bottleneck(sigma=0.5, memoise=True, adversary=3.0)
    at_work = set_up(defense, conv_bottom() if kind == "maps" else dense_bottom(), x, preparation)
    for _ in range(30):
        one_step(at_work, rate=0.0, grad=torch.zeros(at_work.upload(torch.arange(len(x)), train=False).shape))
    bottom, decoder = copy.deepcopy(at_work.network), copy.deepcopy(defense.adversary)
    before = [parameter.clone() for parameter in at_work.network.parameters()]
    stream = torch.Generator()
    stream.set_state(defense.generator.get_state())
    _, grad = one_step(at_work, rate=1.0)

    h = bottom.train()(x)
    # Fresh noise, although uploads have theirs for good: a decoder would learn the records by heart from those.
    noise = 0.5 * torch.randn(h.shape, generator=stream)
    decoder.learn(h.detach() + noise, x)
    assert decoder.error(h + noise, x) < decoder.ceiling
    ((grad * h).sum() - 3.0 * decoder.error(h + noise, x)).backward()
    for old, new, slow in zip(before, at_work.network.parameters(), bottom.parameters(), strict=True):
        torch.testing.assert_close(old - new, slow.grad, rtol=1e-3, atol=2e-5)
    assert set(defense.meters()) == {"adversary_skill"}


def residual_share(uploads, x):
    """How much of the records a fresh linear reader can't tell from uploads."""
    known = torch.cat([uploads, torch.ones(len(uploads), 1)], dim=1).double()
    left = x.double() - known @ torch.linalg.lstsq(known, x.double()).solution
    return (left.square().sum() / (x - x.mean(0)).square().sum()).item()


def test_the_decoder_makes_uploads_tell_less():
    """The same network with the same task would show more of what the task does not need."""
    x = vectors(512)
    label = (x[:, 0] > 0).float()
    left, accuracy = {}, {}
    for weight in (0.0, 5.0):
        at_work = set_up(Bottleneck(channels=4, sigma=0.5, adversary=weight), dense_bottom(), x)
        top = nn.Linear(4, 1)
        with torch.no_grad():
            top.weight.copy_(torch.randn(1, 4, generator=seeded(1)) / 2)
            top.bias.zero_()
        optimizer = torch.optim.Adam(top.parameters(), lr=0.01)
        for step in range(100):
            rows = torch.randperm(512, generator=seeded(step))[:128]
            upload = at_work.upload(rows, train=True).requires_grad_()
            loss = nn.functional.binary_cross_entropy_with_logits(top(upload)[:, 0], label[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            at_work.learn(upload.grad, rate=0.05)
        upload = at_work.upload(torch.arange(512), train=False)
        accuracy[weight] = ((top(upload)[:, 0] > 0) == (label > 0)).float().mean().item()
        left[weight] = residual_share(upload, x)
    assert left[5.0] > left[0.0] + 0.05
    assert accuracy[5.0] > accuracy[0.0] - 0.02


def slow_disagreement(first, second):
    """Correlations of channels, one by one."""
    first, second = (part.movedim(1, -1).reshape(-1, part.shape[1]).double() for part in (first, second))
    same, other = [], []
    for i in range(first.shape[1]):
        for j in range(first.shape[1]):
            correlation = torch.corrcoef(torch.stack([first[:, i], second[:, j]]))[0, 1]
            (same if i == j else other).append(correlation)
    loss = sum((value - 1) ** 2 for value in same) / len(same)
    return loss + 0.005 * sum(value**2 for value in other) / len(other)


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_channels_learn_to_agree_with_surrogates(kind):
    x, preparation = images() if kind == "maps" else (vectors(), None)
    defense = quiet(channels=3, causal=0.7)
    defense.surrogates = lambda batch: batch.flip(1)
    at_work = set_up(defense, conv_bottom() if kind == "maps" else dense_bottom(), x, preparation)
    bottom = copy.deepcopy(at_work.network)
    before = [parameter.clone() for parameter in at_work.network.parameters()]
    _, grad = one_step(at_work, rate=1.0)
    alone = copy.deepcopy(bottom).train()
    alone(x)
    h = bottom.train()(x)
    ((grad * h).sum() + 0.7 * slow_disagreement(h, bottom(x.flip(1)))).backward()
    for old, new, slow in zip(before, at_work.network.parameters(), bottom.parameters(), strict=True):
        torch.testing.assert_close(old - new, slow.grad, rtol=1e-3, atol=1e-4)
    # Running statistics are those of records: surrogates are never uploaded.
    statistics = copied(at_work.network)
    for name, tensor in alone.state_dict().items():
        if "running" in name:
            torch.testing.assert_close(statistics[name], tensor)


def test_the_causal_weight_needs_surrogates():
    with pytest.raises(ConfigError, match=r"bottleneck\.causal: the causal weight needs surrogates"):
        set_up(Bottleneck(causal=0.3), dense_bottom(), vectors())


def test_a_batch_may_overlap_in_one_record():
    """A party that holds one record of a batch would stop the run."""
    at_work = set_up(Bottleneck(), dense_bottom(), vectors())
    one_step(at_work)
    one_step(at_work, rows=torch.tensor([5]))
    assert all(torch.isfinite(tensor).all() for tensor in at_work.network.parameters())


def test_a_loaded_model_keeps_a_records_noise():
    """Every process would give a record new noise, to be averaged with the old."""
    x = vectors()
    first, second = Bottleneck(memoise=True), Bottleneck(memoise=True)
    uploads = []
    at_work = set_up(first, dense_bottom(), x)
    one_step(at_work)
    uploads.append(at_work.upload(torch.arange(4), train=False))
    second.seed(1)
    network = second.extend(dense_bottom(), (6,))
    network.load_state_dict(at_work.network.state_dict())
    second.load_state_dict(copied(first))
    second.seed(99)
    with torch.no_grad():
        uploads.append(second.protect(x[:4], network.eval()(x[:4]), train=False))
    assert torch.equal(*uploads)


def test_anybody_can_add_noise_of_the_scale():
    h = torch.zeros(100, 8, 4, 4)
    assert Bottleneck(sigma=3.0).operator()(h).std().item() == pytest.approx(3.0, rel=0.05)


def test_strength_is_checked_and_described():
    described = {"name": "bottleneck", "channels": 8, "sigma": 2.0, "memoise": False, "adversary": 2.0, "causal": 0.0}
    assert make_defense("bottleneck").describe() == described
    assert make_defense("bottleneck").spend() is None
    with pytest.raises(ConfigError, match=r"bottleneck\.channels: 2\.5"):
        make_defense("bottleneck", channels=2.5)
