"""DNP: disturbed records, by the stated amount and where it counts."""

import pytest
import torch
from learned_parts import conv_bottom, copied, dense_bottom, images, one_step, set_up, vectors
from torch import nn

from colonnade.defend import make_defense
from colonnade.defend.invl_dnp import InvLDNP
from colonnade.errors import ConfigError


def disturbed_by(defense, bottom, x, **arguments):
    """How far uploads lie from records; through an identity, the disturbance itself."""
    at_work = set_up(defense, bottom, x, **arguments)
    return at_work.upload(torch.arange(len(x)), train=True) - x


class Stretch(nn.Module):
    """Each column by its own factor."""

    def __init__(self, factors):
        super().__init__()
        self.linear = nn.Linear(len(factors), len(factors), bias=False)
        with torch.no_grad():
            self.linear.weight.copy_(torch.diag(factors))

    def forward(self, x):
        return self.linear(x)


@pytest.mark.parametrize("refresh", [1, 50])
def test_the_disturbance_has_the_stated_size_in_pixels(refresh):
    """n = 0.15 would mean another thing for every data set."""
    x, preparation = images(24)
    bottom = nn.Conv2d(3, 3, 1, bias=False)
    with torch.no_grad():
        bottom.weight.copy_(torch.eye(3)[:, :, None, None])
    defense = InvLDNP(noise=0.02, rank=432, refresh=refresh)
    moved = disturbed_by(defense, bottom, x, preparation=preparation)
    scale = torch.tensor(preparation.statistics.scale)[:, None, None]
    # So little that few pixels meet black or white.
    assert (moved * scale).square().mean().sqrt().item() == pytest.approx(0.02, rel=0.03)


def test_images_stay_images():
    x, preparation = images(16)
    bottom = nn.Conv2d(3, 3, 1, bias=False)
    with torch.no_grad():
        bottom.weight.copy_(torch.eye(3)[:, :, None, None])
    moved = disturbed_by(InvLDNP(noise=3.0), bottom, x, preparation=preparation)
    statistics = preparation.statistics
    pixels = (x + moved) * torch.tensor(statistics.scale)[:, None, None] + torch.tensor(statistics.mean)[:, None, None]
    assert pixels.min() >= -1e-5 and pixels.max() <= 1 + 1e-5 and (pixels.abs() < 1e-4).any()


def test_noise_goes_where_the_bottom_stretches():
    """Noise in directions that nobody can see would protect nothing."""
    factors = torch.tensor([5.0, 0.1, 4.0, 0.1, 0.1, 0.1])
    x = vectors(500)
    moved = disturbed_by(InvLDNP(noise=0.1, rank=2), Stretch(factors), x) + x
    moved = moved / factors - x
    power = moved.square().mean(0)
    assert power[[0, 2]].min() > 1e6 * power[[1, 3, 4, 5]].max()
    # A column's range counts four deviations; 2 of 6 columns carry everything.
    assert power.mean().sqrt().item() == pytest.approx(0.4, rel=0.1)


def test_directions_are_shared_until_they_are_refreshed():
    """Finding them for each batch costs a hundred passes."""
    x, preparation = images()
    defense = InvLDNP(rank=4, refresh=3)
    at_work = set_up(defense, conv_bottom(), x, preparation)
    found = []
    for _ in range(5):
        one_step(at_work)
        found.append(defense.state_dict()["directions"])
    assert torch.equal(found[0], found[2]) and torch.equal(found[3], found[4])
    assert not torch.equal(found[2], found[3])
    at_work.upload(torch.arange(4), train=False)
    assert torch.equal(defense.state_dict()["directions"], found[4])
    defense.finish(at_work.network, x)
    assert not torch.equal(defense.state_dict()["directions"], found[4])


def test_looking_at_the_jacobian_leaves_the_bottom_alone():
    """Running statistics that move, or a bottom left in evaluation mode, would train another network."""
    x, preparation = images()
    bottom = conv_bottom()
    defense = InvLDNP(refresh=1, rank=4)
    defense.seed(0)
    defense.meet(preparation)
    defense.extend(bottom, tuple(x.shape[1:]))
    before = copied(bottom)
    bottom.train()
    defense._find(x)
    assert bottom.training and all(part.training for part in bottom.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in bottom.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in bottom.parameters())


def test_few_columns_have_few_directions():
    upload = set_up(InvLDNP(rank=32), dense_bottom(), vectors()).upload(torch.arange(8), train=True)
    assert upload.shape == (8, 10)


def test_strength_is_checked_and_described():
    described = {"name": "invl_dnp", "noise": 0.08, "rank": 32, "refresh": 50}
    assert make_defense("invl_dnp", noise=0.08).describe() == described
    with pytest.raises(ConfigError, match=r"invl_dnp\.refresh: 0"):
        make_defense("invl_dnp", refresh=0)
    with pytest.raises(ConfigError, match="has not seen the bottom"):
        InvLDNP().protect(vectors(), vectors(), train=True)
