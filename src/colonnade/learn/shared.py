"""A party that is shown labels: it finds the task's gradient itself, on a copy of the top model (Eq. 5).

The active party shares, with every batch, the labels, the uploads of the others and the weights of its top model. The
party keeps all three fixed while it takes its local updates; see the threat model for what that shows to whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from colonnade.learn.checkpoint import named, under
from colonnade.learn.top import task_loss
from colonnade.nets import build_top
from colonnade.nets.device import precision


@dataclass(frozen=True)
class Shared:
    """What one party is shown of one batch.

    Attributes:
        labels: of every record.
        others: the uploads of all other parties, one row for every record, by their place in the top model.
        mean: the party's own mean upload, for records that it lacks.
        head: the weights of the top model before it learned from this batch.
        weight: how much the party's part of the task counts, q_k.
    """

    labels: Tensor
    others: Mapping[int, Tensor]
    mean: Tensor
    head: Mapping[str, Tensor] = field(repr=False)
    weight: float

    def tensors(self) -> dict[str, Tensor]:
        """Return everything but the weight, by name."""
        others = {str(place): upload for place, upload in self.others.items()}
        return {"labels": self.labels, "mean": self.mean, **named("upload", others), **named("head", self.head)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], weight: float) -> Shared:
        """Return what `tensors` was made from."""
        others = {int(place): upload for place, upload in under("upload", tensors).items()}
        return cls(tensors["labels"], others, tensors["mean"], under("head", tensors), weight)


class HeadCopy:
    """The active party's top model, as it was at the start of a round, at a party with labels; it never learns here.

    Args:
        recipe: how the top model is built.
        place: where the party's own upload goes among those that it joins.
        regression: whether the task is one.
        device: where the party computes.
        mixed: compute in bfloat16 where the device gains from it.
    """

    def __init__(
        self, recipe: Mapping[str, Any], place: int, *, regression: bool, device: torch.device, mixed: bool = False
    ) -> None:
        self.network = build_top(**recipe, seed=0).to(device).requires_grad_(False)
        self._place, self._regression, self._device, self._mixed = place, regression, device, mixed
        self._shared: Shared
        self._held: Tensor | None

    def meet(self, shared: Shared, held: Tensor | None) -> None:
        """Begin a round with what was shared; `held` says which of its records the party has, None for all."""
        self.network.load_state_dict(dict(shared.head))
        self._shared, self._held = shared, held

    def gradient(self, upload: Tensor) -> Tensor:
        """Return q_k times the gradient of the task's loss at the party's own upload, everything else fixed."""
        leaf = upload.detach().requires_grad_()
        with torch.enable_grad(), precision(self._device, self._mixed):
            outputs = self.network(self._rows(leaf))
        loss = task_loss(outputs.float(), self._shared.labels, self._regression)
        return self._shared.weight * torch.autograd.grad(loss, leaf)[0]  # in this order, as the active party does it

    def _rows(self, upload: Tensor) -> Sequence[Tensor]:
        own = upload
        if self._held is not None:
            own = self._shared.mean.expand(len(self._held), *self._shared.mean.shape).clone()
            own[self._held] = upload
        rows = {**self._shared.others, self._place: own}
        return [rows[place] for place in sorted(rows)]
