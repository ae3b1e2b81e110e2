"""DNP: noise on the record itself, along the directions that the bottom model shows best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from colonnade.data.preparation import FeaturePreparation, ImagePreparation
from colonnade.defend.adversary import TABLE_UNIT, unit_scale
from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.errors import ConfigError
from colonnade.measure.risk import common_directions, spectrum
from colonnade.strength import number

SAMPLE = 16
"""Records of a batch on which common directions are found."""


@DEFENSES.register("invl_dnp")
class InvLDNP(Defense):
    """DNP (InvLoss, USENIX Security 2025): records are disturbed along their sensitive directions before the bottom.

    The directions are the first right singular vectors v_i of the bottom's Jacobian; the record becomes
    x + noise sqrt(d / rank) sum_i xi_i v_i with xi_i ~ N(0, 1), cut to the range of pixels. Neither text nor code of
    the original could be obtained: this is a reconstruction from two quoted formulas. One unit of `noise` is the range
    of a pixel; of a column, four standard deviations. The noise is fresh for every upload.

    In training a batch goes through the bottom twice, as it is and disturbed, and each pass moves the running
    statistics of batch normalisations. Predictions are made of disturbed records alone: about half of what they are
    normalised by comes from undisturbed ones.

    With `refresh` 1 each record has directions of its own, found anew for each upload: as defined, and dear.
    With more, all records share directions that are found on every so manyth batch; an attacker who knows pairs can
    learn to leave a shared subspace out, so this is the weaker defense.

    Args:
        noise: root of the mean squared disturbance of a value (n).
        rank: number of directions.
        refresh: every how many training uploads directions are found anew.
    """

    name: ClassVar[str] = "invl_dnp"
    imitated_by_bottom: ClassVar[bool] = True
    knob: ClassVar[str | None] = "noise"
    published_strengths: ClassVar[tuple[float, ...]] = (0.08, 0.12, 0.15)
    cost: ClassVar[str] = (
        "1.4 x an undefended step: a pass; now and then 25 bottom steps to find directions; 100 at each upload with "
        "refresh 1"
    )

    def __init__(self, noise: float = 0.12, rank: int = 32, refresh: int = 50) -> None:
        super().__init__()
        self.noise = number(f"{self.name}.noise", noise, at_least=0)
        self.rank = int(number(f"{self.name}.rank", rank, at_least=1, whole=True))
        self.refresh = int(number(f"{self.name}.refresh", refresh, at_least=1, whole=True))
        self._unit = torch.tensor(TABLE_UNIT)
        self._range: tuple[Tensor, Tensor] | None = None
        self._bottom: nn.Module | None = None
        self._directions: Tensor | None = None
        self._uploads = 0

    def meet(self, preparation: FeaturePreparation) -> None:
        """Learn what a prepared unit is worth, and what black and white are."""
        self._unit = unit_scale(preparation)
        if isinstance(preparation, ImagePreparation):
            mean = torch.tensor(preparation.statistics.mean)[:, None, None]
            self._range = (-mean / self._unit, (1 - mean) / self._unit)

    def extend(self, bottom: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
        """Remember the bottom, whose Jacobian decides; it stays as it is."""
        self._bottom, self._directions, self._uploads = bottom, None, 0
        return bottom

    def protect(self, x: Tensor, h: Tensor, train: bool) -> Tensor:
        """Return the representation of the disturbed records."""
        disturbed = x + self._disturbance(x, train)
        if self._range is not None:
            low, high = self._range
            disturbed = disturbed.clamp(low.to(x), high.to(x))
        upload: Tensor = self.bottom(disturbed)
        return upload

    def finish(self, bottom: nn.Module, data: Tensor) -> None:
        """Find the common directions of the trained bottom."""
        if self.refresh > 1:
            rows = torch.randperm(len(data), generator=self.generator, device=self.generator.device)[:SAMPLE]
            self._directions = self._find(data[rows.to(data.device)])

    def state_dict(self) -> dict[str, Tensor]:
        """Return the stream, the common directions and their age."""
        state = {**super().state_dict(), "uploads": torch.tensor(self._uploads)}
        return state if self._directions is None else {**state, "directions": self._directions}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._uploads = int(state["uploads"])
        directions = state.get("directions")
        self._directions = None if directions is None else directions.to(self.generator.device, copy=True)

    def describe(self) -> dict[str, Any]:
        """Return the name, the noise, the number of directions and how often they are found."""
        return {"name": self.name, "noise": self.noise, "rank": self.rank, "refresh": self.refresh}

    @property
    def bottom(self) -> nn.Module:
        """The bottom model that the records go through."""
        if self._bottom is None:
            raise ConfigError("it has not seen the bottom model", where=self.name, remedy="call extend first")
        return self._bottom

    def _disturbance(self, x: Tensor, train: bool) -> Tensor:
        """Draw noise for each record along its sensitive directions, in prepared units."""
        directions = self._current_directions(x, train)
        rank, size = directions.shape[-2:]
        draw = torch.randn((len(x), 1, rank), generator=self.generator, device=self.generator.device).to(x)
        moved = self.noise * math.sqrt(size / rank) * (draw @ directions)
        return moved.view(x.shape) / self._unit.to(x)

    def _current_directions(self, x: Tensor, train: bool) -> Tensor:
        """Return directions, one row each: of each record with refresh 1, else those that all records share."""
        if self.refresh == 1:
            return self._find(x)
        if not train:
            return self._find(x[:SAMPLE]) if self._directions is None else self._directions
        if self._directions is None or self._uploads % self.refresh == 0:
            self._directions = self._find(x[:SAMPLE])
        self._uploads += 1
        return self._directions

    def _find(self, x: Tensor) -> Tensor:
        """Find directions in units of a record's range, where its columns or colours weigh alike."""
        unit = self._unit.to(x)
        with frozen(self.bottom) as representation:

            def moved(offset: Tensor) -> Tensor:
                return representation(x + offset / unit)

            rank = min(self.rank, x[0].numel())
            start = torch.zeros_like(x)
            if self.refresh > 1:
                return common_directions(moved, start, rank, self.generator)
            return spectrum(moved, start, rank, self.generator).right


@contextmanager
def frozen(bottom: nn.Module) -> Iterator[Callable[[Tensor], Tensor]]:
    """Yield the bottom as a function of each record alone: batch norms at rest, full precision, weights constant."""
    training = bottom.training
    weights = {name: tensor.detach() for name, tensor in (*bottom.named_parameters(), *bottom.named_buffers())}
    device = next(iter(weights.values())).device if weights else torch.device("cpu")

    def representation(x: Tensor) -> Tensor:
        output: Tensor = torch.func.functional_call(bottom, weights, (x,))
        return output

    bottom.eval()
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            yield representation
    finally:
        bottom.train(training)
