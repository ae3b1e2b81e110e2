"""ENP: the promise is that a linear reader of uploads errs by n^2 more for each pixel."""

import pytest
import torch
from learned_parts import conv_bottom, dense_bottom, images, one_step, seeded, set_up, vectors
from torch import nn

from colonnade.defend import make_defense
from colonnade.defend.invl_enp import InvLENP
from colonnade.errors import ConfigError


def toy():
    """A conv net whose uploads tell every pixel: 10 maps of 6 x 6 from 3 of 8 x 8."""
    bottom = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.BatchNorm2d(12), nn.Tanh(), nn.Conv2d(12, 10, 3))
    with torch.no_grad():
        for part in (bottom[0], bottom[3]):
            part.weight.copy_(torch.randn(part.weight.shape, generator=seeded(4)) / part.weight[0].numel() ** 0.5)
            part.bias.zero_()
    return bottom


def reader_errors(bottom, x, scale, noise):
    """What the noise does to one who knows the Jacobian and inverts it: mean squared error of a pixel."""
    bottom.eval()
    for record, extra in zip(x, noise, strict=True):
        whole = torch.func.jacrev(lambda pixels: bottom((pixels / scale)[None])[0].flatten())(record * scale)
        jacobian = whole.detach().flatten(1).double()
        yield torch.linalg.lstsq(jacobian, extra.flatten().double()[:, None]).solution.square().mean().item()


@pytest.mark.parametrize("refresh", [1, 50])
@pytest.mark.parametrize("n", [0.08, 0.15])
def test_a_linear_reader_errs_by_the_promised_amount(n, refresh):
    x, preparation = images(48, height=8, width=8)
    bottom = toy()
    defense = InvLENP(noise=n, rank=32, refresh=refresh)
    at_work = set_up(defense, bottom, x, preparation)
    upload = at_work.upload(torch.arange(len(x)), train=False)
    with torch.no_grad():
        noise = upload - bottom(x)
    scale = torch.tensor(preparation.statistics.scale)[:, None, None]
    errors = list(reader_errors(bottom, x, scale, noise))
    # 48 records with 32 directions each: the mean of so many squares lies within a tenth, three deviations.
    assert sum(errors) / len(errors) == pytest.approx(n**2, rel=0.12)


def test_noise_lies_along_the_first_left_singular_vectors():
    x, preparation = images(6, height=8, width=8)
    bottom = toy()
    at_work = set_up(InvLENP(noise=0.1, rank=8, refresh=1), bottom, x, preparation)
    upload = at_work.upload(torch.arange(len(x)), train=False)
    scale = torch.tensor(preparation.statistics.scale)[:, None, None]
    bottom.eval()
    for record, sent in zip(x, upload, strict=True):
        noise = (sent - bottom(record[None])[0]).detach().flatten().double()
        whole = torch.func.jacrev(lambda pixels: bottom((pixels / scale)[None])[0].flatten())(record * scale)
        left = torch.linalg.svd(whole.detach().flatten(1).double(), full_matrices=False).U[:, :8]
        assert (left.T @ noise).norm() / noise.norm() > 0.999


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_no_gradient_passes_through_the_noise(kind):
    x, preparation = images() if kind == "maps" else (vectors(), None)
    make = conv_bottom if kind == "maps" else dense_bottom
    at_work, plain = set_up(InvLENP(), make(), x, preparation), make()
    _, grad = one_step(at_work, rate=1.0)
    before = [parameter.clone() for parameter in plain.parameters()]
    plain.train()(x).backward(grad)
    for parameter, new, old in zip(plain.parameters(), at_work.network.parameters(), before, strict=True):
        torch.testing.assert_close(old - new, parameter.grad, rtol=1e-4, atol=1e-5)


def test_strength_is_checked_and_described():
    described = {"name": "invl_enp", "noise": 0.12, "rank": 32, "refresh": 50}
    assert make_defense("invl_enp").describe() == described
    with pytest.raises(ConfigError, match=r"invl_enp\.noise: -1"):
        make_defense("invl_enp", noise=-1)
