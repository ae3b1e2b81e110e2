"""A passive party's life in a training run: columns and a bottom model, no labels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.data.batches import Positions
from colonnade.learn.part import Part
from colonnade.learn.role import Role
from colonnade.learn.tensors import to_array, to_tensor
from colonnade.nets import upload_shape


class Passive(Role):
    """Uploads representations, receives their gradients. What leaves it, leaves through `_send_upload`."""

    name: ClassVar[str] = "passive"

    def open(self) -> int:
        """Greet the active party, take its plan, tell the shape of the uploads."""
        held = self.seat.alignment.rows >= 0
        greeting = {
            "agreement": self.agreement.digest(),
            "alignment": self.seat.alignment.digest,
            "defense": self.seat.defense.name,
            "checkpoints": self.held_steps(),
        }
        self.channel.send(self.agreement.active, "hello", 0, {"held": held}, greeting)
        plan = self.channel.recv(self.agreement.active, "plan", 0)
        self.set_up(plan.tensors["split"])
        assert self.bottom is not None, "a passive party has columns"
        self._shape = upload_shape(self.bottom.network, tuple(self.bottom.features.shape[1:]))
        start = int(plan.meta["start"])
        self.resume_at(start)
        self.channel.send(self.agreement.active, "ready", 0, meta={"shape": list(self._shape)})
        return start

    def train_step(self, step: int, positions: Positions) -> None:
        """Upload, wait for the gradient, step."""
        count = self._send_upload("upload", step, positions, train=True)
        answer = self.channel.recv(self.agreement.active, "gradient", step)
        if count and self.bottom:
            self.bottom.learn(to_tensor(answer.tensors["gradient"], self.seat.device), self.rate(step))

    def end_epoch(self, epoch: int) -> bool:
        """Upload the validation records, then do what the active party decides."""
        for step, positions in self.timetable.validation_batches(epoch):
            self._send_upload("evaluate", step, positions, train=False)
        decision = self.channel.recv(self.agreement.active, "decision", epoch).meta
        if decision["best"]:
            self.checkpoints.save_best(self.state())
        return bool(decision["stop"])

    def close(self) -> Part:
        """Upload the test records."""
        for step, positions in self.timetable.test_batches():
            self._send_upload("test", step, positions, train=False)
        return Part(self.seat.party, bottom=self._part)

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
