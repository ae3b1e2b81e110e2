"""Find one causal graph over the columns of a federation that lives in one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from colonnade.discover.agreement import COORDINATOR, DiscoveryAgreement
from colonnade.discover.beginning import check_beginning
from colonnade.discover.confidence import with_confidence
from colonnade.discover.coordinator import Coordinator, CoordinatorSeat
from colonnade.discover.curious import Curious, CuriousCoordinator
from colonnade.discover.graph import CausalGraph
from colonnade.discover.graph_parts import check_name
from colonnade.discover.knowledge import Stated, divide
from colonnade.discover.party import Party, PartySeat
from colonnade.discover.recodings import refuse_recodings
from colonnade.discover.residuals import Residuals
from colonnade.discover.variables import PartyColumns, prepare_columns
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.discovery import RECIPES, DiscoverySettings
from colonnade.federation.federation import Federation
from colonnade.federation.knowledge import Knowledge, VariableKind
from colonnade.progress import Progress, make_progress
from colonnade.run import Run, party_runs, write_atomically
from colonnade.wire.channel import Channel
from colonnade.wire.message import Array
from colonnade.wire.together import run_together

SIMULATION_SECRET = b"one process"
"""What stands for every party's secret in a simulation: there is nobody to hide from, and runs shall be repeatable."""


def discover(
    federation: Federation,
    secure: bool = True,
    *,
    recipe: str = "default",
    seed: int = 0,
    knowledge: Stated | Mapping[str, Stated] | None = None,
    kinds: Mapping[str, VariableKind] | None = None,
    confidence: int = 0,
    run: Path | str | None = None,
    resume: bool = False,
    progress: bool | Progress = True,
    curious: Mapping[str, Curious] | None = None,
    curious_coordinator: CuriousCoordinator | None = None,
    **settings: Any,
) -> CausalGraph:
    """Find one causal graph over the columns of all parties; the label, if there is one, is a variable too.

    Args:
        federation: who takes part; aligned, or with ids that `co.align` can align.
        secure: whether features and gradients are computed under encryption.
        recipe: `default`, or `paper` for the published way of training.
        seed: every random choice comes from it.
        knowledge: what is known about the graph, in public, or by party; a party's own goes to the coordinator alone.
        kinds: of variables whose kind is not to be guessed.
        confidence: how many further runs on resampled records tell how sure each edge is; each takes as long again.
        run: folder to keep checkpoints, metrics and ledgers in; None keeps nothing.
        resume: go on from the last look that all hold in `run`.
        progress: show a bar when the output is a terminal; or a `Progress` of your own.
        curious: by party, who looks closer at what that party sees; used by attacks.
        curious_coordinator: who looks closer at what the coordinator sees.
        settings: fields of `DiscoverySettings`.
    """
    if federation.rows is None:
        raise DataError("the records are not aligned", where="federation", remedy="call co.align(federation) first")
    tables = {party: _table(federation, party) for party in federation.parties}
    return discover_tables(
        tables,
        _settings(recipe, {**settings, "secure": secure}),
        seed=seed,
        knowledge=knowledge,
        kinds=kinds,
        confidence=confidence,
        run=run,
        resume=resume,
        progress=progress,
        curious=curious,
        curious_coordinator=curious_coordinator,
    )


def discover_tables(
    tables: Mapping[str, pd.DataFrame],
    settings: DiscoverySettings,
    *,
    seed: int = 0,
    knowledge: Stated | Mapping[str, Stated] | None = None,
    kinds: Mapping[str, VariableKind] | None = None,
    confidence: int = 0,
    run: Path | str | None = None,
    resume: bool = False,
    progress: bool | Progress = True,
    curious: Mapping[str, Curious] | None = None,
    curious_coordinator: CuriousCoordinator | None = None,
    public: Knowledge | None = None,
    coordinator: str = COORDINATOR,
) -> CausalGraph:
    """Find one causal graph over tables whose rows correspond; one party alone is the undivided algorithm.

    Args are those of `discover`; `public` is what all may know where `knowledge` is by party.
    """
    stated, private = divide(knowledge, {party: [str(name) for name in table] for party, table in tables.items()})
    agreed = DiscoveryAgreement(
        "local", tuple(tables), coordinator, settings, seed, stated if public is None else public
    )
    for party, table in tables.items():
        for name in table.columns:
            check_name(name, "variable", where=party)
    known = _kinds(kinds or {}, tables)
    columns = {
        party: prepare_columns(table, known[party], settings.missing, settings.standardise, where=party)
        for party, table in tables.items()
    }
    for party, table in tables.items():
        refuse_recodings(table, where=party)
    with progress if isinstance(progress, Progress) else make_progress("auto" if progress else "silent") as bar:
        simulation = _Simulation(private, bar, resume, curious or {}, curious_coordinator)

        def run_once(run_seed: int, rows: Array) -> CausalGraph:
            if run_seed == seed:
                return simulation.run(agreed, columns, run)
            drawn = {party: whole.take(rows) for party, whole in columns.items()}
            return replace(simulation, resume=False).run(replace(agreed, seed=run_seed), drawn, None)

        graph = with_confidence(run_once, len(next(iter(tables.values()))), confidence, seed)
        if run is not None and confidence:
            _save(graph, Path(run) / agreed.coordinator)  # over the one without, which the coordinator left there
        return graph


@dataclass(frozen=True)
class _Simulation:
    """All roles of a discovery in one process; every party's secret is the same, so that runs can be repeated."""

    knowledge: Mapping[str, Knowledge]
    progress: Progress
    resume: bool
    curious: Mapping[str, Curious]
    curious_coordinator: CuriousCoordinator | None

    def run(
        self, agreed: DiscoveryAgreement, columns: Mapping[str, PartyColumns], folder: Path | str | None
    ) -> CausalGraph:
        """Let everybody live; return the coordinator's graph."""
        with ExitStack() as stack:
            runs = {name: stack.enter_context(run) for name, run in _run_folders(folder, agreed, self.resume)}
            roles = {}
            for party, held in columns.items():
                seat = PartySeat(
                    party,
                    held,
                    SIMULATION_SECRET,
                    self.knowledge[party],
                    run=runs.get(party),
                    resume=self.resume,
                    curious=self.curious.get(party),
                )
                roles[party] = partial(_live_as_party, agreement=agreed, seat=seat)
            chair = CoordinatorSeat(
                agreed.knowledge, runs.get(agreed.coordinator), self.resume, self.progress, self.curious_coordinator
            )
            roles[agreed.coordinator] = partial(_live_as_coordinator, agreement=agreed, seat=chair)
            graphs = run_together(roles, agreed.run)
            return _with_parties_notes(graphs[agreed.coordinator], [graphs[party] for party in agreed.parties])


def _with_parties_notes(graph: CausalGraph, own: Sequence[CausalGraph]) -> CausalGraph:
    """In one process there is nobody to hide from: tell what every party has found in its own residuals."""
    return graph.with_notes([note for theirs in own for note in theirs.notes if note not in graph.notes])


def _live_as_party(channel: Channel, agreement: DiscoveryAgreement, seat: PartySeat) -> CausalGraph:
    if seat.run:
        channel.observe(seat.run.ledger.record)
    return take_part(channel, agreement, seat)


def _live_as_coordinator(channel: Channel, agreement: DiscoveryAgreement, seat: CoordinatorSeat) -> CausalGraph:
    if seat.run:
        channel.observe(seat.run.ledger.record)
    return coordinate(channel, agreement, seat)


def take_part(channel: Channel, agreement: DiscoveryAgreement, seat: PartySeat) -> CausalGraph:
    """Live one party's discovery over `channel`; with a run folder, keep its graph there.

    What the party's own residuals tell stands in the notes of its graph, and in nobody else's.

    Raises:
        ConfigError: a run that is to go on began with other records or other knowledge.
    """
    check_beginning(seat)
    residuals = Residuals(seat.curious)
    party = residuals.party = Party(channel, agreement, replace(seat, curious=residuals))
    graph = party.run()
    graph = graph.with_notes(residuals.notes(graph))
    _finish(graph, seat.run, channel, party.seconds)
    return graph


def coordinate(channel: Channel, agreement: DiscoveryAgreement, seat: CoordinatorSeat) -> CausalGraph:
    """Live the coordinator's discovery over `channel`; with a run folder, keep the whole graph there."""
    graph = Coordinator(channel, agreement, seat).run()
    _finish(graph, seat.run, channel, {})
    return graph


def _finish(graph: CausalGraph, run: Run | None, channel: Channel, seconds: Mapping[str, float]) -> None:
    if run:
        _save(graph, run.path)
        # The ending itself counts what all attempts of a resumed run have sent.
        traffic = {"sent_bytes": channel.sent_bytes, "received_bytes": channel.received_bytes}
        run.finish({"edges": len(graph.edges), "last_attempt": {"seconds": dict(seconds), **traffic}})


def _save(graph: CausalGraph, folder: Path) -> None:
    graph.save(folder / "graph.json")
    write_atomically(folder / "graph.dot", graph.to_dot().encode())


def _table(federation: Federation, party: str) -> pd.DataFrame:
    records = federation.records[party]
    assert federation.rows is not None
    rows = federation.rows[party]
    if (rows < 0).any():
        raise DataError("lacks some of the records", where=party, remedy="align with policy 'drop' for discovery")
    if records.images is not None:
        raise DataError("holds images", where=party, remedy="discovery needs tables: give it columns")
    parts = [part for part in (records.table, records.label) if part is not None]
    return pd.concat(parts, axis=1).iloc[rows]


def _settings(recipe: str, settings: Mapping[str, Any]) -> DiscoverySettings:
    if recipe not in RECIPES:
        raise ConfigError(f"no recipe '{recipe}'", where="recipe", remedy=nearest(recipe, RECIPES))
    try:
        return DiscoverySettings.model_validate({**RECIPES[recipe], **settings})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        known = first["type"] != "extra_forbidden"
        remedy = None if known else nearest(name, DiscoverySettings.model_fields)
        raise ConfigError(first["msg"] if known else "unknown setting", where=name, remedy=remedy) from error


def _kinds(kinds: Mapping[str, VariableKind], tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, VariableKind]]:
    names = {party: set(map(str, table.columns)) for party, table in tables.items()}
    for name in kinds:
        if not any(name in own for own in names.values()):
            everything = [known for own in names.values() for known in own]
            raise ConfigError(f"a kind is stated for '{name}'", where="kinds", remedy=nearest(name, everything))
    return {party: {name: kind for name, kind in kinds.items() if name in own} for party, own in names.items()}


def _run_folders(root: Path | str | None, agreed: DiscoveryAgreement, resume: bool) -> Iterator[tuple[str, Run]]:
    config: dict[str, Any] = {
        "task": {"kind": "discovery"},
        "discovery": agreed.settings.model_dump(mode="json"),
        "parties": list(agreed.parties),
        "coordinator": agreed.coordinator,
        "seed": agreed.seed,
    }
    return party_runs(root, agreed.everybody, config, resume)
