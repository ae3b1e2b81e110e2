"""The families are the published networks, module by module."""

import pytest
import torch
from torch import nn

from colonnade.errors import ConfigError
from colonnade.nets import build_bottom, module_count, modules, upload_shape


def shapes_through(network, input_shape):
    """Return the shape after every module, found by really computing."""
    x = torch.zeros(2, *input_shape)
    shapes = []
    for module in network:
        x = module.eval()(x)
        shapes.append(tuple(x.shape[1:]))
    return shapes


def test_mnist_net_is_unsplits_eleven_modules():
    """An attack table at 'layer 6' would not be comparable with the published one."""
    network = modules("mnist_net", (1, 28, 28), 10)
    kinds = [type(module).__name__ for module in network]
    assert kinds == [*["Conv2d", "ReLU", "MaxPool2d"] * 2, "Dense", "ReLU", "Dense", "ReLU", "Dense"]
    assert [module.in_features for module in network if isinstance(module, nn.Linear)] == [256, 120, 84]
    assert shapes_through(network, (1, 28, 28))[5] == (16, 4, 4)


def test_mnist_net_computes_the_flattened_size_of_a_strip():
    """A 28x14 strip would fail on a hard-coded 256."""
    network = modules("mnist_net", (1, 28, 14), 10)
    assert network[6].in_features == 64


def test_resnet18_layer_six_is_the_first_block_of_the_second_stage():
    """Cuts named in the papers would mean other layers here."""
    network = modules("resnet18", (3, 32, 32), 10)
    shapes = shapes_through(network, (3, 32, 32))
    assert len(network) == 13
    assert shapes[:6] == [(64, 32, 32)] * 5 + [(128, 16, 16)]
    assert shapes[7] == (256, 8, 8) and shapes[9] == (512, 4, 4) and shapes[11] == (512, 1, 1) and shapes[12] == (10,)
    assert upload_shape(build_bottom("resnet18", (3, 32, 16), cut=6, seed=0), (3, 32, 16)) == (128, 16, 8)


@pytest.mark.parametrize(("family", "millions"), [("resnet18", 11.17), ("resnet18_narrow", 0.70), ("resnet34", 21.28)])
def test_resnets_have_the_published_number_of_weights(family, millions):
    """A forgotten shortcut or stage would silently give a weaker network."""
    weights = sum(p.numel() for module in modules(family, (3, 32, 32), 10) for p in module.parameters())
    assert weights / 1e6 == pytest.approx(millions, abs=0.01)


def test_upload_shape_leaves_the_network_as_it_was():
    """Asking for a shape would move batch statistics, and a resumed run would differ from the undisturbed one."""
    bottom = build_bottom("resnet18", (3, 8, 8), cut=4, seed=0)
    before = {name: tensor.clone() for name, tensor in bottom.state_dict().items()}
    upload_shape(bottom, (3, 8, 8))
    assert bottom.training
    assert all(torch.equal(before[name], tensor) for name, tensor in bottom.state_dict().items())


def test_an_image_network_refuses_columns():
    with pytest.raises(ConfigError, match=r"module 1 of resnet18.*images"):
        build_bottom("resnet18", (14,), cut=6, seed=0)


def test_a_strip_too_narrow_names_the_module():
    """Three parties on MNIST get 9 columns each, too few for the second 5x5 convolution."""
    with pytest.raises(ConfigError, match=r"module 4 of mnist_net.*\(8, 12, 3\) are too small"):
        build_bottom("mnist_net", (1, 28, 9), cut=6, seed=0)


def test_an_unknown_family_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'resnet18'"):
        module_count("resnet-18")


@pytest.mark.parametrize("hidden", [(), (8, 0)])
def test_an_mlp_without_hidden_units_is_refused(hidden):
    with pytest.raises(ConfigError, match="at least one unit"):
        modules("mlp", (4,), 1, hidden=hidden)
