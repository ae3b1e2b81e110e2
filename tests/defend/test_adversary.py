"""The local decoder and what carries it: if these fail, learned defenses learn the wrong thing or forget it."""

import pandas as pd
import pytest
import torch
from learned_parts import copied, images, seeded, vectors
from torch import nn

from colonnade.data.records import Records
from colonnade.data.table_preparation import TablePreparation
from colonnade.defend.adversary import Adversary, Learner, slope, unit_scale


def adversary(upload=(6,), record=(6,), unit=0.25, rate=1e-2):
    device = torch.device("cpu")
    return Adversary(upload, record, unit=torch.as_tensor(unit), seed=0, device=device, learning_rate=rate)


def test_errors_are_counted_in_pixels():
    """The weight of a decoder would mean one thing for dark pictures and another for bright ones."""
    x, preparation = images()
    decoder = adversary((4,), x.shape[1:], unit_scale(preparation))
    guess = decoder(torch.zeros(len(x), 4), train=False)
    statistics = preparation.statistics
    mean, scale = (torch.tensor(part)[:, None, None] for part in (statistics.mean, statistics.scale))
    in_pixels = ((guess * scale + mean) - (x * scale + mean)).square().mean()
    torch.testing.assert_close(decoder.error(torch.zeros(len(x), 4), x), in_pixels)


def test_a_column_counts_like_a_pixel():
    preparation = TablePreparation().fit(Records.from_frame(pd.DataFrame({"age": [1.0, 2.0, 4.0]})))
    assert unit_scale(preparation).item() == 0.25


def test_the_decoder_learns_and_tells_its_skill():
    x = vectors(128)
    decoder = adversary()
    decoder.measure(x)
    assert decoder.ceiling.item() == pytest.approx((x.var(0, correction=0) / 16).mean().item(), rel=1e-5)
    assert decoder.skill() is None
    decoder.learn(x, x)
    start = decoder.skill()
    for _ in range(150):
        decoder.learn(x, x)
    decoder.skill()
    decoder.learn(x, x)
    end = decoder.skill()
    assert start < 0.05 and end > 0.8
    assert decoder.skill() is None


def test_beyond_the_mean_guess_nothing_is_won():
    """A bottom would be rewarded for ever wilder uploads."""
    x = vectors()
    decoder = adversary()
    decoder.measure(x)
    wild = 1e3 * torch.randn(x.shape, generator=seeded())
    for _ in range(3):
        decoder.learn(x, x)
    assert decoder.error(wild, x) > decoder.ceiling
    assert decoder.capped_error(wild, x) == decoder.ceiling
    assert slope(lambda upload: decoder.capped_error(upload, x), wild).abs().max() == 0
    assert slope(lambda upload: decoder.error(upload, x), wild).abs().max() > 0


def test_one_step_is_adams_step():
    network = nn.Linear(3, 2)
    twin = nn.Linear(3, 2)
    twin.load_state_dict(network.state_dict())
    x = vectors(8, 3)
    learner, optimizer = Learner(network, torch.device("cpu"), 0.01), torch.optim.Adam(twin.parameters(), lr=0.01)
    for _ in range(3):
        learner.descend(learner(x, train=True).square().mean())
        optimizer.zero_grad()
        twin(x).square().mean().backward()
        optimizer.step()
    torch.testing.assert_close(network.weight, twin.weight)
    assert network.weight.grad is None


def test_it_does_not_matter_how_uploads_lie_in_memory():
    """On a GPU channels lie last: Adam refused such gradients there, and elsewhere took them for others."""
    maps = torch.randn(8, 3, 6, 6, generator=seeded())
    learned = []
    for form in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        learner = Learner(nn.Conv2d(3, 4, 3), torch.device("cpu"), 0.01)
        learner.descend(learner(maps.to(memory_format=form), train=True).square().mean())
        learned.append(learner.network.weight.detach())
    torch.testing.assert_close(*learned)


def test_a_resumed_decoder_goes_on_bit_for_bit():
    x, preparation = images()
    first = adversary((3, 6, 6), x.shape[1:], unit_scale(preparation))
    upload = torch.randn(len(x), 3, 6, 6, generator=seeded())
    first.measure(x)
    first.learn(upload, x)
    state = copied(first)
    second = adversary((3, 6, 6), x.shape[1:], unit_scale(preparation))
    second.learn(2 * upload, x)
    second.load_state_dict(state)
    for decoder in (first, second):
        decoder.learn(upload, x)
    expected = first.state_dict()
    assert {name: torch.equal(tensor, expected[name]) for name, tensor in second.state_dict().items()} == dict.fromkeys(
        expected, True
    )
