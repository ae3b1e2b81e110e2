"""The attackers that are networks: a perceptron for anything, convolutions for maps."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.attack.attribute.base import ATTRIBUTE_ATTACKERS, AttributeAttacker, Pairs, Predictor, Uploads
from colonnade.federation.task import OptimizerSettings
from colonnade.learn.optimize import Optimizer
from colonnade.nets.adversarial import Dropout
from colonnade.nets.blocks import Dense
from colonnade.nets.shapes import Shape
from colonnade.nets.weights import initialised, mixed_seed

_EPOCHS = 100
_PATIENCE = 15  # epochs without a better one on the pairs held back
_BATCHES, _SMALLEST, _LARGEST = 16, 16, 256  # an epoch has so many steps at least, as long as batches are that large
_RATE, _DECAY = 1e-3, 1e-4
_AT_ONCE = 4096  # uploads that are read together once the network has learned
_SMALL = 8  # a map whose sides are at most so long is read as it is


class NetworkAttacker(AttributeAttacker):
    """A network trained with AdamW (rate 1e-3, decay 1e-4), at most 100 epochs, left as it was after its best one."""

    @abstractmethod
    def _network(self, shape: Shape, outputs: int) -> nn.Module:
        """Return the untrained network for uploads of `shape`."""

    def _learn(self, train: Pairs, held_back: Pairs) -> Predictor:
        network = self._network(train.uploads.shape[1:], max(train.classes, 1)).to(self.device)
        optimizer = Optimizer(network.parameters(), OptimizerSettings(name="adamw", weight_decay=_DECAY))
        uploads, secret = (torch.from_numpy(part).to(self.device) for part in (train.uploads, train.secret))
        size = min(max(len(secret) // _BATCHES, _SMALLEST), _LARGEST)
        generator = torch.Generator().manual_seed(mixed_seed(self.random_seed, 1))
        best_error, best, waited = math.inf, copy.deepcopy(network.state_dict()), 0
        for _ in range(_EPOCHS):
            network.train()
            for rows in torch.split(torch.randperm(len(secret), generator=generator), size):
                if len(rows) > 1:  # batch normalisation can't take a single record
                    here = rows.to(self.device)
                    loss = _loss(network(uploads[here]), secret[here], train.classes)
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step(_RATE)
            error, waited = held_back.error(self._predict(network, held_back.uploads, train.classes)), waited + 1
            if error < best_error:
                best_error, best, waited = error, copy.deepcopy(network.state_dict()), 0
            if waited == _PATIENCE:
                break
        network.load_state_dict(best)
        return lambda unseen: self._predict(network, unseen, train.classes)

    @torch.no_grad()
    def _predict(self, network: nn.Module, uploads: Uploads, classes: int) -> npt.NDArray[np.float64]:
        network.eval()
        outputs = [network(part.to(self.device)).cpu() for part in torch.split(torch.from_numpy(uploads), _AT_ONCE)]
        told = torch.cat(outputs).double()
        return (told.softmax(1) if classes else told.squeeze(1)).numpy()


@ATTRIBUTE_ATTACKERS.register("mlp")
class MlpAttacker(NetworkAttacker):
    """A perceptron with two hidden layers of 256 and a dropout of a fifth."""

    name: ClassVar[str] = "mlp"

    def _network(self, shape: Shape, outputs: int) -> nn.Module:
        def build() -> nn.Module:
            layers: list[nn.Module] = []
            width = math.prod(shape)
            for place in range(2):
                layers += [Dense(width, 256), nn.ReLU(), Dropout(0.2, mixed_seed(self.random_seed, 2, place) >> 1)]
                width = 256
            return nn.Sequential(*layers, Dense(width, outputs))

        return initialised(build, self.random_seed)


@ATTRIBUTE_ATTACKERS.register("conv")
class ConvAttacker(NetworkAttacker):
    """Convolutions, the mean over all places, and a linear layer; for maps only.

    Maps of at most 8 by 8 are read by one convolution; larger ones, and pictures, by one more for each halving, so that
    it sees shapes and not only textures.
    """

    name: ClassVar[str] = "conv"
    maps_only: ClassVar[bool] = True

    def _network(self, shape: Shape, outputs: int) -> nn.Module:
        channels, *size = shape
        halvings = max(math.ceil(math.log2(max(size) / _SMALL)), 0)

        def build() -> nn.Module:
            layers = _convolution(channels, stride=1)
            for _ in range(halvings):
                layers += _convolution(64, stride=2)
            return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), Dense(64, outputs))

        return initialised(build, self.random_seed)


def _convolution(channels: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, 64, 3, stride, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]


def _loss(outputs: Tensor, secret: Tensor, classes: int) -> Tensor:
    if classes:
        return functional.cross_entropy(outputs, secret)
    return functional.mse_loss(outputs.squeeze(1), secret)
