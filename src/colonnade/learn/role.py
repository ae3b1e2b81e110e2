"""The way of one training run, the same for every role."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from colonnade.align.alignment import Alignment
from colonnade.data.batches import Positions
from colonnade.data.preparation import prepare_features
from colonnade.data.records import Records
from colonnade.data.secrets import prepare_secrets
from colonnade.defend.base import Defense
from colonnade.errors import ConfigError, DataError, RunError
from colonnade.federation.task import NetworkSettings
from colonnade.learn.agreement import SIMULATION_SECRET, Agreement
from colonnade.learn.augment import Shifts
from colonnade.learn.beginning import beginning_of, require_beginning
from colonnade.learn.bottom import Bottom
from colonnade.learn.checkpoint import Checkpoints, named, under
from colonnade.learn.choices import choices_of
from colonnade.learn.optimize import learning_rate
from colonnade.learn.part import BottomPart, Part, naming
from colonnade.learn.spread import Spread
from colonnade.learn.team import Team
from colonnade.learn.timetable import Timetable
from colonnade.nets import build_bottom
from colonnade.run import Run
from colonnade.stream import Chain
from colonnade.wire.channel import Channel


@dataclass(frozen=True)
class Seat:
    """One party's place in a run: what it brings and where it works.

    Attributes:
        party: who sits here.
        records: the party's own records.
        alignment: which of them stand at which common position.
        defense: how its representations are protected.
        device: where its networks live.
        run: its run folder; None keeps nothing on disk.
        resume: go on from the last step that all parties hold.
        secret: known to this party alone; its first weights and its noise come from it.
        split: the active party's own word on which record is for what; None assigns by id.
        team: this party's own processes, where it was started as several.
    """

    party: str
    records: Records
    alignment: Alignment
    defense: Defense
    device: torch.device
    run: Run | None = None
    resume: bool = False
    secret: bytes = SIMULATION_SECRET
    split: pd.Series[Any] | None = None
    team: Team | None = None

    @property
    def checkpoint_folder(self) -> Path | None:
        """Where checkpoints go."""
        return self.run.checkpoints if self.run else None


def require_secrets(defense: Defense, records: Records, party: str) -> None:
    """Refuse a defense that hides sensitive columns where the party names none, or one that can't be hidden."""
    if not defense.needs_secrets:
        return
    if records.secrets is None:
        what = f"'{defense.name}' hides sensitive columns, and none is named"
        remedy = "list them under 'sensitive' in its file, or as secrets of the federation that co.train is given"
        raise ConfigError(what, where=party, remedy=remedy)
    # Here, before anything is sent: an error in the midst of a run would be told to all parties.
    prepare_secrets(records.secrets, np.arange(len(records)), party)


def require_labels(defense: Defense, agreement: Agreement, party: str) -> None:
    """Refuse a defense that needs labels where the party is not shown any."""
    if defense.needs_labels and party != agreement.active and agreement.task.labels == "server":
        what = f"'{defense.name}' needs labels, which a passive party does not have"
        raise ConfigError(what, where=party, remedy="choose another defense")


@contextmanager
def naming_the_setting(party: str | None = None) -> Iterator[None]:
    """Let what is wrong with a network name the setting of the task, and `party` if it is about its records."""
    try:
        yield
    except ConfigError as error:
        setting = error.where if error.where in NetworkSettings.model_fields else None
        what = f"{error.where}: {error.what}" if error.where and not setting else error.what
        where = f"task.network.{setting or 'family'}"
        raise ConfigError(what, where=f"{party}: {where}" if party else where, remedy=error.remedy) from error


class Role(ABC):
    """A party in a training run. The base owns the loop; a role says what it does at each stop."""

    name: ClassVar[str]

    def __init__(self, channel: Channel, agreement: Agreement, seat: Seat) -> None:
        self.channel, self.agreement, self.seat = channel, agreement, seat
        self.task = agreement.task
        self.checkpoints = Checkpoints(seat.checkpoint_folder)
        self.timetable: Timetable
        self.bottom: Bottom | None = None
        self._part: BottomPart | None = None
        self._model: str | None = None
        self._choices = choices_of(seat.defense, seat.records, seat.party) if seat.run else {}
        self._beginning: dict[str, str] = {}

    def run(self) -> Part:
        """Live through the run and return what this party has learned."""
        self.channel.patient = True  # until everybody's defense has learned what it must before a first upload
        start = self.open()
        for epoch in range(start // self.timetable.steps_per_epoch, self.timetable.epochs):
            for step, positions in self.timetable.batches(epoch, start):
                if step > start and step % self.task.checkpoint_every == 0:
                    self._save(step)
                self.train_step(step, positions)
                self.channel.patient = False
            if self.end_epoch(epoch):
                break
        if self.task.patience is not None:
            self._return_to_best()
        if self.bottom and self._part:
            self.seat.defense.finish(self._part.network, self.bottom.features[self._trained_on])
        return self.close()

    @abstractmethod
    def open(self) -> int:
        """Agree with the others on how to begin; return the first step."""

    @abstractmethod
    def train_step(self, step: int, positions: Positions) -> None:
        """Learn from one batch."""

    @abstractmethod
    def end_epoch(self, epoch: int) -> bool:
        """Evaluate; return whether training stops here."""

    @abstractmethod
    def close(self) -> Part:
        """Test, and return this party's part of the model."""

    def state(self) -> dict[str, Tensor]:
        """Return everything that a resumed run needs from this party."""
        return named("bottom", self.bottom.state_dict()) if self.bottom else {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        if self.bottom:
            self.bottom.load_state_dict(under("bottom", state))

    def progress_meta(self) -> dict[str, Any]:
        """Return small values that belong into a checkpoint."""
        return {}

    def load_progress(self, meta: Mapping[str, Any]) -> None:  # noqa: B027 - a passive party has none
        """Restore what `progress_meta` returned."""

    def renew_secret(self, start: int) -> None:
        """Take another secret where a resumed run begins anew, before anything is drawn from it.

        Records, split or batches may have changed since the attempt before; its noise on them could be taken off.
        """
        seat = self.seat
        # In a simulation nothing is hidden, and runs shall be repeatable.
        if start == 0 and seat.resume and seat.run and seat.secret != SIMULATION_SECRET:
            self.seat = replace(seat, secret=seat.run.renew_secret())

    def set_up(self, split: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Lay out the timetable; prepare the columns and build the bottom model, if this party has columns."""
        self.timetable = Timetable(split, self.task.batch_size, self.task.epochs, self.agreement.seed)
        if self.seat.records.has_features:
            self._set_up_bottom()
        if self.seat.run:
            preparation = self._part.preparation if self._part else None
            records = self.seat.records.ids, self.seat.alignment.rows
            self._beginning = beginning_of(preparation, split, *records)

    def _set_up_bottom(self) -> None:
        seat, settings = self.seat, self.task.network
        trained_on = self._rows(self.timetable.train)
        trained_on = trained_on[trained_on >= 0]
        if len(trained_on) == 0:
            raise DataError(
                "holds none of the training records",
                where=seat.party,
                remedy="raise the overlap or leave the party out",
            )
        with naming(seat.party):
            preparation = prepare_features(seat.records.take(trained_on))
            assert preparation is not None, "a party with features has a preparation"
            features = torch.from_numpy(preparation.transform(seat.records))
        recipe: dict[str, Any] = {
            "family": settings.family,
            "input_shape": tuple(preparation.shape),
            "cut": settings.cut,
            "hidden": settings.hidden,
        }
        seat.defense.seed(self.private_seed("defense"), seat.device)
        seat.defense.meet(preparation)
        with naming_the_setting(seat.party):
            network = build_bottom(**recipe, seed=self.private_seed("bottom"))
        network = seat.defense.extend(network, recipe["input_shape"])
        self._part = BottomPart(network, preparation, seat.defense, recipe, seat.party)
        self.bottom = Bottom(
            Spread(self._part, seat.team, seat.device) if seat.team else network,
            features,
            seat.defense,
            settings=self.task.optimizer,
            device=seat.device,
            mixed=self.task.precision == "mixed",
            augment=self._augmentation(recipe["input_shape"]),
            chain=None if seat.secret == SIMULATION_SECRET else Chain(self.private_seed("chain")),
        )
        self._trained_on = torch.from_numpy(trained_on)
        if seat.defense.needs_secrets and seat.records.secrets is not None:
            seat.defense.confide(prepare_secrets(seat.records.secrets, trained_on, seat.party))

    def require_same_run(self, step: int) -> None:
        """Refuse the checkpoint that `step` starts from if it is of another run than this one has become.

        Before anything is built for it: a defense may learn for hours, or fail at columns it was not made for.
        """
        if step == 0:
            return
        meta = self.checkpoints.load(step)[1]
        folder = self.seat.checkpoint_folder
        if meta["agreement"] != self.agreement.digest() or meta["alignment"] != self.seat.alignment.digest:
            raise RunError(
                "belongs to another agreement or another alignment",
                where=str(folder),
                remedy="resume with the files the run was started with",
            )
        require_beginning(meta.get("beginning", {}), self._beginning, folder)

    def prepare_defense(self, step: int) -> None:
        """Let the defense learn what it must before the first upload, or build what the checkpoint of `step` fills.

        All parties do so at the same time: nobody waits for another before.
        """
        if self.bottom and self._part:
            begin = self.seat.defense.resume if step > 0 else self.seat.defense.prepare
            begin(self._part.network, self.bottom.features[self._trained_on])
            self._part.network.train()  # where several processes share it, nobody else undoes what a defense set

    def _augmentation(self, shape: tuple[int, ...]) -> Shifts | None:
        if self.task.augment == "none":
            return None
        if len(shape) != 3:
            raise ConfigError("only pictures can be moved", where="task.augment", remedy="set it to none")
        if self.seat.defense.memoise:
            what = f"'{self.seat.defense.name}' gives a record the same noise each time, and a moved picture is another"
            raise ConfigError(what, where="task.augment", remedy="set it to none, or choose fresh noise")
        return Shifts(self.private_seed("augment"), self.seat.device)

    def _return_to_best(self) -> None:
        """Take back the weights of the best epoch, but not its noise: noise that was sent twice can be taken off."""
        stream = self.seat.defense.generator.get_state()
        self.load_state(self.checkpoints.load_best())
        self.seat.defense.generator.set_state(stream)

    def private_seed(self, purpose: str) -> int:
        """Return this party's own seed for one purpose."""
        return self.agreement.private_seed(purpose, self.seat.party, self.seat.secret)

    def resume_at(self, step: int) -> None:
        """Load the checkpoint that `step` starts from; forget what lies beyond it."""
        if step > 0:
            state, meta = self.checkpoints.load(step)
            try:
                self.load_state(state)
            except (RuntimeError, KeyError, ValueError) as error:
                # What an older version did not note shows here. The others are told: no names of columns.
                raise RunError(
                    "does not fit this party's columns, secrets or defense",
                    where=str(self.seat.checkpoint_folder),
                    remedy="resume with the files the run was started with",
                ) from error
            self.load_progress(meta)
        self.checkpoints.forget(after=step)

    def held_steps(self) -> list[int]:
        """Return the steps this party could resume from."""
        return self.checkpoints.steps() if self.seat.resume else []

    @property
    def forgivable(self) -> int:
        """The step up to which checkpoints may go when training begins anew: the first one alone is no party's loss.

        Parties are at most one step apart: one that was killed before it could write its first checkpoint leaves others
        with theirs. It then still knows the alignment; who aligns anew has lost its run folder.
        """
        return 0 if self.seat.alignment.anew else self.task.checkpoint_every

    def rate(self, step: int) -> float:
        """Return the learning rate of `step`."""
        return learning_rate(self.task.optimizer, step, self.timetable.steps_per_epoch, self.timetable.epochs)

    def own_upload(self, positions: Positions, train: bool) -> Tensor:
        """Return this party's upload for those of `positions` whose record it holds."""
        if self.bottom is None:
            raise RuntimeError("a party without columns uploads nothing")
        rows = self._rows(positions)
        return self.bottom.upload(torch.from_numpy(rows[rows >= 0]), train)

    def _rows(self, positions: Positions) -> Positions:
        return self.seat.alignment.rows[positions]

    def _save(self, step: int) -> None:
        if self.seat.run:
            self.seat.run.ledger.flush()
        agreed = {"agreement": self.agreement.digest(), "alignment": self.seat.alignment.digest}
        own = {"choices": self._choices, "beginning": self._beginning}
        self.checkpoints.save(step, self.state(), {**self.progress_meta(), **agreed, **own})
