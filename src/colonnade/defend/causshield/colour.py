"""Colour surrogates (Eq. 8-10): one network guesses the colours from the brightness, another the reverse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.checkpoint import named, under
from colonnade.defend.causshield.masker import gumbel
from colonnade.nets.device import precision
from colonnade.nets.surrogate import build_surrogate

LightnessMode = Literal["a2", "copy", "mix"]
LIGHTNESS_MODES: tuple[str, ...] = get_args(LightnessMode)

GRID = 10
"""Width of a colour bin in units of ab; ab runs from -110 to 110 and lightness from 0 to 100."""
AB_SCALE, LIGHTNESS_SCALE = 110.0, 100.0
NEAREST, SPREAD = 10, 5.0
"""A true colour is a Gaussian of this spread over its nearest bins."""
ANNEALED = 0.38
WINDOW_VARIANCE, WINDOW_WEIGHT = 0.005, 10.0
"""v_e and mu of Eq. 9, for colours divided by 110: about three times the mean variance of real images' 4x4 windows."""
DIVERSITY = 2.0
BATCH = 128
FIRST_RATE, LAST_RATE = 1e-3, 1e-4


class ColourSurrogates:
    """Recolours images, per image at random; lightness is kept, guessed anew from the colours, or halfway between.

    Plain decoding would give plausible, nearly true colours. One Gumbel vector for each image, the same at all of its
    pixels, shifts the odds of the bins: the image is recoloured as a whole, and otherwise at every draw.
    Lightness is no function of colour, so A2's guess is a blur: the strongest change that this surrogate makes, and
    not the faithful structure that its authors see in it.

    Args:
        l_mode: `a2` (as published), `copy` or `mix`.
        epochs: passes over the records when the two networks are trained.
    """

    def __init__(self, l_mode: str, epochs: int) -> None:
        self.l_mode, self.epochs = l_mode, epochs
        self.colours: nn.Module = build_surrogate(1, len(colour_bins()), seed=0)
        self.lightness: nn.Module = build_surrogate(2, 1, seed=0)

    def fit(self, pixels: Tensor, generator: torch.Generator) -> None:
        """Train A1 and A2 on images in [0, 1]."""
        seeds = torch.randint(2**62, (2,), generator=generator, device=generator.device).tolist()
        self.colours = build_surrogate(1, len(colour_bins()), seed=seeds[0]).to(pixels.device)
        self.lightness = build_surrogate(2, 1, seed=seeds[1]).to(pixels.device)
        weights = rebalancing(_bin_shares(pixels))
        side = window_side(pixels.shape[-2], pixels.shape[-1])

        def colour_loss(lightness: Tensor, ab: Tensor) -> Tensor:
            logits = _output(self.colours, lightness / LIGHTNESS_SCALE - 0.5)
            return colour_error(logits, ab, weights) + WINDOW_WEIGHT * window_error(annealed_mean(logits), side)

        def lightness_loss(lightness: Tensor, ab: Tensor) -> Tensor:
            return functional.mse_loss(_output(self.lightness, ab / AB_SCALE), lightness / LIGHTNESS_SCALE)  # Eq. 10

        networks = nn.ModuleList([self.colours, self.lightness]).train()
        optimizer = torch.optim.Adam(networks.parameters(), lr=FIRST_RATE, fused=True)
        for epoch in range(self.epochs):
            optimizer.param_groups[0]["lr"] = _rate(epoch, self.epochs)
            order = torch.randperm(len(pixels), generator=generator, device=generator.device)
            for rows in torch.split(order.to(pixels.device), BATCH):
                parts = split_lab(pixels[rows])
                optimizer.zero_grad()
                # The networks share no weight, so the sum trains each on its own loss.
                (colour_loss(*parts) + lightness_loss(*parts)).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        networks.eval()

    @torch.no_grad()
    def draw(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """Return a recoloured version of each image in [0, 1]."""
        lightness, ab = split_lab(pixels)
        logits = _output(self.colours, lightness / LIGHTNESS_SCALE - 0.5)
        noise = gumbel((len(pixels), logits.shape[1], 1, 1), generator).to(logits)
        recoloured = annealed_mean(logits + DIVERSITY * noise) * AB_SCALE
        return join_lab(self._lightness(lightness, ab), recoloured)

    def to(self, device: torch.device) -> None:
        """Move both networks."""
        self.colours.to(device)
        self.lightness.to(device)

    def state_dict(self) -> dict[str, Tensor]:
        """Return both networks' weights."""
        return {**named("colours", self.colours.state_dict()), **named("lightness", self.lightness.state_dict())}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        for name, network in (("colours", self.colours), ("lightness", self.lightness)):
            network.load_state_dict(under(name, state))
            network.eval()

    def _lightness(self, lightness: Tensor, ab: Tensor) -> Tensor:
        if self.l_mode == "copy":
            return lightness
        guessed = _output(self.lightness, ab / AB_SCALE) * LIGHTNESS_SCALE
        return guessed if self.l_mode == "a2" else 0.5 * (lightness + guessed)


def _output(network: nn.Module, x: Tensor) -> Tensor:
    """Return what a network makes of `x`; surrogates are drawn at random, so half the digits do."""
    with precision(x.device, mixed=True):
        output: Tensor = network(x)
    return output.float()


def split_lab(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return lightness (0 to 100) and ab of sRGB images in [0, 1]."""
    from kornia.color import rgb_to_lab

    lab = rgb_to_lab(pixels)
    return lab[:, :1], lab[:, 1:]


def join_lab(lightness: Tensor, ab: Tensor) -> Tensor:
    """Return sRGB images in [0, 1]; colours that no screen can show are clipped."""
    from kornia.color import lab_to_rgb

    return lab_to_rgb(torch.cat([lightness.clamp(0, LIGHTNESS_SCALE), ab], dim=1)).clamp(0, 1)


@cache
def colour_bins() -> Tensor:
    """Return the (Q, 2) grid points of ab around all sRGB colours: the four corners of every cell that holds one.

    A line of equal ab through the colour cube leaves it at its surface, so the surface has every ab there is.

    >>> colour_bins().shape
    torch.Size([309, 2])
    """
    scale = torch.arange(256) / 255
    face = torch.cartesian_prod(scale, scale)
    faces = [
        torch.cat([face, torch.full((len(face), 1), end)], dim=1).roll(turn, 1) for turn in range(3) for end in (0, 1)
    ]
    colours = torch.cat(faces).T.reshape(1, 3, -1, 1)
    cells = split_lab(colours)[1][0, :, :, 0].div(GRID).floor().long() + _OFFSET
    found = torch.zeros(2 * _OFFSET, 2 * _OFFSET, dtype=torch.bool)
    for right in (0, 1):
        for up in (0, 1):
            found[cells[0] + right, cells[1] + up] = True
    return (found.nonzero() - _OFFSET).float() * GRID


_OFFSET = 16  # cells to the left of zero: more than any colour needs


def soft_bins(ab: Tensor) -> tuple[Tensor, Tensor]:
    """Return (pixels, 10) bins and weights that stand for each of the (pixels, 2) true colours."""
    distances, bins = torch.cdist(ab, colour_bins().to(ab)).topk(NEAREST, dim=1, largest=False)
    return bins, functional.softmax(-distances.square() / (2 * SPREAD**2), dim=1)


def rebalancing(shares: Tensor) -> Tensor:
    """Return the weight of each bin: rare colours count more, and the mean weight under `shares` is 1."""
    weights = 1 / (0.5 * shares + 0.5 / len(shares))
    return weights / (weights * shares).sum()


def colour_error(logits: Tensor, ab: Tensor, weights: Tensor) -> Tensor:
    """Return the mean over pixels of the cross entropy with the soft bins (Eq. 8), each weighted by its nearest bin."""
    count, _, height, width = ab.shape
    # Bins go to where the logits of a pixel lie; a copy of all logits would cost as much as the networks.
    bins, target = (
        found.view(count, height, width, NEAREST).movedim(-1, 1)
        for found in soft_bins(ab.movedim(1, -1).flatten(0, -2))
    )
    entropy = -(target * functional.log_softmax(logits, dim=1).gather(1, bins)).sum(1)
    return (weights.to(entropy)[bins[:, 0]] * entropy).mean()


def annealed_mean(logits: Tensor) -> Tensor:
    """Return the colours that (N, Q, H, W) logits stand for, in units of 110: a mean over sharpened odds."""
    odds = functional.softmax(logits / ANNEALED, dim=1)
    return functional.conv2d(odds, (colour_bins().to(odds) / AB_SCALE).T[:, :, None, None])


def window_side(height: int, width: int) -> int:
    """Return the side of the windows of Eq. 9: four pixels where the image can be divided so, else two."""
    return 4 if height % 4 == 0 and width % 4 == 0 else 2


def window_error(ab: Tensor, side: int) -> Tensor:
    """Return the mean over windows of (variance - v_e)^2 (Eq. 9), the variance being that of a and b averaged.

    The published bracket takes v_e from the pixels, which leaves the variance as it is; this is the reading that
    makes sense. What is left beside the last whole window is not looked at.
    """
    windows = ab.unfold(2, side, side).unfold(3, side, side).flatten(4)
    variance = windows.var(dim=-1, correction=0).mean(dim=1)
    return (variance - WINDOW_VARIANCE).square().mean()


def _bin_shares(pixels: Tensor) -> Tensor:
    """Return how often each bin is the nearest one, over all pixels."""
    counts = torch.zeros(len(colour_bins()), device=pixels.device)
    for part in torch.split(pixels, BATCH):
        ab = split_lab(part)[1].movedim(1, -1).flatten(0, -2)
        nearest = torch.cdist(ab, colour_bins().to(ab)).argmin(dim=1)
        counts += torch.bincount(nearest, minlength=len(counts))
    return counts / counts.sum()


def _rate(epoch: int, epochs: int) -> float:
    """Return the learning rate of `epoch`: a half cosine from first to last."""
    progress = epoch / max(epochs - 1, 1)
    return LAST_RATE + (FIRST_RATE - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * progress))
