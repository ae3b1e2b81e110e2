"""Decoders fit every upload to every record."""

import pytest
import torch

from colonnade.nets import build_bottom, module_count, upload_shape
from colonnade.nets.decoder import build_decoder


@pytest.mark.parametrize(
    ("upload", "record"),
    [
        ((128, 16, 8), (3, 32, 16)),
        ((512, 1, 1), (3, 32, 16)),
        ((16, 4, 1), (1, 28, 14)),
        ((8, 24, 10), (1, 28, 14)),
        ((120,), (1, 28, 14)),
        ((4, 9, 9), (1, 8, 4)),
        ((32,), (14,)),
        ((4, 2, 2), (7,)),
    ],
)
def test_decoder_gives_the_shape_of_the_record_and_starts_at_zero(upload, record):
    """The oracle would not run on some cut; or would start from a guess worse than the mean."""
    decoder = build_decoder(upload, record, width=8, seed=0)
    guess = decoder(torch.randn(3, *upload))
    assert guess.shape == (3, *record)
    assert torch.equal(guess, torch.zeros_like(guess))


@pytest.mark.parametrize(("family", "shape"), [("mnist_net", (1, 28, 14)), ("resnet18", (3, 32, 16)), ("mlp", (9,))])
def test_every_cut_of_every_family_can_be_decoded(family, shape):
    for cut in range(1, module_count(family)):
        upload = upload_shape(build_bottom(family, shape, cut=cut, seed=0), shape)
        assert build_decoder(upload, shape, width=4, seed=0)(torch.zeros(2, *upload)).shape == (2, *shape)


def test_decoder_weights_come_from_the_seed():
    one, same, other = (build_decoder((4, 4, 4), (1, 8, 8), width=4, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one[0].weight, same[0].weight)
    assert not torch.equal(one[0].weight, other[0].weight)
