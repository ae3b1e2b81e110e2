"""What the tests of learned defenses share: toy bottoms, records, and one training step."""

import numpy as np
import pandas as pd
import torch
from torch import nn

from colonnade.data.image_preparation import ImagePreparation
from colonnade.data.records import Records
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.bottom import Bottom

SGD = OptimizerSettings(name="sgd", learning_rate=0.05, momentum=0.0, weight_decay=0.0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def vectors(count=32, columns=6):
    return torch.randn(count, columns, generator=seeded(1))


def images(count=16, channels=3, height=12, width=12):
    """Smooth pictures with values from 0 to 1, and their preparation."""
    coarse = torch.rand(count, channels, 3, 3, generator=seeded(2))
    pixels = nn.functional.interpolate(coarse, (height, width), mode="bilinear").numpy().astype(np.float32)
    records = Records(ids=pd.RangeIndex(count), images=pixels)
    preparation = ImagePreparation().fit(records)
    return torch.from_numpy(preparation.transform(records)), preparation


def dense_bottom(columns=6, width=10):
    generator = seeded(3)
    bottom = nn.Sequential(nn.Linear(columns, width), nn.Tanh())
    with torch.no_grad():
        bottom[0].weight.copy_(torch.randn(width, columns, generator=generator) / columns**0.5)
        bottom[0].bias.zero_()
    return bottom


def conv_bottom(channels=3, width=8):
    generator = seeded(4)
    bottom = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
    with torch.no_grad():
        bottom[0].weight.copy_(torch.randn(bottom[0].weight.shape, generator=generator) / 3)
        bottom[0].bias.zero_()
    return bottom


def set_up(defense, bottom, data, preparation=None, seed=0):
    """Return the bottom at work, as a training run sets it up."""
    defense.seed(seed)
    if preparation is not None:
        defense.meet(preparation)
    network = defense.extend(bottom, tuple(data.shape[1:]))
    at_work = Bottom(network, data, defense, settings=SGD, device=torch.device("cpu"))
    defense.prepare(at_work.network, at_work.features)
    return at_work


def one_step(at_work, rows=None, rate=0.05, grad=None):
    """Upload a batch, send a gradient back, learn; return upload and gradient."""
    rows = torch.arange(len(at_work.features)) if rows is None else rows
    upload = at_work.upload(rows, train=True)
    if grad is None:
        grad = torch.randn(upload.shape, generator=seeded(9)) / upload.numel() ** 0.5
    at_work.learn(grad, rate)
    return upload, grad


def copied(module):
    """Return all tensors of a module or a state as they are now."""
    state = module.state_dict() if hasattr(module, "state_dict") else module
    return {name: tensor.clone() for name, tensor in state.items()}
