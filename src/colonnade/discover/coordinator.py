"""The coordinator's life in a discovery: no data, no weights; it sees edge strengths and keeps the graph acyclic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from colonnade.checkpoint import Checkpoints, named, under
from colonnade.discover.agreement import Conversation, DiscoveryAgreement
from colonnade.discover.assumptions import copy_notes, sortability_notes
from colonnade.discover.contributions import shares
from colonnade.discover.curious import CuriousCoordinator
from colonnade.discover.evidence import least_worth
from colonnade.discover.exchange import FACTOR_BITS, METRIC_UNIT, Factors, Floats, matrix
from colonnade.discover.graph import CausalGraph
from colonnade.discover.graph_file import graph_bytes
from colonnade.discover.knowledge import Constraints, Knowledge, combine_private
from colonnade.discover.noise import DELTA, strength_spend
from colonnade.discover.sizes import layout_of_greeting
from colonnade.discover.timetable import Blocks, held_out_of
from colonnade.discover.validator import Validator, greedy_acyclic
from colonnade.discover.variables import Mask
from colonnade.errors import ConfigError, DataError, FrameError, RunError
from colonnade.progress import Progress
from colonnade.run import Run
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array, Message

LARGEST_STRENGTH = 12.0
"""Squared norms are computed modulo 2^8: a strength that comes near 16 would soon look like a small one."""
_HARD = {"bfv": "ring-LWE", "paillier": "composite residuosity"}
"""What is assumed to be hard where a source encrypts its columns."""


@dataclass(frozen=True)
class CoordinatorSeat:
    """The coordinator's place in a discovery.

    Attributes:
        knowledge: what everybody may know about the graph.
        run: its run folder; None keeps nothing on disk.
        resume: go on from the last look that all hold.
        progress: how far the discovery is.
        curious: looks closer at what the coordinator sees; used by attacks.
    """

    knowledge: Knowledge = field(default_factory=Knowledge)
    run: Run | None = None
    resume: bool = False
    progress: Progress = field(default_factory=Progress)
    curious: CuriousCoordinator | None = None

    @property
    def checkpoint_folder(self) -> Path | None:
        """Where checkpoints go."""
        return self.run.checkpoints if self.run else None


class Coordinator:
    """Looks at edge strengths every few exchanges, answers with factors, and draws the graph at the end."""

    def __init__(self, channel: Channel, agreement: DiscoveryAgreement, seat: CoordinatorSeat) -> None:
        self.channel, self.agreement, self.seat, self.settings = channel, agreement, seat, agreement.settings
        self.conversation = Conversation(channel)
        self.checkpoints = Checkpoints(seat.checkpoint_folder)

    def run(self) -> CausalGraph:
        """Live through the discovery; return the whole graph."""
        started = time.perf_counter()
        look = self._open()
        self.seat.progress.start(self._looks, "discover")
        while look < self._looks:
            look += 1
            self._look(look)
        shared = len(self.agreement.parties) > 1 and bool(self.blocks.held_out)
        brought = self._hear_contributions() if shared else {}
        graph = self._draw(time.perf_counter() - started, brought)
        for party in self.agreement.parties:
            shown = graph if self.settings.reveal == "all" else graph.of(party)
            self.conversation.send(party, "graph", {"graph": np.frombuffer(graph_bytes(shown), np.uint8)})
        return graph

    def _open(self) -> int:
        """Take everybody's greeting, check that they fit, tell all where to begin."""
        greetings = {party: self.conversation.recv(party, "hello") for party in self.agreement.parties}
        about = {party: message.meta for party, message in greetings.items()}
        self.layouts = {party: layout_of_greeting(message) for party, message in greetings.items()}
        _check_greetings(about, self.agreement)
        self.names = {party: [str(name) for name in meta["names"]] for party, meta in about.items()}
        self.variables = [name for party in self.agreement.parties for name in self.names[party]]
        self.variances = np.concatenate([greetings[party].arrays["variances"] for party in self.agreement.parties])
        counts = [len(self.names[party]) for party in self.agreement.parties]
        ends = np.cumsum([0, *counts])
        self._place = {party: slice(int(ends[i]), int(ends[i + 1])) for i, party in enumerate(self.agreement.parties)}
        self.constraints = self._constraints(about)
        records = int(about[self.agreement.parties[0]]["records"])
        self.blocks = Blocks(records, self.settings, self.agreement.seed)
        self._searching = self.blocks.looks(self.settings.epochs)
        refitting = self.blocks.looks(self.settings.refit_epochs)
        self._looks, self._halfway = self._searching + refitting, self._searching + refitting // 2
        self.validator = Validator(
            len(self.variables),
            sparsity=self.settings.sparsity,
            growth=self.settings.growth,
            required=self.constraints.required,
            forbidden=self.constraints.forbidden,
        )
        count = len(self.variables)
        self._kept, self._weights = np.zeros((count, count), bool), np.zeros((count, count))
        start = self._start = self._resume(about)
        widths = {party: list(layout.widths) for party, layout in self.layouts.items()}
        for party in self.agreement.parties:
            self.conversation.send(party, "plan", meta={"start": start, "widths": widths})
        return start

    def _constraints(self, about: Mapping[str, Mapping[str, Any]]) -> Constraints:
        stated = {party: Knowledge.model_validate(meta["knowledge"]) for party, meta in about.items()}
        return combine_private(self.seat.knowledge, stated, self.names)

    def _resume(self, about: Mapping[str, Mapping[str, Any]]) -> int:
        held = set(self.checkpoints.steps() if self.seat.resume else [])
        common = held.intersection(*(meta["checkpoints"] for meta in about.values()))
        start = max(common, default=0)
        if start:
            state, meta = self.checkpoints.load(start)
            if meta["agreement"] != self.agreement.digest():
                raise RunError(
                    "belongs to another agreement",
                    where=str(self.seat.checkpoint_folder),
                    remedy="resume with the files the run was started with",
                    told=True,
                )
            self.validator.load(under("validator", state))
            self._kept, self._weights, self._explained = state["kept"], state["weights"], state["explained"]
        self.checkpoints.forget(after=start)
        return start

    def _look(self, look: int) -> None:
        """Hear from all and answer: factors, and at some looks a choice of edges to go on with."""
        messages = self._hear()
        strengths = self._gather(messages)
        self._note(messages, look)
        losses = np.concatenate([np.asarray(messages[party].meta["losses"]) for party in self.agreement.parties])
        every = self.settings.validate_every
        learned = sum(self.blocks.rate(exchange) for exchange in range((look - 1) * every, look * every))
        if look <= self._searching:
            verdict = self.validator.judge(strengths, learned)
        else:
            verdict = self.validator.shrink(strengths, learned, self.settings.refit_sparsity)
        stage = self._after(look)
        if look == self._searching:
            self._keep(look, stage, strengths, self._candidates(strengths))
        else:
            self._answer(look, stage, strengths, verdict.factors)
            if stage == "end":
                self._weights = strengths
        if stage == "weigh":
            self._weigh(look)
        values = {"loss": float(losses.mean()), "h": verdict.rho, "edges": verdict.edges}
        if self.seat.run:
            self.seat.run.log(look, **values)
        self.seat.progress.advance(look, **values, sent_bytes=self._sent_bytes)

    def _note(self, messages: Mapping[str, Message], look: int) -> None:
        """Keep what parties say beside edge strengths: traffic, how well products are hidden, what is explained."""
        self._note_course(messages)
        if look <= self._searching:
            self._explained = np.concatenate([messages[party].arrays["explained"] for party in self.agreement.parties])

    def _note_course(self, messages: Mapping[str, Message]) -> None:
        told = [messages[party].meta for party in self.agreement.parties]
        self._sent_bytes = self.channel.sent_bytes + sum(int(meta["sent_bytes"]) for meta in told)
        self._hidden_by = min((meta["hidden_by"] for meta in told if meta["hidden_by"] is not None), default=None)

    def _hear_contributions(self) -> dict[str, float]:
        """Return what each party's columns bring to the variables of all others, in nats a record.

        A sum of games has the sum of their Shapley values, so no target party need tell more than one number for each
        other party; and none has a place to claim anything for itself.
        """
        messages = {party: self.conversation.recv(party, "contribution") for party in self.agreement.parties}
        self._note_course(messages)
        brought = dict.fromkeys(self.agreement.parties, 0.0)
        for target, message in messages.items():
            peers = self.agreement.peers(target)
            for peer, value in zip(peers, matrix(message, "brought", (len(peers),)).tolist(), strict=True):
                brought[peer] += value
        return brought

    def _after(self, look: int) -> str:
        """Return the stage that follows a look."""
        if look < self._searching:
            return "search"
        weighs = self.settings.rule == "worth"
        if look == self._looks:
            return "weigh" if weighs else "end"
        return "weigh" if weighs and look == self._halfway and look > self._searching else "refit"

    def _weigh(self, look: int) -> None:
        """Learn what each edge is worth, Δ = ½ ‖w‖² in the metric of the decoder's curvature; drop the worthless."""
        worth = 0.5 * np.square(METRIC_UNIT * self._gather(self._hear()))
        self._least = self._asked(worth) if look == self._looks else self._asked_halfway(worth)
        kept = (self._kept & (worth >= self._least)) | self.constraints.required
        self._keep(look, "end" if look == self._looks else "refit", worth, kept)

    def _keep(self, look: int, stage: str, weights: Floats, kept: Mask) -> None:
        """Go on with these edges only."""
        self._kept, self._weights = kept, weights
        self._answer(look, stage, weights, kept.astype(np.float64), restrict=True)

    def _answer(self, look: int, stage: str, strengths: Floats, kept: Floats, restrict: bool = False) -> None:
        checkpoint = stage in ("search", "refit") and look % self.settings.checkpoint_every == 0
        meta = {"stage": stage, "look": look, "checkpoint": checkpoint, "restrict": restrict}
        factors = np.rint(np.ldexp(kept, FACTOR_BITS)).astype(np.int64)
        for party in self.agreement.parties:
            self.conversation.send(party, "verdict", self._factors_for(party, factors), meta)
        if checkpoint:
            state = {**named("validator", self.validator.state()), "kept": self._kept, "weights": self._weights}
            state["explained"] = self._explained
            self.checkpoints.save(look, state, {"agreement": self.agreement.digest()})
        if self.seat.curious:
            self.seat.curious(look * self.settings.validate_every, strengths, kept)

    def _candidates(self, strengths: Floats) -> Mask:
        least, known = self.settings.least_strength, self.constraints
        return greedy_acyclic(strengths, least, known.required, known.forbidden)

    def _asked(self, worth: Floats) -> float:
        """Return what an edge must be worth to stay at the end."""
        given = self.settings.evidence
        return least_worth(worth, self.settings.hidden, self.blocks.learned) if given is None else given

    def _asked_halfway(self, worth: Floats) -> float:
        """Return half of that: true edges gain once false ones are gone."""
        given = self.settings.least_worth
        return self._asked(worth) / 2 if given is None else given

    def _factors_for(self, party: str, factors: Factors | None) -> dict[str, Array]:
        """Return the factors of the edges that touch the party's own variables, and of no others."""
        if factors is None:
            return {}
        mine = self._place[party]
        found = {"own": factors[mine, mine]}
        for peer in self.agreement.peers(party):
            found[f"to/{peer}"] = factors[mine, self._place[peer]]
            found[f"from/{peer}"] = factors[self._place[peer], mine]
        return {name: np.ascontiguousarray(part) for name, part in found.items()}

    def _hear(self) -> dict[str, Message]:
        return {party: self.conversation.recv(party, "strength") for party in self.agreement.parties}

    def _gather(self, messages: Mapping[str, Message]) -> Floats:
        """Return all edge strengths from what the parties have sent."""
        squares = np.zeros((len(self.variables), len(self.variables)))
        for target in self.agreement.parties:
            squares[self._place[target], self._place[target]] = self._plain(messages[target], "own", target, target)
            for source in self.agreement.peers(target):
                found = self._between(messages, source, target)
                squares[self._place[source], self._place[target]] = found
        strengths: Floats = np.sqrt(np.maximum(squares, 0.0))
        if strengths.max() > LARGEST_STRENGTH:
            what, remedy = "edge strengths grow without bound", "use a smaller learning rate"
            raise DataError(what, where="strength", remedy=remedy, told=True)
        return strengths

    def _between(self, messages: Mapping[str, Message], source: str, target: str) -> Floats:
        if not self.settings.secure:
            return self._plain(messages[source], f"to/{target}", source, target)
        from colonnade.discover.secure_exchange import reveal

        shape = (self.layouts[source].variables, self.layouts[target].variables)
        shares = [messages[source].arrays.get(f"to/{target}"), messages[target].arrays.get(f"from/{source}")]
        return reveal(shares, shape, where=f"{source} and {target}")

    def _plain(self, message: Message, name: str, source: str, target: str) -> Floats:
        shape = (self.layouts[source].variables, self.layouts[target].variables)
        found = message.arrays.get(name)
        if found is None or found.shape != shape or found.dtype != np.float64 or not np.isfinite(found).all():
            raise FrameError(f"'strength' holds no '{name}' of shape {shape}", where=message.sender)
        return found

    def _draw(self, seconds: float, brought: Mapping[str, float]) -> CausalGraph:
        # A required edge stays, even one that fixed point has rounded to nothing.
        least = np.where(self.constraints.required, np.finfo(np.float64).tiny, 0.0)
        adjacency = np.where(self._kept, np.maximum(self._weights, least), 0.0)
        by_variance, by_r2, order_notes = sortability_notes(
            self.variances, self._explained, self._kept, self.settings.standardise
        )
        copies = copy_notes(self._explained)
        names = self.variables
        return CausalGraph(
            adjacency=pd.DataFrame(adjacency, names, names),
            party_of={name: party for party in self.agreement.parties for name in self.names[party]},
            strengths=pd.DataFrame(self._weights, names, names),
            notes=[self._rule(), *self._privacy(), *self._judged(brought), *order_notes, *copies, *self._resumed()],
            cost={
                "seconds": seconds,
                "exchanges": self._looks * self.settings.validate_every,
                "bytes": self._sent_bytes,
            },
            varsortability=by_variance,
            r2_sortability=by_r2,
            contributions=shares(brought),
        )

    def _resumed(self) -> list[str]:
        if not self._start:
            return []
        counted = "; bits leave out what was done twice" if self._hidden_by is not None else ""
        return [f"resumed at look {self._start}: seconds and bytes count from there{counted}"]

    def _judged(self, brought: Mapping[str, float]) -> list[str]:
        """Say how much there was to share, and on how many records that was judged."""
        if not brought:
            return []
        total, records = sum(brought.values()), sum(map(len, self.blocks.held_out))
        if total <= 0:
            return [f"on {records} held-out records no columns help with the variables of other parties: no shares"]
        return [
            f"contributions are shares of {total:.3g} nats a record, which all columns together bring to the variables "
            f"of other parties, on {records} held-out records"
        ]

    def _rule(self) -> str:
        if self.settings.rule == "strength":
            return f"edges stronger than {self.settings.least_strength:g} that close no cycle were kept"
        chosen = "as agreed" if self.settings.evidence is not None else "a threshold taken from the worths of all edges"
        return f"edges worth at least {self._least:.3g} nats a record were kept, {chosen}"

    def _privacy(self) -> list[str]:
        """Say what was not hidden, and how well the rest was."""
        parties, settings = len(self.agreement.parties), self.settings
        notes = []
        if parties > 1 and not settings.secure:
            notes.append("features and gradients were in the clear: for simulations and research only")
        elif parties == 2:
            notes.append("with two parties, each sees the features of the other alone: see 'what discovery leaks'")
        if self._hidden_by is not None:
            notes.append(
                f"products hide fragments and gradients with at least {self._hidden_by:.0f} statistical bits over the "
                f"whole run; columns rest on {_HARD[settings.backend]}"
            )
        if settings.strength_epsilon is not None:
            notes.append(self._spent(settings.strength_epsilon))
        if settings.feature_noise:
            notes.append(f"features carried noise of deviation {settings.feature_noise:g} in every exchange")
        if parties > 2 and settings.secure and settings.held_out:
            notes.append("each party saw the features of every other apart, for held-out records: see `held_out`")
        return notes

    def _spent(self, epsilon: float) -> str:
        """Say what all noise on strengths is worth together, and which numbers carried none."""
        looks = self._looks + sum(self._after(look) == "weigh" for look in range(1, self._looks + 1))
        edges = len(self.variables) * (len(self.variables) - 1)
        spent = strength_spend(epsilon, looks, edges, shared=self.settings.secure)
        bare = "variances, losses, explained shares" + (", contributions" if self.settings.held_out else "")
        return (
            f"noise on {edges} edge strengths or worths at {looks} looks: ε = {spent:.3g} at δ = {DELTA:g}, if one "
            f"record changes none by over 1; without noise and not in this ε: {bare}"
        )


def _check_greetings(about: Mapping[str, Mapping[str, Any]], agreement: DiscoveryAgreement) -> None:
    for party, meta in about.items():
        if meta["agreement"] != agreement.digest():
            remedy = "use the same federation file, the same run and the same version everywhere"
            raise ConfigError("has agreed on something else", where=party, remedy=remedy, told=True)
    first = about[agreement.parties[0]]
    for party, meta in about.items():
        if (meta["alignment"], meta["records"]) != (first["alignment"], first["records"]):
            raise DataError("has other records than the others", where=party, remedy="align them again", told=True)
    owners: dict[str, str] = {}
    for party, meta in about.items():
        for name in meta["names"]:
            if name in owners:
                what = f"variable '{name}' is also held by '{owners[name]}'"
                # Names of columns are no secret here: the graph shows them to all.
                remedy = "rename it, or let one of them leave it out"
                raise DataError(what, where=party, remedy=remedy, told=True)
            owners[name] = party
    columns = sum(sum(meta["widths"]) for meta in about.values())
    learned = first["records"] - held_out_of(first["records"], agreement.settings)
    if learned <= columns:
        what = f"{learned} common records for {columns} columns of all parties"
        raise DataError(what, where="records", remedy="bring more records, or leave columns out", told=True)
