"""The active party's life in a training run: labels, the top model, and columns of its own if it has any."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from colonnade.data.batches import Positions
from colonnade.data.preparation import LabelPreparation
from colonnade.data.split import TRAIN, assign_split, split_from_column
from colonnade.defend import DEFENSES
from colonnade.errors import ConfigError, DataError, RefusedError, RunError, nearest
from colonnade.learn.agreement import Agreement
from colonnade.learn.beginning import common_start
from colonnade.learn.checkpoint import named, under
from colonnade.learn.contributions import Jury
from colonnade.learn.part import Part, TopPart
from colonnade.learn.role import Role, Seat, naming_the_setting
from colonnade.learn.scores import scores
from colonnade.learn.shared import HeadCopy, Shared
from colonnade.learn.tensors import to_array, to_tensor
from colonnade.learn.told import told_shape
from colonnade.learn.top import Top
from colonnade.learn.weights import Weights
from colonnade.measure.shapley import EXACT_UP_TO, Coalition, Worth
from colonnade.nets import build_top, upload_shape
from colonnade.progress import Progress
from colonnade.wire.channel import Channel
from colonnade.wire.message import Message

Batch = tuple[list[Tensor], list[Tensor | None], Tensor]
"""Uploads, who holds which record, labels."""
LOOK_PASSES = 32_768
"""Records times coalitions of one look at the weights: eight parties are weighed on 128 records of a batch."""


class Curious(Protocol):
    """An active party that looks closer: sees every training upload, and may send other gradients back."""

    def begin(self, top: nn.Module, shapes: Mapping[str, tuple[int, ...]], outputs: int) -> None:
        """See the untrained top model (the same object that will be trained) and the shape of each party's upload."""

    def watch(
        self, step: int, uploads: Mapping[str, Tensor], labels: Tensor, honest: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """Return the gradients to send; an honest but curious party returns `honest` as it is."""


@dataclass
class Course:
    """How a run has gone so far; part of the active party's checkpoint."""

    best_loss: float = math.inf
    best_epoch: int = -1
    history: list[dict[str, float]] = field(default_factory=list)


class Active(Role):
    """Joins the uploads, learns from the labels, returns one gradient to each party."""

    name: ClassVar[str] = "active"

    def __init__(
        self,
        channel: Channel,
        agreement: Agreement,
        seat: Seat,
        progress: Progress | None = None,
        curious: Curious | None = None,
    ) -> None:
        super().__init__(channel, agreement, seat)
        if curious and self.task.labels == "shared":
            remedy = "train with labels: server"
            raise ConfigError(
                "with shared labels no gradients are sent that could be watched", where="curious", remedy=remedy
            )
        self.progress, self.curious = progress or Progress(), curious
        self.course = Course()
        self.top: Top
        self._head: HeadCopy
        self._held: dict[str, Tensor | None] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._epoch_losses: list[float] = []
        self._began = time.monotonic()

    # -- the stops of the run ---------------------------------------------------------------------------------------

    def open(self) -> int:
        """Hear everybody's greeting, send the plan, build the top model for the shapes that come back."""
        greetings = {party: self.channel.recv(party, "hello", 0) for party in self.agreement.passive}
        for party, greeting in greetings.items():
            self._check_greeting(party, greeting)
        split = self._split()
        theirs = {party: greeting.meta["checkpoints"] for party, greeting in greetings.items()}
        start = common_start({self.seat.party: self.held_steps(), **theirs}, self.forgivable)
        self.renew_secret(start)
        self._model = self.agreement.model_token(self.seat.secret)
        for party in self.agreement.passive:
            self.channel.send(party, "plan", 0, {"split": split}, {"start": start, "model": self._model})
        self._label = LabelPreparation(self.task.kind).fit(self._labels_at(np.flatnonzero(split == TRAIN)))
        self._targets = torch.from_numpy(self._label.transform(self._labels_at(np.arange(len(split))))).to(
            self.seat.device
        )
        self.set_up(split)
        self.require_same_run(start)
        self.prepare_defense(start)
        self._hear_shapes()
        self._build_top()
        self.resume_at(start)
        if self.task.labels == "shared":
            self._share_head()
        if self.curious:
            self.curious.begin(self.top.network, self._shapes, self._label.outputs)
        self.progress.start(self.timetable.steps, f"training {self.agreement.run}")
        return start

    def train_step(self, step: int, positions: Positions) -> None:
        """Gather the uploads, take one step, answer every party."""
        own = [self.own_upload(positions, train=True)] if self.bottom else []
        uploads = own + self._receive("upload", step, positions)
        batch = uploads, self._masks(positions), self._targets[positions]
        self._look(step, batch)
        self.top.follow(uploads)
        loss = self._share(step, *batch) if self.task.labels == "shared" else self._answer(step, *batch)
        if not math.isfinite(loss):
            remedy = "lower task.optimizer.learning_rate"
            raise RunError(self._what_broke(uploads), where=f"step {step}", remedy=remedy, told=True)
        self._epoch_losses.append(loss)
        self.progress.advance(step + 1, loss=loss, sent_bytes=self.channel.sent_bytes)

    def end_epoch(self, epoch: int) -> bool:
        """Validate, decide for all parties whether this was the best epoch and whether it was the last."""
        row: dict[str, float] = {"epoch": epoch, "train_loss": float(np.mean(self._epoch_losses or [math.nan]))}
        self._epoch_losses.clear()
        validation = self._evaluate("evaluate", self.timetable.validation_batches(epoch))
        if self.task.patience is not None and not math.isfinite(validation.get("loss", math.nan)):
            remedy = "lower task.optimizer.learning_rate, or give the split some validation records"
            raise RunError("the validation loss is no number", where=f"epoch {epoch}", remedy=remedy, told=True)
        row |= {f"validation_{name}": value for name, value in validation.items()}
        if self.task.weights.strategy != "none":
            row |= _by_party(self._weights.current)
        best = bool(validation) and validation["loss"] < self.course.best_loss
        if best:
            self.course.best_loss, self.course.best_epoch = validation["loss"], epoch
        stop = self._out_of_patience(epoch)
        self._log(epoch, row)
        keep = best and self.task.patience is not None
        for party in self.agreement.passive:
            self.channel.send(party, "decision", epoch, meta={"best": keep, "stop": stop})
        if keep:
            self.checkpoints.save_best(self.state())
        return stop

    def close(self) -> Part:
        """Test, and hand over the top model."""
        jury = Jury(self.top, list(self._shapes), self.timetable.test, self.agreement.seed)
        test = self._evaluate("test", self.timetable.test_batches(), jury)
        self.progress.close()
        part = TopPart(
            network=self.top.network,
            label=self._label,
            means={party: mean.clone() for party, mean in zip(self._shapes, self.top.means, strict=True)},
            recipe=self._recipe,
            label_name=self._label_name(),
        )
        result = {
            "test": test,
            "best_epoch": self.course.best_epoch,
            "history": self.course.history,
            "looks": self._weights.looks,
            "contributions": jury.contributions(),
        }
        return Part(self.seat.party, bottom=self._part, top=part, result=result, model=self._model)

    # -- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Return everything that a resumed run needs from this party."""
        return {**super().state(), **named("top", self.top.state_dict())}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        super().load_state(state)
        self.top.load_state_dict(under("top", state))

    def progress_meta(self) -> dict[str, Any]:
        """Return how the run has gone so far."""
        return {
            "course": vars(self.course),
            "epoch_losses": self._epoch_losses,
            "weights": self._weights.current,
            "looks": self._weights.looks,
        }

    def load_progress(self, meta: Mapping[str, Any]) -> None:
        """Restore what `progress_meta` returned."""
        self.course = Course(**meta["course"])
        self._epoch_losses = list(meta["epoch_losses"])
        self._weights.load(meta["weights"], meta.get("looks", []))

    # -- beginnings -----------------------------------------------------------------------------------------------

    def _check_greeting(self, party: str, greeting: Message) -> None:
        if greeting.meta["agreement"] != self.agreement.digest():
            what, remedy = "has another federation file than this party", "give all parties the same file"
            raise ConfigError(what, where=party, remedy=remedy, told=True)
        required, used = self.task.protection, greeting.meta["defenses"]
        if required is not None and required not in used:
            if required not in DEFENSES:  # a slip of all, which no party can make good
                remedy = nearest(required, DEFENSES)
                raise ConfigError(f"unknown defense '{required}'", where="task.protection", remedy=remedy, told=True)
            raise ConfigError(
                f"uploads under '{used[0]}' where the federation requires '{required}'",
                where=party,
                remedy="set its defense in party.yaml",
                told=True,
            )
        held = greeting.tensors["held"]
        if held.shape != self.seat.alignment.rows.shape:
            raise RefusedError("speaks of another number of records", where=party, remedy="align anew")
        self._held[party] = None if held.all() else torch.from_numpy(held.copy()).to(self.seat.device)

    def _split(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        settings, rows = self.task.split, self.seat.alignment.rows
        if self.seat.split is not None:
            return split_from_column(
                self.seat.split.iloc[rows], validation=settings.validation, seed=self.agreement.seed
            )
        ids = self.seat.records.ids[rows]
        return assign_split(ids, settings.train, settings.validation, settings.test, self.agreement.seed)

    def _labels_at(self, positions: Positions) -> Any:
        label = self.seat.records.label
        if label is None:
            raise DataError("holds no label", where=self.seat.party, remedy="name the label column of the active party")
        return label.iloc[self.seat.alignment.rows[positions]]

    def _label_name(self) -> str:
        label = self.seat.records.label
        return "label" if label is None or label.name is None else str(label.name)

    def _hear_shapes(self) -> None:
        if self.bottom:
            self._shapes[self.seat.party] = upload_shape(self.bottom.network, tuple(self.bottom.features.shape[1:]))
        for party in self.agreement.passive:
            self._shapes[party] = told_shape(self.channel.recv(party, "ready", 0).meta.get("shape"), party)

    def _build_top(self) -> None:
        network = self.task.network
        self._recipe: dict[str, Any] = {
            "family": network.family,
            "upload_shapes": list(self._shapes.values()),
            "outputs": self._label.outputs,
            "cut": network.cut,
            "hidden": network.hidden,
            "join": network.join,
        }
        self._weights = Weights(self.task.weights, list(self._shapes), self.timetable.steps)
        with naming_the_setting():
            top = build_top(**self._recipe, seed=self.private_seed("top"))
        self.top = Top(
            top,
            regression=self._label.kind == "regression",
            settings=self.task.optimizer,
            upload_shapes=list(self._shapes.values()),
            device=self.seat.device,
            mixed=self.task.precision == "mixed",
        )

    # -- steps ----------------------------------------------------------------------------------------------------

    def _what_broke(self, uploads: list[Tensor]) -> str:
        """Say whose uploads ran away; where all or none did, it is the rate that they share and not one party."""
        broken = [party for party, upload in zip(self._shapes, uploads, strict=True) if not upload.isfinite().all()]
        if 0 < len(broken) < len(uploads):
            return f"uploads of {', '.join(broken)} are no numbers"
        return "the training loss is no number"

    def _receive(self, kind: str, step: int, positions: Positions) -> list[Tensor]:
        """Return the passive parties' uploads in order; an upload of the wrong shape is refused."""
        uploads = []
        for party in self.agreement.passive:
            array = self.channel.recv(party, kind, step).tensors["upload"]
            held = self._held[party]
            expected = (len(positions) if held is None else int(held[positions].sum()), *self._shapes[party])
            if array.shape != expected:
                raise RefusedError(f"'{kind}' of step {step} has shape {array.shape}, not {expected}", where=party)
            uploads.append(to_tensor(array, self.seat.device))
        return uploads

    def _answer(self, step: int, uploads: list[Tensor], masks: list[Tensor | None], labels: Tensor) -> float:
        """Learn from a batch and send every party the gradient of its upload, weighed; return the loss."""
        rate, updates = self.rate(step), self.task.local_updates
        answered = self.top.learn(uploads, masks, labels, rate, updates)
        gradients = {
            party: gradient if weight == 1 else weight * gradient
            for (party, weight), gradient in zip(self._weights.current.items(), answered.gradients, strict=True)
        }
        if self.curious:
            gradients.update(self.curious.watch(step, dict(zip(self._shapes, uploads, strict=True)), labels, gradients))
        for party in self.agreement.passive:
            self.channel.send(party, "gradient", step, {"gradient": to_array(gradients[party], self.channel)})
        if self.bottom:
            self.bottom.learn(gradients[self.seat.party], rate, updates)
        return answered.loss

    def _share(self, step: int, uploads: list[Tensor], masks: list[Tensor | None], labels: Tensor) -> float:
        """Show every party what it needs to find its gradients itself, then learn from the batch; return the loss."""
        rows = self.top.rows(uploads, masks)
        head = {name: value.clone() for name, value in self.top.network.state_dict().items()}
        for place, (party, weight) in enumerate(self._weights.current.items()):
            others = {other: upload for other, upload in enumerate(rows) if other != place}
            shared = Shared(labels, others, self.top.means[place].clone(), head, weight)
            if party == self.seat.party:
                self._head.meet(shared, None)
                continue
            tensors = {name: to_array(tensor, self.channel) for name, tensor in shared.tensors().items()}
            self.channel.send(party, "shared", step, tensors, {"weight": weight})
        rate, updates = self.rate(step), self.task.local_updates
        answered = self.top.learn(uploads, masks, labels, rate, updates)
        if self.bottom:
            self.bottom.learn(self._head.gradient, rate, updates)
        return answered.loss

    def _share_head(self) -> None:
        """Tell every party how the top model is built; with columns of its own, this party too learns on a copy."""
        regression = self.top.regression
        for place, party in enumerate(self._shapes):
            if party == self.seat.party:
                mixed = self.task.precision == "mixed"
                self._head = HeadCopy(self._recipe, place, regression=regression, device=self.seat.device, mixed=mixed)
            else:
                meta = {"recipe": self._recipe, "place": place, "regression": regression}
                self.channel.send(party, "head", 0, meta=meta)

    def _masks(self, positions: Positions) -> list[Tensor | None]:
        masks = [self._held[party] for party in self.agreement.passive]
        own: list[Tensor | None] = [None] if self.bottom else []
        return own + [None if held is None else held[positions] for held in masks]

    def _evaluate(
        self, kind: str, batches: Sequence[tuple[int, Positions]], jury: Jury | None = None
    ) -> dict[str, float]:
        outputs = []
        for step, positions in batches:
            own = [self.own_upload(positions, train=False)] if self.bottom else []
            uploads, masks = own + self._receive(kind, step, positions), self._masks(positions)
            outputs.append(self.top.predict(uploads, masks))
            if jury:
                jury.hear(positions, self.top.rows(uploads, masks), self._targets[positions])
        if not outputs:
            return {}
        targets = self._targets[np.concatenate([positions for _, positions in batches])]
        joined = torch.cat(outputs)
        loss = float(self.top.loss(joined, targets))
        return {"loss": loss, **(scores(joined, targets, self._label) if math.isfinite(loss) else {})}

    def _look(self, step: int, batch: Batch) -> None:
        """Weigh the parties anew where it is time, and write down what was found."""
        found = self._weights.look(step, self._worth_at(batch))
        if found and self.seat.run:
            self.seat.run.log(step, **_by_party(found["weights"]))

    def _worth(self, present: Coalition, uploads: list[Tensor], masks: list[Tensor | None], labels: Tensor) -> float:
        """Return minus the mean loss when the parties that are not `present` are not there."""
        absent = [index for index, party in enumerate(self._shapes) if party not in present]
        return -float(self.top.loss(self.top.without(absent, uploads, masks), labels))

    def _worth_at(self, batch: Batch) -> Worth:
        """Return what coalitions achieve on the first records of a batch; nothing is computed before it is asked."""
        few = cache(lambda: self._few(*batch))
        if len(self._shapes) > EXACT_UP_TO:
            return lambda present: self._worth(present, *few())
        bits = {party: 1 << place for place, party in enumerate(self._shapes)}
        losses = cache(lambda: self.top.coalition_losses(*few()))
        return lambda present: -losses()[sum(bits[party] for party in present)]

    def _few(self, uploads: list[Tensor], masks: list[Tensor | None], labels: Tensor) -> Batch:
        count = LOOK_PASSES // 2 ** min(len(uploads), EXACT_UP_TO)
        few = [None if mask is None else mask[:count] for mask in masks]
        held = [count if mask is None else int(mask.sum()) for mask in few]
        return [upload[:number] for upload, number in zip(uploads, held, strict=True)], few, labels[:count]

    def _out_of_patience(self, epoch: int) -> bool:
        patience = self.task.patience
        return patience is not None and self.course.best_epoch >= 0 and epoch - self.course.best_epoch >= patience

    def _log(self, epoch: int, row: dict[str, float]) -> None:
        """Note how the epoch went, and what this party's own defense measured in it."""
        measured = {**row, **self.seat.defense.meters()}
        self.course.history.append(measured)
        spent = {"seconds": time.monotonic() - self._began, "sent_bytes": self.channel.sent_bytes}
        if self.seat.run:
            self.seat.run.log((epoch + 1) * self.timetable.steps_per_epoch, **measured, **spent)
        self.progress.advance((epoch + 1) * self.timetable.steps_per_epoch, **row)


def _by_party(weights: Mapping[str, float]) -> dict[str, float]:
    """Return weights as the log has them."""
    return {f"weight_{party}": weight for party, weight in weights.items()}
