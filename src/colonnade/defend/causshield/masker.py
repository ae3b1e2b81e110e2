"""The masker (Eq. 15-19): which dimensions of a representation score high, and losses that sharpen the scores.

No label, no task and no surrogate difference enters these losses, so the scores say nothing about the task: they
sharpen their own first order. On the toy of `tests/defend/test_causshield.py` half of them go to 1, half to 0.
It is kept because it is published; its weight is small, and it can be switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from colonnade.checkpoint import named, under
from colonnade.defend.causshield.moments import load_moments, moments
from colonnade.nets.shapes import Shape
from colonnade.nets.weights import initialised

MaskSource = Literal["masker", "grad", "none"]
MASK_SOURCES: tuple[str, ...] = get_args(MaskSource)

TEMPERATURE = 0.5
LEARNING_RATE = 1e-3
HIDDEN_CHANNELS = 64


class Masker:
    """Scores every dimension (channel or feature) of a representation, and learns to tell high from low.

    Args:
        shape: shape of one representation, (F,) or (C, H, W).
        share: part of the dimensions that counts as upper (tau).
        seed: the same seed gives the same first weights.
        device: where it lives.
    """

    def __init__(self, shape: Shape, share: float, seed: int, device: torch.device) -> None:
        self.network = initialised(lambda: _network(shape), seed).to(device)
        self.count = int(share * shape[0])
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE, fused=True)

    def shortfall(self, raw: Tensor) -> Tensor:
        """Return the generator's part of Eq. 19, the mean of (1 - z)^2."""
        return (1 - torch.sigmoid(self.network(raw))).square().mean()

    def freeze(self, frozen: bool) -> None:
        """Let no gradient reach the masker's own weights, or let it."""
        self.network.requires_grad_(not frozen)

    def learn(self, raw: Tensor, altered: Tensor, generator: torch.Generator, upper: Tensor | None) -> None:
        """Take one step on l_upp + l_low (Eq. 17, 18), `raw` and `altered` being detached representations.

        Args:
            raw: representations of records.
            altered: representations of their surrogates.
            generator: where the Gumbel noise comes from.
            upper: which dimensions are upper, one 0 or 1 each, known from elsewhere; None samples them (Eq. 16).
        """
        self.freeze(False)
        logits = self.network(torch.cat([raw, altered])).float()
        mask = sample_upper(logits, self.count, generator) if upper is None else upper.expand_as(logits)
        loss = score_loss(torch.sigmoid(logits), mask)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def state_dict(self) -> dict[str, Tensor]:
        """Return weights and moments."""
        return {**named("network", self.network.state_dict()), **named("moments", moments(self._optimizer))}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.network.load_state_dict(under("network", state))
        load_moments(self._optimizer, under("moments", state))


def sample_upper(logits: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return m_upp (Eq. 16): 1 at the `count` highest of logits plus Gumbel noise, in each row; 0 elsewhere.

    The gradient is that of sigmoid((logits + noise) / temperature), straight through. The iterated soft sampling
    that CIRL released feeds its own output back as logits and ends nearly independent of them; this does not.
    """
    noisy = logits + gumbel(logits.shape, generator).to(logits)
    hard = torch.zeros_like(logits).scatter_(-1, noisy.topk(count, dim=-1).indices, 1.0)
    soft = torch.sigmoid(noisy / TEMPERATURE)
    # In this order the value is exactly 0 or 1.
    return hard + (soft - soft.detach())


def gumbel(shape: torch.Size | tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return Gumbel noise of `shape`, on the generator's device."""
    drawn = torch.empty(shape, device=generator.device).exponential_(generator=generator)
    return -drawn.clamp_min(1e-20).log()


def score_loss(scores: Tensor, upper: Tensor) -> Tensor:
    """Return l_upp + l_low (Eq. 17, 18) as a mean over dimensions and rows: scores of upper dimensions go to 1.

    Rows are records and surrogates alike. The papers' sums differ from it by a constant factor.
    """
    return ((1 - scores).square() * upper + scores.square() * (1 - upper)).mean()


class _Pooled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(x, 1).flatten(1)


def _network(shape: Shape) -> nn.Sequential:
    """Return the scoring network. Group and layer norms: a record's score must not depend on the rest of the batch."""
    if len(shape) == 1:
        features = shape[0]
        return nn.Sequential(
            *(nn.Linear(features, 4 * features), nn.LayerNorm(4 * features), nn.ReLU()),
            nn.Linear(4 * features, features),
        )
    channels = shape[0]
    return nn.Sequential(
        *(nn.Conv2d(channels, HIDDEN_CHANNELS, 3, 2, padding=1), nn.GroupNorm(1, HIDDEN_CHANNELS), nn.ReLU()),
        *(nn.Conv2d(HIDDEN_CHANNELS, HIDDEN_CHANNELS, 3, padding=1), nn.GroupNorm(1, HIDDEN_CHANNELS), nn.ReLU()),
        _Pooled(),
        nn.Linear(HIDDEN_CHANNELS, channels),
    )
