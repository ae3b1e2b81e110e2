"""A party's life in a discovery: its columns are possible causes for all, its variables possible effects of all."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.checkpoint import Checkpoints, named, under
from colonnade.discover.agreement import Conversation, DiscoveryAgreement
from colonnade.discover.contributions import HeldOut, brought
from colonnade.discover.curious import Curious
from colonnade.discover.decoders import Decoders
from colonnade.discover.exchange import (
    FACTOR_BITS,
    METRIC_UNIT,
    Exchange,
    Factors,
    Floats,
    PlainExchange,
    measured,
)
from colonnade.discover.graph import CausalGraph
from colonnade.discover.graph_file import graph_from_bytes
from colonnade.discover.knowledge import Knowledge
from colonnade.discover.noise import with_laplace
from colonnade.discover.sizes import layouts_of_plan
from colonnade.discover.timetable import Blocks
from colonnade.discover.variables import PartyColumns
from colonnade.errors import FrameError, RunError
from colonnade.run import Run
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array, Message


@dataclass(frozen=True)
class PartySeat:
    """One party's place in a discovery: what it brings and where it works.

    Attributes:
        party: who sits here.
        columns: its variables, aligned with the others' records.
        secret: known to this party alone; its first weights come from it.
        knowledge: what it knows about edges that touch its own variables; only the coordinator is told.
        alignment: the digest of the alignment.
        token: known to all parties and not to the coordinator, who is shown the digest under this key only.
        run: its run folder; None keeps nothing on disk.
        resume: go on from the last look that all hold.
        curious: looks closer at what this party sees; used by attacks.
    """

    party: str
    columns: PartyColumns
    secret: bytes
    knowledge: Knowledge = field(default_factory=Knowledge)
    alignment: str = "local"
    token: bytes = b""
    run: Run | None = None
    resume: bool = False
    curious: Curious | None = None

    @property
    def shown_alignment(self) -> str:
        """What the coordinator may compare: from a plain hash of ids it could confirm ids that it guesses."""
        return hmac.new(self.token, self.alignment.encode(), hashlib.sha256).hexdigest()

    @property
    def checkpoint_folder(self) -> Path | None:
        """Where checkpoints go."""
        return self.run.checkpoints if self.run else None


class Party:
    """Decodes its own variables from everybody's features, and encodes its columns for everybody."""

    def __init__(self, channel: Channel, agreement: DiscoveryAgreement, seat: PartySeat) -> None:
        self.agreement, self.seat, self.settings = agreement, seat, agreement.settings
        self.conversation = Conversation(channel)
        self.columns = seat.columns
        self.checkpoints = Checkpoints(seat.checkpoint_folder)
        self.seconds: dict[str, float] = defaultdict(float)
        self.step, self._looked = 0, 0
        self._stage = "search"
        self._losses: list[Floats] = []
        self._kept: Floats | None = None

    def run(self) -> CausalGraph:
        """Live through the discovery; return the graph, or the part of it that this party may see."""
        start = self._open()
        try:
            self._resume_at(start)
            while self._stage != "end":
                if self._stage == "weigh":
                    self._weigh()
                else:
                    self._learn()
                    self._look()
            if self.blocks.held_out and self.exchange.peers:
                self._contribute()
            document = self._from_coordinator("graph").arrays["graph"]
            return graph_from_bytes(document.tobytes(), CausalGraph, where=self.agreement.coordinator)
        finally:
            self.exchange.close()

    def _open(self) -> int:
        """Greet the coordinator; learn how many columns each party has, and where to begin."""
        held = self.checkpoints.steps() if self.seat.resume else []
        greeting: dict[str, Any] = {
            "agreement": self.agreement.digest(),
            "alignment": self.seat.shown_alignment,
            "names": [variable.name for variable in self.columns.variables],
            "widths": [variable.width for variable in self.columns.variables],
            "records": len(self.columns.plain),
            "checkpoints": held,
            "knowledge": self.seat.knowledge.model_dump(mode="json"),
        }
        variances = {"variances": self.columns.raw_variance}
        self.conversation.send(self.agreement.coordinator, "hello", variances, greeting)
        plan = self._from_coordinator("plan")
        self.blocks = Blocks(len(self.columns.plain), self.settings, self.agreement.seed)
        own = self.seat.party, greeting["widths"]
        self.layouts = layouts_of_plan(plan, self.agreement.parties, own, self.blocks.learned)
        self.own = self.layouts[self.seat.party]
        counts = [self.layouts[party].variables for party in self.agreement.parties]
        self._first = dict(zip(self.agreement.parties, np.cumsum([0, *counts]).tolist(), strict=False))
        self._set_up()
        return int(plan.meta["start"])

    def _set_up(self) -> None:
        hidden, secret = self.settings.hidden, self.seat.secret
        self._self_mask = self.own.spread(1.0 - np.eye(self.own.variables), hidden)
        exchange = _exchange_class(self.settings.secure)
        plain = [self.columns.plain[rows] for rows in (*self.blocks.rows, *self.blocks.held_out)]
        self.exchange: Exchange = exchange(self.conversation, self.agreement, self.layouts, plain)
        with self._timed("open"):
            self.exchange.open({peer: self._first_weights(peer) for peer in self.exchange.peers})
        self.weights = self._first_weights(self.seat.party) * self._self_mask
        self._momentum = np.zeros((len(self.columns.plain), self.own.variables * hidden))
        self.decoders = Decoders(
            self.columns.variables,
            hidden,
            self.settings.depth,
            self.settings.variance,
            rng=[
                self.agreement.generator(secret, "decoder", self._first[self.seat.party] + place)
                for place in range(self.own.variables)
            ],
        )

    def _first_weights(self, target: str) -> Floats:
        """Draw each edge's first weights from the places of its two ends, so that who holds what does not matter."""
        effects = range(self._first[target], self._first[target] + self.layouts[target].variables)
        return np.block([[self._edge(cause, effect) for effect in effects] for cause in range(self.own.variables)])

    def _edge(self, cause: int, effect: int) -> Floats:
        draw = self.agreement.generator(self.seat.secret, "encoder", self._first[self.seat.party] + cause, effect)
        bound = sum(layout.variables for layout in self.layouts.values()) ** -0.5
        return draw.uniform(-bound, bound, (self.own.widths[cause], self.settings.hidden))

    def _learn(self) -> None:
        """Exchange until the coordinator looks again: features of all others in, the gradient back to all."""
        for _ in range(self.settings.validate_every):
            block = self.blocks.at(self.step)
            rows = self.blocks.rows[block]
            with self._timed("forward"):
                foreign = self._see(block)
            with self._timed("decode"):
                update = self._update(rows, foreign)
                self.weights -= self._allowed() * (self.columns.plain[rows].T @ update)
            if self.seat.curious:
                self.seat.curious.answered(self.step, rows, update)
            with self._timed("backward"):
                self.exchange.backward(block, update)
            self.step += 1

    def _see(self, block: int) -> Floats:
        """Return the others' features for a block of records."""
        foreign = self.exchange.forward(block)
        if self.seat.curious:
            self.seat.curious.saw(self.step, self.blocks.rows[block], foreign, self.exchange.apart)
        return foreign

    def _update(self, rows: Array, foreign: Floats) -> Floats:
        """Let the decoders learn in minibatches; return what encoders change by: columnsᵀ · update.

        Encoders stay as they are meanwhile, one's own too. Their momentum is kept record by record: since the columns
        never change, that is the momentum of the weights, which nobody has.
        """
        columns, settings = self.columns, self.settings
        features = foreign + columns.plain[rows] @ self.weights
        target, observed = columns.target[rows], columns.observed[rows]
        total = np.zeros_like(features)
        for part in self.blocks.minibatches(self.step, len(rows)):
            found = self.decoders.gradients(features[part], target[part], observed[part])
            self.decoders.step(found.parameters, settings.learning_rate * len(part) / len(rows))
            total[part] += found.z * len(part)
            self._losses.append(found.losses.mean(axis=0))
        self._explained = self.decoders.explained(features, target, observed)
        momentum = settings.momentum * self._momentum[rows] + total
        self._momentum[rows] = momentum
        return self.blocks.rate(self.step) * (1 - settings.momentum) / len(rows) * momentum

    def _allowed(self) -> Floats:
        return self._self_mask if self._kept is None else self._kept

    def _look(self) -> None:
        """Let the coordinator look at the graph, and do what it says."""
        with self._timed("strengths"):
            strengths = self.exchange.squared_strengths()
        strengths["own"] = self.own.squared_strengths(self.weights, self.settings.hidden)
        strengths = self._blurred(strengths, sensitivity=1.0)
        losses = np.mean(self._losses, axis=0).tolist()
        self._losses.clear()
        if self._stage == "search":
            strengths["explained"] = self._explained
        self._obey(strengths, losses)

    def _obey(self, strengths: Mapping[str, Array], losses: Sequence[float]) -> None:
        meta = {"look": self._looked + 1, "losses": losses, **self._course()}
        self.conversation.send(self.agreement.coordinator, "strength", strengths, meta)
        verdict = self._from_coordinator("verdict")
        self._looked = int(verdict.meta["look"])
        self._stage = str(verdict.meta["stage"])
        with self._timed("scale"):
            self._scale(verdict, restrict=bool(verdict.meta["restrict"]))
        if verdict.meta["checkpoint"]:
            self._save(self._looked)

    def _course(self) -> dict[str, float | None]:
        """Return what the coordinator is told about every party's traffic, and about how well products are hidden."""
        return {"sent_bytes": self.conversation.channel.sent_bytes, "hidden_by": self.exchange.hidden_by}

    def _scale(self, verdict: Message, restrict: bool) -> None:
        incoming = {peer: _factors(verdict, f"from/{peer}") for peer in self.exchange.peers}
        outgoing = {peer: _factors(verdict, f"to/{peer}") for peer in self.exchange.peers}
        if self.seat.curious:
            self.seat.curious.judged(self.step, incoming, restrict)
        own = np.ldexp(self.own.spread(_factors(verdict, "own"), self.settings.hidden).astype(np.float64), -FACTOR_BITS)
        self.weights *= own
        if restrict:
            self.exchange.restrict(incoming, outgoing)
            self._kept = self._self_mask * (own > 0)
            self._momentum[:] = 0.0
        else:
            self.exchange.scale(incoming, outgoing)

    def _weigh(self) -> None:
        """Tell the coordinator what each edge is worth: its strength in the metric of the decoder's curvature."""
        curvature = self._curvature()
        root = np.linalg.cholesky(curvature + 1e-9 * np.eye(self.settings.hidden)).astype(np.float64)
        metric = root / METRIC_UNIT
        with self._timed("weigh"):
            worth = self.exchange.squared_strengths(metric)
        worth["own"] = self.own.squared_strengths(measured(self.weights, metric), self.settings.hidden)
        self._obey(self._blurred(worth, sensitivity=2 / METRIC_UNIT**2), [])

    def _blurred(self, squares: dict[str, Array], sensitivity: float) -> dict[str, Array]:
        """Add the noise that was agreed on; `sensitivity` is what stands for 1, a strength's square or a nat."""
        if self.settings.strength_epsilon is None:
            return squares
        scale = sensitivity / self.settings.strength_epsilon
        return {name: with_laplace(square, scale) for name, square in squares.items()}

    def _curvature(self) -> Floats:
        """Return the mean curvature (variables, hidden, hidden) of each variable's loss over all records."""
        columns, hidden = self.columns, self.settings.hidden
        total = np.zeros((self.own.variables, hidden, hidden))
        for block, rows in enumerate(self.blocks.rows):
            features = self._see(block) + columns.plain[rows] @ self.weights
            total += len(rows) * self.decoders.curvature(features, columns.observed[rows])
        return total / self.blocks.learned

    def _contribute(self) -> None:
        """Tell the coordinator what each other party's columns bring to this party's variables."""
        with self._timed("contributions"):
            found = brought(self.decoders, self._see_apart(), self.agreement.seed)
        values = np.array([found[peer] for peer in self.exchange.peers])
        self.conversation.send(self.agreement.coordinator, "contribution", {"brought": values}, self._course())

    def _see_apart(self) -> HeldOut:
        """Return everybody's features for the held-out records, each party's by itself."""
        seen: list[dict[str, Floats]] = []
        for number, rows in enumerate(self.blocks.held_out, start=len(self.blocks)):
            seen.append(self.exchange.forward_apart(number))
            if self.seat.curious:
                self.seat.curious.saw_apart(rows, seen[-1])
        rows, columns = np.concatenate(self.blocks.held_out), self.columns
        return HeldOut(
            own=columns.plain[rows] @ self.weights,
            apart={peer: np.concatenate([one[peer] for one in seen]) for peer in self.exchange.peers},
            target=columns.target[rows],
            observed=columns.observed[rows],
        )

    def _from_coordinator(self, kind: str) -> Message:
        return self.conversation.recv(self.agreement.coordinator, kind)

    def _save(self, look: int) -> None:
        if self.seat.run:
            self.seat.run.ledger.flush()
        state = {
            **named("exchange", self.exchange.state()),
            **named("decoders", self.decoders.state()),
            "weights": self.weights,
            "momentum": self._momentum,
        }
        if self._kept is not None:
            state["kept"] = self._kept
        meta = {"agreement": self.agreement.digest(), "alignment": self.seat.alignment, "stage": self._stage}
        self.checkpoints.save(look, state, {**meta, "exchanges": self.step})

    def _resume_at(self, look: int) -> None:
        if look > 0:
            state, meta = self.checkpoints.load(look)
            if (meta["agreement"], meta["alignment"]) != (self.agreement.digest(), self.seat.alignment):
                raise RunError(
                    "belongs to another agreement or another alignment",
                    where=str(self.seat.checkpoint_folder),
                    remedy="resume with the files and records the run was started with, or start a new run",
                    told=True,
                )
            self.exchange.load(under("exchange", state))
            self.decoders.load(under("decoders", state))
            self.weights, self._kept, self._momentum = state["weights"], state.get("kept"), state["momentum"]
            self.step, self._stage, self._looked = int(meta["exchanges"]), str(meta["stage"]), look
        self.checkpoints.forget(after=look)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[phase] += time.perf_counter() - started


def _factors(message: Message, name: str) -> Factors:
    found = message.arrays.get(name)
    if found is None or found.dtype != np.int64:
        raise FrameError(f"'{message.kind}' holds no factors '{name}'", where=message.sender)
    return found


def _exchange_class(secure: bool) -> type[Exchange]:
    if not secure:
        return PlainExchange
    from colonnade.discover.secure_exchange import SecureExchange

    return SecureExchange
