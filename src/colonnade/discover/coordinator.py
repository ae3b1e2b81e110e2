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
from colonnade.discover.exchange import FACTOR_BITS, Factors, Floats, Layout
from colonnade.discover.graph import CausalGraph
from colonnade.discover.graph_file import graph_bytes
from colonnade.discover.knowledge import Constraints, Knowledge, combine
from colonnade.discover.timetable import Blocks
from colonnade.discover.validator import Validator, greedy_acyclic
from colonnade.errors import ConfigError, DataError, FrameError, RunError
from colonnade.progress import Progress
from colonnade.run import Run
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array, Message

LARGEST_STRENGTH = 12.0
"""Squared norms are computed modulo 2^8: a strength that comes near 16 would soon look like a small one."""


@dataclass(frozen=True)
class CoordinatorSeat:
    """The coordinator's place in a discovery.

    Attributes:
        knowledge: what everybody may know about the graph.
        run: its run folder; None keeps nothing on disk.
        resume: go on from the last look that all hold.
        progress: how far the discovery is.
    """

    knowledge: Knowledge = field(default_factory=Knowledge)
    run: Run | None = None
    resume: bool = False
    progress: Progress = field(default_factory=Progress)

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
        searching, looks = self._searching, self._searching + self._refitting
        self.seat.progress.start(looks, "discover")
        while look < looks:
            look += 1
            stage = "search" if look < searching else "refit" if look < looks else "weigh"
            self._look(look, stage)
        graph = self._draw(self._gather(self._hear()), time.perf_counter() - started)
        for party in self.agreement.parties:
            shown = graph if self.settings.reveal == "all" else graph.of(party)
            self.conversation.send(party, "graph", {"graph": np.frombuffer(graph_bytes(shown), np.uint8)})
        return graph

    def _open(self) -> int:
        """Take everybody's greeting, check that they fit, tell all where to begin."""
        greetings = {party: self.conversation.recv(party, "hello") for party in self.agreement.parties}
        about = {party: message.meta for party, message in greetings.items()}
        _check_greetings(about, self.agreement)
        self.layouts = {party: Layout(tuple(meta["widths"])) for party, meta in about.items()}
        self.names = {party: [str(name) for name in meta["names"]] for party, meta in about.items()}
        self.variables = [name for party in self.agreement.parties for name in self.names[party]]
        self.variances = np.concatenate([greetings[party].arrays["variances"] for party in self.agreement.parties])
        counts = [len(self.names[party]) for party in self.agreement.parties]
        ends = np.cumsum([0, *counts])
        self._place = {party: slice(int(ends[i]), int(ends[i + 1])) for i, party in enumerate(self.agreement.parties)}
        self.constraints = self._constraints(about)
        blocks = Blocks(int(about[self.agreement.parties[0]]["records"]), self.settings, self.agreement.seed)
        self._searching, self._refitting = blocks.looks(self.settings.epochs), blocks.looks(self.settings.refit_epochs)
        self.validator = Validator(
            len(self.variables),
            learning_rate=self.settings.learning_rate,
            sparsity=self.settings.sparsity,
            growth=self.settings.growth,
            steps_per_epoch=len(blocks),
            required=self.constraints.required,
            forbidden=self.constraints.forbidden,
        )
        start = self._resume(about)
        widths = {party: list(layout.widths) for party, layout in self.layouts.items()}
        for party in self.agreement.parties:
            self.conversation.send(party, "plan", meta={"start": start, "widths": widths})
        return start

    def _constraints(self, about: Mapping[str, Mapping[str, Any]]) -> Constraints:
        stated = [Knowledge.model_validate(meta["knowledge"]) for meta in about.values()]
        return combine([self.seat.knowledge, *stated], self.variables)

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
                )
            self.validator.load(under("validator", state))
        self.checkpoints.forget(after=start)
        return start

    def _look(self, look: int, stage: str) -> None:
        """Hear from all; while searching, scale edges; at its end, keep the strongest that close no cycle."""
        messages = self._hear()
        losses = np.concatenate([np.asarray(messages[party].meta["losses"]) for party in self.agreement.parties])
        values: dict[str, Any] = {"loss": float(losses.mean())}
        factors: Factors | None = None
        if look <= self._searching:
            strengths = self._gather(messages)
            verdict = self.validator.judge(strengths, self.settings.validate_every)
            values |= {"h": verdict.rho, "edges": verdict.edges}
            kept = verdict.factors if look < self._searching else self._candidates(strengths).astype(np.float64)
            factors = np.rint(np.ldexp(kept, FACTOR_BITS)).astype(np.int64)
        checkpoint = stage != "weigh" and look % self.settings.checkpoint_every == 0
        meta = {"stage": stage, "look": look, "checkpoint": checkpoint}
        for party in self.agreement.parties:
            self.conversation.send(party, "verdict", self._factors_for(party, factors), meta)
        if checkpoint:
            state = named("validator", self.validator.state())
            self.checkpoints.save(look, state, {"agreement": self.agreement.digest()})
        if self.seat.run:
            self.seat.run.log(look, **values)
        self.seat.progress.advance(look, **values, sent_bytes=self.channel.sent_bytes)

    def _candidates(self, strengths: Floats) -> Array:
        least, known = self.settings.least_strength, self.constraints
        return greedy_acyclic(strengths, least, known.required, known.forbidden)

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
            raise DataError("edge strengths grow without bound", where="strength", remedy="use a smaller learning rate")
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

    def _draw(self, worth: Floats, seconds: float) -> CausalGraph:
        """Keep the edges that are worth their place: Δ = ½ ‖w‖² in the metric of the decoder's curvature."""
        evidence = 0.5 * np.square(worth)
        kept = (evidence >= self.settings.evidence) | self.constraints.required
        adjacency = np.where(kept, evidence, 0.0)
        names = self.variables
        return CausalGraph(
            adjacency=pd.DataFrame(adjacency, names, names),
            party_of={name: party for party in self.agreement.parties for name in self.names[party]},
            strengths=pd.DataFrame(evidence, names, names),
            cost={"seconds": seconds},
        )


def _check_greetings(about: Mapping[str, Mapping[str, Any]], agreement: DiscoveryAgreement) -> None:
    for party, meta in about.items():
        if meta["agreement"] != agreement.digest():
            remedy = "use the same federation file, the same run and the same version everywhere"
            raise ConfigError("has agreed on something else", where=party, remedy=remedy)
    first = about[agreement.parties[0]]
    for party, meta in about.items():
        if (meta["alignment"], meta["records"]) != (first["alignment"], first["records"]):
            raise DataError("has other records than the others", where=party, remedy="align them again")
    owners: dict[str, str] = {}
    for party, meta in about.items():
        for name in meta["names"]:
            if name in owners:
                what = f"variable '{name}' is also held by '{owners[name]}'"
                raise DataError(what, where=party, remedy="rename it, or let one of them leave it out")
            owners[name] = party
    columns = sum(sum(meta["widths"]) for meta in about.values())
    if first["records"] <= columns:
        what = f"{first['records']} common records for {columns} columns of all parties"
        raise DataError(what, where="records", remedy="bring more records, or leave columns out")
