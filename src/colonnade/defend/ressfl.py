"""ResSFL: a narrow cut, and a bottom that is trained so that a local inversion model stays bad."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.data.preparation import FeaturePreparation, ImagePreparation
from colonnade.defend.adversary import LearnedDefense, slope
from colonnade.defend.registry import DEFENSES
from colonnade.nets.blocks import Dense
from colonnade.nets.shapes import Shape, upload_shape
from colonnade.nets.weights import initialised
from colonnade.strength import number

LEARNING_RATE = 1e-3
THRESHOLD = 0.5
"""A structural similarity below this is no leak; the bottom is not pushed any further."""
WARM_UP_BATCH = 128


@DEFENSES.register("ressfl")
class ResSFL(LearnedDefense):
    """ResSFL (Li et al. 2022), its online form: a bottleneck without ReLU, and attacker-aware training.

    Before training a local inversion model learns for `warm_up` epochs. Then, for each batch, it learns one step and
    the bottom's loss gets `weight` x max(SSIM(guess, record) - 0.5, 0). Tables have no structure to compare: there it
    is - `weight` x the inversion model's squared error, capped at that of the mean guess, without which a bottom
    could win for ever by stretching its uploads.

    Different from the published code: the inversion model is the house's decoder, it learns from the uploads
    themselves rather than from a second pass in evaluation mode, its learning rate does not fall, and no expert is
    trained beforehand on a labelled public task. The top model is built for the narrow upload, so it needs no mirrored
    layer.

    Args:
        weight: of the inversion model in the bottom's loss (delta).
        channels: width of the bottleneck.
        warm_up: epochs for which the inversion model learns before training.
    """

    name: ClassVar[str] = "ressfl"
    knob: ClassVar[str | None] = "weight"
    published_strengths: ClassVar[tuple[float, ...]] = (0.3,)
    cost: ClassVar[str] = (
        "3.2 x an undefended step: a step of a decoder and a pass through it; before training, its warm-up"
    )

    def __init__(self, weight: float = 0.3, channels: int = 8, warm_up: int = 30) -> None:
        super().__init__()
        self.weight = number("ressfl.weight", weight, at_least=0)
        self.channels = int(number("ressfl.channels", channels, at_least=1, whole=True))
        self.warm_up = int(number("ressfl.warm_up", warm_up, at_least=0, whole=True))
        self._mean: Tensor | None = None

    def meet(self, preparation: FeaturePreparation) -> None:
        """Learn how prepared numbers become pixels."""
        super().meet(preparation)
        if isinstance(preparation, ImagePreparation):
            self._mean = torch.tensor(preparation.statistics.mean)[:, None, None]

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Append the bottleneck and make the inversion model."""
        wide = upload_shape(bottom, input_shape)
        extended = nn.Sequential(bottom, initialised(lambda: _bottleneck(wide, self.channels), self.new_seed()))
        self.hire_adversary(upload_shape(extended, input_shape), input_shape, LEARNING_RATE)
        return extended

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Warm the inversion model up on the untrained bottom's uploads."""
        self.resume(bottom, data)
        bottom.eval()
        for _ in range(self.warm_up):
            order = torch.randperm(len(data), generator=self.generator, device=self.generator.device)
            for rows in torch.split(order, WARM_UP_BATCH):
                with torch.no_grad():
                    upload = bottom(data[rows])
                self._teach(upload, data[rows])

    def resume(self, bottom: nn.Module, data: Tensor) -> None:
        """Measure the error of the mean guess; a warm inversion model is loaded."""
        super().prepare(bottom, data)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Teach the inversion model, then add what it could see to the bottom's loss."""
        self._teach(upload, x)
        local = slope(lambda upload: self._leak(upload, x), upload)
        upload.backward(grad + self.weight * local)  # type: ignore[no-untyped-call]

    def describe(self) -> dict[str, Any]:
        """Return the name, the weight, the width and the warm-up."""
        return {"name": self.name, "weight": self.weight, "channels": self.channels, "warm_up": self.warm_up}

    def _teach(self, upload: Tensor, x: Tensor) -> None:
        if self._mean is None:
            self.adversary.learn(upload, x)
        else:
            self.adversary.descend(-self._similarity(upload.detach(), x, train=True))

    def _leak(self, upload: Tensor, x: Tensor) -> Tensor:
        if self._mean is None:
            return -self.adversary.capped_error(upload, x)
        return (self._similarity(upload, x, train=False) - THRESHOLD).clamp(min=0)

    def _similarity(self, upload: Tensor, x: Tensor, *, train: bool) -> Tensor:
        return structural_similarity(self._pixels(self.adversary(upload, train=train)), self._pixels(x)).mean()

    def _pixels(self, prepared: Tensor) -> Tensor:
        assert self._mean is not None
        return prepared * self.unit.to(prepared) + self._mean.to(prepared)


def structural_similarity(guesses: Tensor, images: Tensor) -> Tensor:
    """Return the mean SSIM of each image with values from 0 to 1 (Wang et al. 2004), differentiable.

    The window is a gaussian of 11 x 11 pixels and deviation 1.5; on strips that are narrower, it is cut to fit.
    Only windows that lie inside the image count.
    """
    channels, *sides = images.shape[1:]
    window = torch.outer(*(_gaussian(min(11, side), images) for side in sides)).expand(channels, 1, -1, -1)

    def blur(maps: Tensor) -> Tensor:
        return functional.conv2d(maps, window, groups=channels)

    mean_1, mean_2 = blur(guesses), blur(images)
    variance_1, variance_2 = blur(guesses**2) - mean_1**2, blur(images**2) - mean_2**2
    covariance = blur(guesses * images) - mean_1 * mean_2
    luminance = (2 * mean_1 * mean_2 + 0.01**2) / (mean_1**2 + mean_2**2 + 0.01**2)
    structure = (2 * covariance + 0.03**2) / (variance_1 + variance_2 + 0.03**2)
    return (luminance * structure).mean(dim=(1, 2, 3))


def _gaussian(size: int, like: Tensor) -> Tensor:
    places = torch.arange(size, dtype=like.dtype, device=like.device) - (size - 1) / 2
    weights = torch.exp(-(places**2) / (2 * 1.5**2))
    return weights / weights.sum()


def _bottleneck(wide: Shape, channels: int) -> nn.Module:
    return nn.Conv2d(wide[0], channels, 3, padding=1) if len(wide) == 3 else Dense(wide[0], channels)
