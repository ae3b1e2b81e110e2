"""A last layer whose scale and shift come from private passports."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.nets.shapes import upload_shape
from colonnade.nets.weights import initialised
from colonnade.strength import number


@DEFENSES.register("fedpass")
class FedPass(Defense):
    """FedPass: a layer behind the bottom model whose scale and shift are computed from two private random passports.

    y = relu(γ · norm(layer(h)) + β), where γ and β come from what the layer makes of the passports, through a small
    auto-encoder each. Passports have the shape of the representation; each channel of one is normal with deviation 1
    around a random whole number, never zero. They are drawn once and never leave the party. One passport for the scale
    and one for the shift; the active party's first layer gets none, so this is the passive party's half of the
    published defense. It hides the weights from who would imitate the bottom model; it removes no information, and an
    attacker with true pairs is not hindered.

    Args:
        reach: passports' means are whole numbers from -reach to reach - 1; larger is stronger.
    """

    name: ClassVar[str] = "fedpass"
    knob: ClassVar[str | None] = "reach"
    cost: ClassVar[str] = "one layer of the representation's width"

    def __init__(self, reach: int = 10) -> None:
        super().__init__()
        self.reach = int(number("fedpass.reach", reach, at_least=1, whole=True))

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Append the passport layer and draw its passports."""
        shape = upload_shape(bottom, input_shape)
        seed = int(torch.randint(2**62, (), generator=self.generator, device=self.generator.device))
        block = initialised(lambda: PassportBlock(shape), seed)
        block.issue(self._passport(shape), self._passport(shape))
        return nn.Sequential(bottom, block)

    def describe(self) -> dict[str, Any]:
        """Return the name and the reach of the passports."""
        return {"name": self.name, "reach": self.reach}

    def _passport(self, shape: tuple[int, ...]) -> Tensor:
        generator, device = self.generator, self.generator.device
        means = torch.randint(-self.reach, self.reach - 1, shape[:1], generator=generator, device=device)
        means += means >= 0  # whole numbers without zero
        noise = torch.randn(shape, generator=generator, device=device)
        return (means.view(-1, *[1] * (len(shape) - 1)) + noise).cpu()


class PassportBlock(nn.Module):
    """A convolution (maps) or a linear layer (vectors), normalised, then scaled and shifted as passports say."""

    scale_passport: Tensor
    shift_passport: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        width = shape[0]
        self.is_map = len(shape) == 3
        self.layer: nn.Module
        self.norm: nn.Module
        if self.is_map:
            self.layer = nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(width, affine=False)
        else:
            self.layer = nn.Linear(width, width, bias=False)
            self.norm = nn.BatchNorm1d(width, affine=False)
        self.scale_encoder = _auto_encoder(width)
        self.shift_encoder = _auto_encoder(width)

    def issue(self, scale: Tensor, shift: Tensor) -> None:
        """Give the block its passports, each of the shape of one representation."""
        self.register_buffer("scale_passport", scale[None])
        self.register_buffer("shift_passport", shift[None])

    def forward(self, h: Tensor) -> Tensor:
        """Return the layer's output for representations `h`."""
        scale = self._stamp(self.scale_encoder, self.scale_passport)
        shift = self._stamp(self.shift_encoder, self.shift_passport)
        return functional.relu(scale * self.norm(self.layer(h)) + shift)

    def _stamp(self, encoder: nn.Module, passport: Tensor) -> Tensor:
        stamp: Tensor = self.layer(passport)
        if self.is_map:
            coded: Tensor = encoder(stamp.mean((2, 3)))
            return coded[:, :, None, None]
        return torch.tanh(encoder(stamp))


def _auto_encoder(width: int) -> nn.Sequential:
    narrow = max(1, width // 4)
    return nn.Sequential(nn.Linear(width, narrow, bias=False), nn.LeakyReLU(), nn.Linear(narrow, width, bias=False))
