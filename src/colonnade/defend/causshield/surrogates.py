"""Surrogates of images: the same thing in other colours, light or texture (Eq. 8-10 and what can stand in for them)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor
from torch.nn import functional

from colonnade.data.image_preparation import ImagePreparation
from colonnade.defend.causshield.colour import ColourSurrogates
from colonnade.errors import ConfigError

SurrogateKind = Literal["auto", "lab", "fourier", "jitter", "lab+fourier", "grey"]
SURROGATES: tuple[str, ...] = get_args(SurrogateKind)

LUMA = (0.299, 0.587, 0.114)


class Surrogates(Protocol):
    """Draws, for each record, another one that differs in what does not matter for the task."""

    def fit(self, data: Tensor, generator: torch.Generator) -> None:
        """Learn from the party's training records whatever drawing needs."""

    def recall(self, data: Tensor) -> None:
        """Take from the records, before `load_state_dict`, what `state_dict` does not hold."""

    def draw(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return one surrogate for each record of `x`; another one at every call."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return what was learned."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""


class ImageSurrogates:
    """Turns prepared images into pixels, changes them in one or two ways, and prepares them again.

    Args:
        kind: `lab`, `fourier`, `jitter`, `lab+fourier`, `grey`, or `auto`: `lab` for three channels, else `grey`.
        shape: channels, height, width.
        preparation: how pixels became prepared numbers; None if they are pixels still.
        l_mode: what `lab` does with lightness, see `ColourSurrogates`.
        epochs: passes over the records when the networks of `lab` are trained.
    """

    def __init__(
        self, kind: str, shape: tuple[int, ...], preparation: ImagePreparation | None, l_mode: str, epochs: int
    ) -> None:
        chosen = ("lab" if shape[0] == 3 else "grey") if kind == "auto" else kind
        if "lab" in chosen and shape[0] != 3:
            raise ConfigError(
                f"images of {shape[0]} channels have no Lab colours",
                where="causshield.surrogate",
                remedy="use grey, fourier or jitter",
            )
        self.steps = chosen.split("+")
        self.colour = ColourSurrogates(l_mode, epochs) if "lab" in self.steps else None
        mean, scale = [0.0], [1.0]
        if preparation is not None:
            mean, scale = preparation.statistics.mean, preparation.statistics.scale
        self._mean, self._scale = (torch.tensor(values).reshape(-1, 1, 1) for values in (mean, scale))

    def fit(self, data: Tensor, generator: torch.Generator) -> None:
        """Train the colour networks, if these surrogates have any."""
        if self.colour:
            self.colour.fit(self._pixels(data), generator)

    def recall(self, data: Tensor) -> None:
        """Put the colour networks, which are loaded, where the records are."""
        if self.colour:
            self.colour.to(data.device)

    @torch.no_grad()
    def draw(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return one surrogate for each prepared image."""
        pixels = self._pixels(x)
        for step in self.steps:
            if step == "lab":
                assert self.colour is not None
                pixels = self.colour.draw(pixels, generator)
            else:
                pixels = _WAYS[step](pixels, generator)
        return (pixels - self._mean.to(x)) / self._scale.to(x)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the colour networks."""
        return self.colour.state_dict() if self.colour else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        if self.colour:
            self.colour.load_state_dict(state)

    def _pixels(self, x: Tensor) -> Tensor:
        return (x * self._scale.to(x) + self._mean.to(x)).clamp(0, 1)


def fourier(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Mix each image's amplitudes with those of another image of the batch, by a random share; keep its phases.

    This is CIRL's intervention: phases hold the shapes, amplitudes the light and the texture.
    """
    others = torch.randperm(len(pixels), generator=generator, device=generator.device).to(pixels.device)
    share = _uniform(len(pixels), 0, 1, generator, pixels)
    spectrum = torch.fft.rfft2(pixels)
    amplitude = spectrum.abs()
    mixed = share * amplitude[others] + (1 - share) * amplitude
    changed: Tensor = torch.fft.irfft2(torch.polar(mixed, spectrum.angle()), s=pixels.shape[-2:])
    return changed.clamp(0, 1)


def jitter(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Change brightness, contrast and, of coloured images, saturation and hue, at random for each image."""
    count, channels = pixels.shape[:2]
    bright = pixels * _uniform(count, 0.6, 1.4, generator, pixels)
    middle = bright.mean(dim=(1, 2, 3), keepdim=True)
    changed = middle + (bright - middle) * _uniform(count, 0.6, 1.4, generator, pixels)
    if channels == 3:
        luma = (changed * changed.new_tensor(LUMA).reshape(1, 3, 1, 1)).sum(1, keepdim=True)
        saturated = (changed - luma) * _uniform(count, 0.3, 1.7, generator, pixels)
        changed = luma + _turned(saturated, _uniform(count, -1.0, 1.0, generator, pixels))
    return changed.clamp(0, 1)


def grey(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Change stroke width, tone and background of grey images, at random for each; shapes stay.

    Images without colour leave Eq. 8-10 undefined. So: strokes one pixel wider or narrower or as they are, a gamma
    curve from 1/2 to 2, blurred noise where the image is dark, and every tenth image inverted.
    """
    count = len(pixels)
    stroke = torch.randint(-1, 2, (count, 1, 1, 1), generator=generator, device=generator.device).to(pixels.device)
    wide = functional.max_pool2d(pixels, 3, stride=1, padding=1)
    narrow = -functional.max_pool2d(-pixels, 3, stride=1, padding=1)
    changed = torch.where(stroke > 0, wide, torch.where(stroke < 0, narrow, pixels))
    changed = changed.clamp_min(1e-6) ** (2 ** _uniform(count, -1, 1, generator, pixels))
    texture = _blurred_noise(pixels.shape, generator).to(pixels) * _uniform(count, 0.1, 0.3, generator, pixels)
    changed = (changed + (1 - changed) * texture).clamp(0, 1)
    return torch.where(_uniform(count, 0, 1, generator, pixels) < 0.1, 1 - changed, changed)


_WAYS = {"fourier": fourier, "jitter": jitter, "grey": grey}


def _uniform(count: int, low: float, high: float, generator: torch.Generator, like: Tensor) -> Tensor:
    """Return one number for each image, shaped so that it spreads over the image."""
    drawn = torch.rand(count, 1, 1, 1, generator=generator, device=generator.device).to(like)
    return low + (high - low) * drawn


def _turned(colours: Tensor, angle: Tensor) -> Tensor:
    """Turn colours about the grey axis by `angle` (Rodrigues' formula): a change of hue."""
    axis = 3**-0.5
    crossed = axis * (colours.roll(1, 1) - colours.roll(-1, 1))
    along = colours.mean(dim=1, keepdim=True)
    return colours * angle.cos() + crossed * angle.sin() + along * (1 - angle.cos())


def _blurred_noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Return noise of deviation 1 that is alike among neighbouring pixels."""
    noise = torch.randn(shape, generator=generator, device=generator.device)
    blurred = functional.avg_pool2d(noise, 3, stride=1, padding=1, count_include_pad=False)
    return blurred / blurred.std(dim=(2, 3), keepdim=True).clamp_min(1e-6)
