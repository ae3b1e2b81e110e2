"""HashVFL: nothing but signs leaves."""

import pytest
import torch

import colonnade.defend.hashvfl  # noqa: F401 - registers it
from colonnade.defend.registry import make_defense
from colonnade.nets import build_bottom, upload_shape


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("family", "cut", "input_shape", "code"),
    [
        ("mlp", 4, (9,), (6,)),
        ("resnet18", 6, (3, 8, 4), (6, 4, 2)),
        ("resnet18", 12, (3, 8, 4), (6, 1, 1)),
    ],
)
def test_uploads_are_bits(family, cut, input_shape, code):
    """A value between would carry more than a bit."""
    defense = make_defense("hashvfl", bits=6)
    bottom = defense.extend(build_bottom(family, input_shape, cut=cut, seed=0), input_shape)
    assert upload_shape(bottom, input_shape) == code
    x = normal(0, 16, *input_shape)
    h = bottom(x)
    upload = defense.protect(x, h, train=True)
    assert set(upload.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(upload > 0, h >= 0)


def test_the_sign_lets_the_gradient_through_unchanged():
    """The true derivative of a sign is zero: nothing would be learned."""
    h, grad = normal(0, 4, 6).requires_grad_(), normal(1, 4, 6)
    defense = make_defense("hashvfl")
    defense.backward(h, h, defense.protect(h, h, train=True), grad)
    assert torch.equal(h.grad, grad)


def test_every_party_hashes_in_its_own_way():
    """Equal first weights at two parties would let one read the other's code."""
    weights = []
    for seed in (0, 1, 0):
        defense = make_defense("hashvfl")
        defense.seed(seed)
        weights.append(defense.extend(build_bottom("mlp", (9,), seed=0), (9,))[1][0].weight)
    assert torch.equal(weights[0], weights[2]) and not torch.equal(weights[0], weights[1])


def test_half_precision_stays_exact():
    h = normal(0, 4, 6).bfloat16()
    upload = make_defense("hashvfl").operator()(h)
    assert upload.dtype == torch.bfloat16 and set(upload.float().unique().tolist()) == {-1.0, 1.0}
