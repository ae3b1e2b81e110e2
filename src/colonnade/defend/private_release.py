"""What the two differentially private defenses share: clip, add noise, account."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.checkpoint import named, under
from colonnade.defend.accounting import DELTA, Releases, composed_epsilon
from colonnade.defend.base import Defense, PrivacySpend
from colonnade.defend.noise import NoiseKind, NoiseSource
from colonnade.errors import ConfigError, nearest
from colonnade.strength import number, yes_or_no

MODES = ("calibrated", "paper")
BATCH = 128
BATCHES = 10


class PrivateRelease(Defense, ABC):
    """Noise in proportion to what one record can change.

    Calibrated, every representation is clipped to a norm of at most C, so that exchanging a record for any other moves
    it by at most 2C. C is the median norm over the first ten batches, by the first weights, and then frozen; it is read
    from the data without noise, and that one number is not accounted for. Nor is what a record does to the bottom's
    weights, and through them to other records' uploads: the account is about a record's own uploads.

    Args:
        epsilon: the privacy of one release of one record.
        mode: `calibrated`, or `paper`: noise for a sensitivity of 1 that nothing enforces.
        memoise: give a record the same noise each time.
    """

    knob: ClassVar[str | None] = "epsilon"
    published_strengths: ClassVar[tuple[float, ...]] = (1.0, 1.5, 2.0, 3.0)
    kind: ClassVar[NoiseKind]
    order: ClassVar[int]
    """Which norm is clipped: 1 or 2."""
    delta: float = DELTA
    """At which δ the party's log tells the spent ε."""

    def __init__(self, epsilon: float, mode: str, memoise: bool) -> None:
        super().__init__()
        self.epsilon = number(f"{self.name}.epsilon", epsilon, at_least=0)
        if self.epsilon == 0:
            raise ConfigError(
                "ε = 0 would need infinite noise", where=f"{self.name}.epsilon", remedy="give a number above 0"
            )
        if mode not in MODES:
            raise ConfigError(f"unknown mode {mode!r}", where=f"{self.name}.mode", remedy=nearest(str(mode), MODES))
        self.mode, self.memoise = mode, yes_or_no(f"{self.name}.memoise", memoise)
        self.bound: float | None = None
        self._noise = NoiseSource(self.kind, self.memoise)
        self._releases = Releases()
        self._announced: Tensor | None = None

    @abstractmethod
    def multiplier(self) -> float:
        """Return the noise scale at a sensitivity of 1."""

    def prepare(self, bottom: nn.Module, data: Tensor) -> None:
        """Choose the clipping bound, and begin a new account."""
        self._noise.renew()
        self._releases = Releases()
        if self.mode == "calibrated":
            self.bound = self._median_norm(bottom, data)

    def announce(self, x: Tensor) -> None:
        """Remember whom the next upload is about: a moved picture is the same person's."""
        self._announced = x

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the clipped representation plus noise, in training and in prediction."""
        upload = self._release(x, h, self._noise, self.generator)
        who, self._announced = x if self._announced is None else self._announced, None
        if self._accounts:
            self._releases.count(who)
        return upload

    def rehearse(self, x: Tensor, h: Tensor) -> Tensor:
        """Return what stays at home, and costs nothing."""
        return self._release(x, h, self._noise, self.generator)

    def operator(self) -> Callable[[Tensor], Tensor]:
        """Return the same clipping with fresh noise of the same scale; bound and scale are no secrets."""
        source, generator = NoiseSource(self.kind, memoise=False), self.imitators_stream()
        return lambda h: self._release(h, h, source, generator)

    def fitted(self) -> dict[str, float]:
        """Return the clipping bound, where there is one."""
        return {} if self.bound is None else {"bound": self.bound}

    def load_fitted(self, fitted: Mapping[str, float]) -> None:
        """Take over another's bound."""
        self.bound = float(fitted["bound"]) if self.mode == "calibrated" else None

    def meters(self) -> dict[str, float]:
        """Return ε of everything released so far, for the record released most often."""
        spent = self.spend()
        return {} if spent is None else {"epsilon_spent": composed_epsilon(spent, self.delta)}

    def spend(self) -> PrivacySpend | None:
        """Return what has been spent; None where nothing is claimed: in paper mode, and with memoised noise.

        Two uploads of one record with the same noise differ by exactly what its representation has moved, and no noise
        protects that difference.
        """
        return PrivacySpend(self.kind, self.multiplier(), self._releases.most) if self._accounts else None

    def state_dict(self) -> dict[str, Tensor]:
        """Return the random stream, the noise's key, the bound and the account."""
        state = {**super().state_dict(), **named("noise", self._noise.state_dict())}
        if self.bound is not None:
            state["bound"] = torch.tensor(self.bound, dtype=torch.float64)
        return {**state, **(named("releases", self._releases.state_dict()) if self._accounts else {})}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._noise.load_state_dict(under("noise", state))
        self.bound = state["bound"].item() if "bound" in state else None
        if self._accounts:
            self._releases.load_state_dict(under("releases", state))

    def describe(self) -> dict[str, Any]:
        """Return the name, ε and how the noise is drawn."""
        return {"name": self.name, "epsilon": self.epsilon, "mode": self.mode, "memoise": self.memoise}

    @property
    def _accounts(self) -> bool:
        return self.mode == "calibrated" and not self.memoise

    def _release(self, x: Tensor, h: Tensor, source: NoiseSource, generator: torch.Generator) -> Tensor:
        scale = self.multiplier()
        if self.mode == "calibrated":
            if self.bound is None:
                raise RuntimeError("protect() needs the clipping bound that prepare() chooses")
            h, scale = self._clipped(h, self.bound), 2 * self.bound * scale
        return h + scale * source.draw(x, h, generator)

    def _clipped(self, h: Tensor, bound: float) -> Tensor:
        factor = (bound / self._norms(h).clamp_min(torch.finfo(torch.float32).tiny)).clamp(max=1)
        return h * factor.view(-1, *[1] * (h.dim() - 1)).to(h)

    def _norms(self, h: Tensor) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(h.flatten(1).float(), self.order, dim=1)
        return norms

    @torch.no_grad()
    def _median_norm(self, bottom: nn.Module, data: Tensor) -> float:
        # In training mode, as the first batches will pass; on copies of the buffers, so that no running mean moves.
        buffers = {name: buffer.clone() for name, buffer in bottom.named_buffers()}
        batches = torch.split(data[: BATCH * BATCHES], BATCH)
        norms = [self._norms(torch.func.functional_call(bottom, buffers, (x,))) for x in batches if len(x) > 1]
        bound = torch.cat(norms).median().item() if norms else 0.0
        if bound == 0:
            raise ConfigError(
                "representations are zero, so there is no norm to clip at",
                where=f"defense '{self.name}'",
                remedy="check the records, or use mode='paper'",
            )
        return bound
