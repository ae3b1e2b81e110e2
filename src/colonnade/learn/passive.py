"""A passive party's life in a training run: columns and a bottom model, no labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from colonnade.data.batches import Positions
from colonnade.learn.agreement import Agreement
from colonnade.learn.beginning import refuse_loss
from colonnade.learn.bottom import Signal
from colonnade.learn.part import Part
from colonnade.learn.role import Role, Seat
from colonnade.learn.shared import HeadCopy, Shared
from colonnade.learn.tensors import to_array, to_tensor
from colonnade.learn.told import told_recipe
from colonnade.nets import upload_shape
from colonnade.wire.channel import Channel


class Passive(Role):
    """Uploads representations, receives their gradients. What leaves it, leaves through `_send_upload`."""

    name: ClassVar[str] = "passive"

    def __init__(self, channel: Channel, agreement: Agreement, seat: Seat) -> None:
        super().__init__(channel, agreement, seat)
        self._history: list[dict[str, float]] = []
        self._head: HeadCopy

    def open(self) -> int:
        """Greet the active party, take its plan, tell the shape of the uploads."""
        held = self.seat.alignment.rows >= 0
        greeting = {
            "agreement": self.agreement.digest(),
            "alignment": self.seat.alignment.digest,
            "defenses": self.seat.defense.names,
            "checkpoints": self.held_steps(),
        }
        self.channel.send(self.agreement.active, "hello", 0, {"held": held}, greeting)
        plan = self.channel.recv(self.agreement.active, "plan", 0)
        start = int(plan.meta["start"])
        self._model = plan.meta.get("model")
        if start == 0:  # an active party of an older version does not look after it
            refuse_loss(self.held_steps(), self.forgivable)
        self.renew_secret(start)
        self.set_up(plan.tensors["split"])
        assert self.bottom is not None, "a passive party has columns"
        self._shape = upload_shape(self.bottom.network, tuple(self.bottom.features.shape[1:]))
        self.require_same_run(start)
        self.prepare_defense(start)
        self.resume_at(start)
        self.channel.send(self.agreement.active, "ready", 0, meta={"shape": list(self._shape)})
        if self.task.labels == "shared":
            self._head = self._hear_of_head()
        return start

    def train_step(self, step: int, positions: Positions) -> None:
        """Upload, wait for the gradient, step."""
        count = self._send_upload("upload", step, positions, train=True)
        signal = self._hear_shared(step, positions) if self.task.labels == "shared" else self._hear_gradient(step)
        if count and self.bottom:
            self.bottom.learn(signal, self.rate(step), self.task.local_updates)

    def end_epoch(self, epoch: int) -> bool:
        """Upload the validation records, then do what the active party decides."""
        for step, positions in self.timetable.validation_batches(epoch):
            self._send_upload("evaluate", step, positions, train=False)
        self._log(epoch, self.seat.defense.meters())
        decision = self.channel.recv(self.agreement.active, "decision", epoch).meta
        if decision["best"]:
            self.checkpoints.save_best(self.state())
        return bool(decision["stop"])

    def close(self) -> Part:
        """Upload the test records."""
        for step, positions in self.timetable.test_batches():
            self._send_upload("test", step, positions, train=False)
        result = {"history": self._history} if self._history else {}
        return Part(self.seat.party, bottom=self._part, result=result, model=self._model)

    def progress_meta(self) -> dict[str, Any]:
        """Return what the defense has measured so far."""
        return {"history": self._history}

    def load_progress(self, meta: Mapping[str, Any]) -> None:
        """Restore what `progress_meta` returned."""
        self._history = list(meta["history"])

    def _hear_gradient(self, step: int) -> Tensor:
        answer = self.channel.recv(self.agreement.active, "gradient", step)
        return to_tensor(answer.tensors["gradient"], self.seat.device)

    def _hear_of_head(self) -> HeadCopy:
        meta, device = self.channel.recv(self.agreement.active, "head", 0).meta, self.seat.device
        mixed = self.task.precision == "mixed"
        recipe = told_recipe(meta["recipe"], self.task.network, self.agreement.active)
        return HeadCopy(recipe, meta["place"], regression=meta["regression"], device=device, mixed=mixed)

    def _hear_shared(self, step: int, positions: Positions) -> Signal:
        """Take labels, the others' uploads and the top model; return how to find the gradient with them."""
        message = self.channel.recv(self.agreement.active, "shared", step)
        tensors = {name: to_tensor(array, self.seat.device) for name, array in message.tensors.items()}
        held = torch.from_numpy(self.seat.alignment.rows[positions] >= 0).to(self.seat.device)
        self._head.meet(Shared.from_tensors(tensors, message.meta["weight"]), None if held.all() else held)
        return self._head.gradient

    def _log(self, epoch: int, meters: dict[str, float]) -> None:
        """Note what the defense measured; it stays with this party."""
        if not meters:
            return
        self._history.append({"epoch": epoch, **meters})
        if self.seat.run:
            self.seat.run.log((epoch + 1) * self.timetable.steps_per_epoch, epoch=epoch, **meters)

    def _send_upload(self, kind: str, step: int, positions: Positions, train: bool) -> int:
        """Send what this party holds of `positions`; return how many records that are."""
        count = int((self.seat.alignment.rows[positions] >= 0).sum())
        upload = (
            to_array(self.own_upload(positions, train), self.channel)
            if count
            else np.zeros((0, *self._shape), np.float32)
        )
        self.channel.send(self.agreement.active, kind, step, {"upload": upload})
        return count
