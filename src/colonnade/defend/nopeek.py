"""A bottom model that is trained to show little of its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES
from colonnade.defend.share import share
from colonnade.measure.dependence import distance_correlation


@DEFENSES.register("nopeek")
class NoPeek(Defense):
    """NoPeek: the bottom model is also trained to lower the distance correlation of records and uploads.

    The loss is (1 - a) task + a dCor(x, h): the gradient that comes back is scaled by 1 - a, the other term is the
    party's own and needs no labels. The representation itself is uploaded. Distance correlation is biased upwards in
    small batches (use 64 records or more) and for wide representations: of 128 records with 16,384 normal entries each,
    independent ones reach 0.999. So read the meter as a trend; only an attack tells what an upload still shows.

    Args:
        weight: a, the weight of the distance correlation.
    """

    name: ClassVar[str] = "nopeek"
    knob: ClassVar[str | None] = "weight"
    published_strengths: ClassVar[tuple[float, ...]] = (0.3, 0.6)
    cost: ClassVar[str] = "two distance matrices a batch"

    def __init__(self, weight: float = 0.3) -> None:
        super().__init__()
        self.weight = share("nopeek.weight", weight)
        self._meter = torch.zeros(2, dtype=torch.float64)

    def backward(self, x: Tensor, h: Tensor, upload: Tensor, grad: Tensor) -> None:
        """Carry the task's gradient and that of the distance correlation into the bottom model."""
        if len(x) < 2:  # a single record has no distances
            upload.backward((1 - self.weight) * grad)  # type: ignore[no-untyped-call]
            return
        dependence = distance_correlation(x, upload)
        torch.autograd.backward([upload, self.weight * dependence], [(1 - self.weight) * grad, None])
        self._meter = self._meter.to(x.device)  # stays there: reading a number would halt the device at each step
        self._meter += torch.stack([dependence.detach(), torch.ones_like(dependence)])

    def meters(self) -> dict[str, float]:
        """Return the mean distance correlation of the batches since the last call."""
        total, batches = self._meter.tolist()
        self._meter = torch.zeros_like(self._meter)
        return {"distance_correlation": total / batches} if batches else {}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the random stream and what the meter has added up."""
        return {**super().state_dict(), "meter": self._meter}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self._meter = state["meter"].clone()

    def describe(self) -> dict[str, Any]:
        """Return the name and the weight."""
        return {"name": self.name, "weight": self.weight}
