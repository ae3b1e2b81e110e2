"""FedPass: a last layer that works as its passports say."""

import pytest
import torch
from torch.nn import functional

import colonnade.defend.fedpass  # noqa: F401 - registers it
from colonnade.defend.registry import make_defense
from colonnade.nets import build_bottom, upload_shape


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def extended(family, input_shape, seed=0, reach=10, **recipe):
    defense = make_defense("fedpass", reach=reach)
    defense.seed(seed)
    return defense.extend(build_bottom(family, input_shape, seed=0, **recipe), input_shape)


def normalised(values):
    axes = (0, *range(2, values.dim()))
    mean, variance = values.mean(axes, keepdim=True), values.var(axes, unbiased=False, keepdim=True)
    return (values - mean) / torch.sqrt(variance + 1e-5)


def coded(stamp, encoder):
    narrow, wide = encoder[0].weight, encoder[2].weight
    return wide @ functional.leaky_relu(narrow @ stamp)


def test_maps_are_scaled_and_shifted_by_their_passports():
    """The published layer would be another one."""
    bottom = extended("resnet18", (3, 6, 4), cut=3)
    x = normal(0, 5, 3, 6, 4)
    block = bottom[1]
    h = bottom[0](x)
    weight = block.layer.weight
    by_hand = functional.conv2d(h, weight, padding=1)
    scale, shift = (
        coded(functional.conv2d(passport, weight, padding=1).mean((0, 2, 3)), encoder)
        for passport, encoder in [
            (block.scale_passport, block.scale_encoder),
            (block.shift_passport, block.shift_encoder),
        ]
    )
    expected = functional.relu(scale[:, None, None] * normalised(by_hand) + shift[:, None, None])
    assert upload_shape(bottom, (3, 6, 4)) == (64, 6, 4)
    assert torch.allclose(bottom(x), expected, rtol=1e-4, atol=1e-4)


def test_vectors_are_scaled_and_shifted_within_bounds():
    bottom = extended("mlp", (7,), hidden=(20, 12, 4), cut=4)
    x = normal(0, 16, 7)
    block = bottom[1]
    weight = block.layer.weight
    scale = torch.tanh(coded(weight @ block.scale_passport[0], block.scale_encoder))
    shift = torch.tanh(coded(weight @ block.shift_passport[0], block.shift_encoder))
    expected = functional.relu(scale * normalised(bottom[0](x) @ weight.T) + shift)
    assert torch.allclose(bottom(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reach", [1, 2, 10])
def test_passports_have_whole_means_that_are_never_zero(reach):
    """A passport of mean zero hides nothing."""
    block = extended("resnet18", (3, 32, 32), cut=1, reach=reach)[1]
    means = block.scale_passport[0].mean((1, 2))
    whole = means.round()
    assert (means - whole).abs().max() < 0.2  # a mean of 1,024 normal entries
    assert whole.min() >= -reach and whole.max() <= max(reach - 1, -1) and not (whole == 0).any()
    assert block.scale_passport[0].std((1, 2)).mean().item() == pytest.approx(1, rel=0.05)
    if reach > 1:
        assert not torch.allclose(block.scale_passport, block.shift_passport)


def test_passports_are_private_saved_and_not_trained():
    """Two parties with one passport have none; a loaded model with another passport is another model."""
    first, other = extended("mlp", (7,)), extended("mlp", (7,), seed=1)
    assert not torch.equal(first[1].scale_passport, other[1].scale_passport)
    assert "1.scale_passport" in first.state_dict()
    assert not any("passport" in name for name, _ in first.named_parameters())
    other.load_state_dict(first.state_dict())
    x = normal(0, 8, 7)
    assert torch.equal(other.eval()(x), first.eval()(x))
