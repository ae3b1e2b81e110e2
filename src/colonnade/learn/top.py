"""A top model at work: uploads and labels in, loss and gradients out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from colonnade.federation.task import OptimizerSettings
from colonnade.learn.checkpoint import named, under
from colonnade.learn.coalitions import coalition_outputs
from colonnade.learn.optimize import Optimizer
from colonnade.nets import split
from colonnade.nets.device import on_device, precision

MEAN_MEMORY = 0.99  # weight of the past in the running mean of uploads


def task_loss(outputs: Tensor, labels: Tensor, regression: bool, reduction: str = "mean") -> Tensor:
    """Return the mean loss: squared error for regression, cross-entropy otherwise; each record's with "none"."""
    if regression:
        return functional.mse_loss(outputs.squeeze(1), labels, reduction=reduction)
    return functional.cross_entropy(outputs, labels, reduction=reduction)


@dataclass(frozen=True)
class Answered:
    """What one training step of the top model yields: the loss and one gradient per upload."""

    loss: float
    gradients: tuple[Tensor, ...]


class Top:
    """The active party's top model with its optimiser and the mean upload of every party.

    The means stand in for uploads that are missing: records a party lacks, or a party that does not answer.
    """

    def __init__(
        self,
        network: split.Top,
        *,
        regression: bool,
        settings: OptimizerSettings,
        upload_shapes: Sequence[Sequence[int]],
        device: torch.device,
        mixed: bool = False,
    ) -> None:
        self.network = on_device(network, device)
        self.regression, self.device = regression, device
        self.optimizer = Optimizer(self.network.parameters(), settings)
        self.means = [torch.zeros(tuple(shape), device=device) for shape in upload_shapes]
        self._seen = [0] * len(upload_shapes)
        self._mixed = mixed

    def fill(self, party: int, upload: Tensor, held: Tensor | None) -> Tensor:
        """Return one row per record: the party's upload where `held`, its mean upload elsewhere."""
        if held is None:
            return upload
        filled = self.means[party].expand(len(held), *self.means[party].shape).clone()
        filled[held] = upload
        return filled

    def follow(self, uploads: Sequence[Tensor]) -> None:
        """Move every party's mean upload; once for each training batch, before anybody learns from it."""
        for index, upload in enumerate(uploads):
            if len(upload) == 0:
                continue
            # The first batches count as a plain average: a mean that starts at zero would be wrong for long.
            seen = self._seen[index]
            self.means[index].lerp_(upload.mean(0), 1 - min(MEAN_MEMORY, seen / (seen + 1)))
            self._seen[index] += 1

    def learn(
        self,
        uploads: Sequence[Tensor],
        held: Sequence[Tensor | None],
        labels: Tensor,
        rate: float,
        updates: int = 1,
    ) -> Answered:
        """Take `updates` steps; return the loss and the gradient of every party's own upload before the first."""
        leaves = [upload.detach().requires_grad_() for upload in uploads]
        loss = self._step(leaves, held, labels, rate)
        gradients = tuple(leaf.grad if leaf.grad is not None else torch.zeros_like(leaf) for leaf in leaves)
        for _ in range(updates - 1):
            self._step([upload.detach() for upload in uploads], held, labels, rate)
        return Answered(float(loss), gradients)

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Let the network answer and nothing learn."""
        self.network.eval()
        with torch.no_grad(), precision(self.device, self._mixed):
            yield

    def predict(self, uploads: Sequence[Tensor], held: Sequence[Tensor | None]) -> Tensor:
        """Return raw outputs, one row per record."""
        with self.at_rest():
            outputs: Tensor = self.network(self.rows(uploads, held))
        return outputs.float()

    def without(self, absent: Sequence[int], uploads: Sequence[Tensor], held: Sequence[Tensor | None]) -> Tensor:
        """Return raw outputs as if some parties were not there: their mean uploads stand in."""
        rows = self.rows(uploads, held)
        for index in absent:
            rows[index] = self.means[index].expand_as(rows[index])
        with self.at_rest():
            outputs: Tensor = self.network(rows)
        return outputs.float()

    def coalition_losses(self, uploads: Sequence[Tensor], held: Sequence[Tensor | None], labels: Tensor) -> list[float]:
        """Return the mean loss for every set of parties as if the others were not there; bits of its place tell who."""
        with self.at_rest():
            outputs = coalition_outputs(self.network, self.rows(uploads, held), self.means).float()
        # Records last: the loss runs over classes, and goes through memory in order then.
        outputs = outputs.transpose(1, 2).contiguous()
        losses = task_loss(outputs, labels.expand(len(outputs), -1), self.regression, reduction="none")
        means: list[float] = losses.mean(1).tolist()
        return means

    def rows(self, uploads: Sequence[Tensor], held: Sequence[Tensor | None]) -> list[Tensor]:
        """Return one row for every record and party, mean uploads where a party lacks the record."""
        return [self.fill(index, upload, mask) for index, (upload, mask) in enumerate(zip(uploads, held, strict=True))]

    def _step(self, leaves: Sequence[Tensor], held: Sequence[Tensor | None], labels: Tensor, rate: float) -> Tensor:
        """Take one step of the optimiser; leaves that want their gradient get it. Return the loss."""
        if not self.network.training:  # walks through all modules: not for every batch
            self.network.train()
        self.optimizer.zero_grad()
        with precision(self.device, self._mixed):
            outputs = self.network(self.rows(leaves, held))
        loss = self.loss(outputs.float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(rate)
        return loss.detach()

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of the task."""
        return task_loss(outputs, labels, self.regression)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything a resumed run needs."""
        return {
            **named("network", self.network.state_dict()),
            **named("optimizer", self.optimizer.state_dict()),
            **named("mean", {str(index): mean for index, mean in enumerate(self.means)}),
            "seen": torch.tensor(self._seen),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        self.network.load_state_dict(under("network", state))
        self.optimizer.load_state_dict(under("optimizer", state))
        self.means = [under("mean", state)[str(index)].to(self.device) for index in range(len(self.means))]
        self._seen = state["seen"].tolist()
