"""First weights come from the seed alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from colonnade.errors import ConfigError
from colonnade.nets import build_bottom, build_top, initialised


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def build(seed):
    return weights(build_bottom("mnist_net", (1, 28, 14), cut=6, seed=seed))


def test_same_seed_gives_equal_weights_from_many_threads_while_others_draw():
    """Roles run as threads: a run would not repeat, and split would not equal joint."""
    expected = {seed: build(seed) for seed in range(4)}
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            torch.rand(100)
            nn.Linear(8, 8)

    noisy = threading.Thread(target=disturb)
    noisy.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            seeds = [0, 1, 2, 3] * 10
            for seed, built in zip(seeds, pool.map(build, seeds), strict=True):
                assert torch.equal(built, expected[seed])
    finally:
        stop.set()
        noisy.join()


def test_other_seeds_give_other_weights_and_so_do_other_modules():
    """Two parties, or two layers, would start as twins."""
    assert not torch.equal(build(0), build(1))
    bottom = build_bottom("mlp", (8,), cut=4, hidden=(8, 8, 8), seed=0)
    assert not torch.equal(bottom[0].weight, bottom[2].weight)


def test_building_leaves_the_users_random_stream_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_top("mlp", [(4,)], 1, hidden=(4, 4), seed=0)
    assert torch.equal(torch.rand(3), expected)


def test_weights_have_pytorchs_usual_spread():
    """Networks would train worse than the same network in plain PyTorch."""
    ours = initialised(lambda: nn.Conv2d(64, 64, 3), seed=0)
    theirs = nn.Conv2d(64, 64, 3)
    assert ours.weight.std().item() == pytest.approx(theirs.weight.std().item(), rel=0.05)
    assert ours.bias.abs().max().item() <= 1 / (64 * 9) ** 0.5
    norm = initialised(lambda: nn.BatchNorm2d(3), seed=0)
    assert norm.weight.tolist() == [1, 1, 1] and norm.running_var.tolist() == [1, 1, 1]
    assert norm.running_mean.tolist() == [0, 0, 0]


def test_a_layer_that_cannot_be_drawn_is_refused_not_left_empty():
    """Weights would be whatever lay in memory."""
    with pytest.raises(ConfigError, match="GRU"):
        initialised(lambda: nn.GRU(2, 2), seed=0)
