"""What a discovery costs as columns, records and parties grow: seconds, bytes, and the memory of every party.

A whole discovery of 200 columns under encryption takes hours. But it repeats itself: exchanges of one size, and looks
of the coordinator. So a few of them are measured, in new processes, and the recipe's number of them is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.hosts import Lived, live_apart
from colonnade.bench.causal.methods import Colonnade
from colonnade.bench.causal.published import Published
from colonnade.bench.causal.sets import fresh
from colonnade.bench.causal.table import Job
from colonnade.bench.device import describe_device
from colonnade.bench.registry import BENCHES, Row
from colonnade.errors import ColonnadeError
from colonnade.progress import Progress
from colonnade.run import write_atomically

if TYPE_CHECKING:
    from colonnade.discover.timetable import Blocks
    from colonnade.federation.discovery import DiscoverySettings

SEED = 0
ROUND, ROUNDS = 5, 2
"""Exchanges between two looks, and looks, where a few are measured."""
PUBLISHED_RATE = 12_500
"""Encrypted multiplications a second, of which an iteration needs 10 · n · d², says the paper's appendix."""


@dataclass(frozen=True)
class Size:
    """How many columns in all, how many records, and over how many parties the columns are spread."""

    attributes: int
    records: int
    parties: int

    @property
    def design(self) -> Design:
        """What is drawn; how many edges there are changes no cost."""
        return Design(self.attributes, 2 * self.attributes, self.records)

    def __str__(self) -> str:
        return f"{self.attributes} attributes, {self.records} records, {self.parties} parties"


FEW, MANY = 1000, 10_000
_COLUMNS, _PARTIES = (10, 15, 25, 50, 100, 200), (2, 3, 5)
_GRID = [Size(d, n, k) for d in _COLUMNS for k in _PARTIES for n in (FEW, MANY)]
_CROSS = [size for size in _GRID if (size.parties == 3) + (size.attributes == 25) + (size.records == FEW) >= 2]
SIZES: dict[str, list[Size]] = {"smoke": [Size(6, 200, 2)], "default": [*_CROSS, Size(200, MANY, 3)], "paper": _GRID}
"""One number at a time around 25 columns, 1,000 records and three parties, and the largest size; or all of them."""
JUDGED: dict[str, set[int]] = {"smoke": {6}, "default": {15, 25, 50}, "paper": {10, 15, 25, 50}}
"""Attributes of the sizes at which the rules are judged: few records are also lived through in full, and of many
records both what was measured and what few of them tell is shown."""
SHARE_OF_MEMORY = 0.5
"""A size that would need more of this machine's memory is not measured: what fewer records tell has to do."""
_QUICK_RECIPE: dict[str, Any] = {"epochs": 30, "refit_epochs": 20}
_PARTS = ("first", "exchange", "look", "last")


@dataclass(frozen=True)
class Course:
    """How a number grows over a discovery: seconds, or bytes that somebody sends.

    Attributes:
        first: until the features of the first exchange are there.
        exchange: from one exchange to the next.
        look: what a look of the coordinator between two exchanges adds.
        last: from the features of the last exchange to the graph: a look, and weighing all edges.
    """

    first: float
    exchange: float
    look: float
    last: float

    def total(self, exchanges: int, looks: int) -> float:
        """Return the number at the end of a discovery; edges are weighed half-way through the refit and at the end."""
        return self.first + (exchanges - 2) * self.exchange + (looks - 2) * self.look + 2 * self.last

    def with_blocks(self, count: int) -> Course:
        """Return the course over so many blocks of records instead of one: each is delivered first and weighed last."""
        return Course(count * self.first, self.exchange, self.look, self.last + (count - 1) * self.exchange)

    def __add__(self, other: Course) -> Course:
        return Course(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


@BENCHES.register("vfedcd-scale")
def run(preset: str, progress: Progress, *, folder: Path | None = None) -> list[Row]:
    """Seconds, bytes and memory of each party by columns, records and parties, in the clear and encrypted."""
    progress.message(
        "every role is a new process on this machine, under mutual TLS, all sharing its cores: between hosts that each "
        "have as many, seconds would be fewer; bytes are tensor payload, of everybody or of the busiest party; "
        "peak_memory is that of the party that held most, the processes that make its masks included; "
        "published_exchange_seconds is the paper's own estimate, 10 · n · d² / 12,500 for n records of d attributes"
    )
    progress.message(
        f"where extrapolated_from is not empty: about {ROUNDS * ROUND} exchanges, a look after each {ROUND}, and a "
        "weighing of all edges were measured; seconds and bytes = first + (exchanges - 2) · exchange + (looks - 2) · "
        "look + 2 · last, exchange the mean of all but the first, and last what follows the last exchange: a look and "
        "a weighing; memory is as measured: it does not grow from exchange to exchange"
    )
    progress.message(
        f"where it names other records: what parties keep of {MANY} records would not fit into half of this machine's "
        "memory; first, and memory beyond that of a role without columns, grow with the blocks of records, exchanges "
        "are of one block, and last grows by an exchange a block"
    )
    work = [(size, secure) for size in SIZES[preset] for secure in (False, True)]
    progress.start(len(work), "vfedcd-scale")
    rows: list[Row] = []
    for done, (size, secure) in enumerate(work, start=1):
        try:
            rows += list(_rows(preset, size, secure, rows, folder))
        except ColonnadeError as error:
            progress.message(f"left out: {size}, {'encrypted' if secure else 'plain'}: {error}")
        progress.advance(done, attributes=size.attributes, records=size.records, parties=size.parties)
    for told in judged(rows):
        progress.message(told)
    return rows


def _rows(preset: str, size: Size, secure: bool, rows: Sequence[Row], folder: Path | None) -> Iterator[Row]:
    """Yield what is to be known about a size, given the rows so far."""
    recipe = _QUICK_RECIPE if preset == "smoke" else {}
    measured = partial(_kept, folder, size, recipe, secure)
    fewer = _fewer(rows, size, secure)
    fits = fewer is None or _memory_of(fewer, size) <= SHARE_OF_MEMORY * describe_device()["memory"]
    in_judgement = size.attributes in JUDGED[preset]
    if fewer is not None and (in_judgement or not fits):
        yield grown(fewer, size, recipe)
    if fits:
        yield measured(full=False)
    if fewer is None and in_judgement:
        yield measured(full=True)


def _fewer(rows: Sequence[Row], size: Size, secure: bool) -> Row | None:
    """Return the row of the same size with fewer records."""
    same = {"attributes": size.attributes, "parties": size.parties, "secure": secure}
    for row in rows:
        if same.items() <= row.items() and row["records"] < size.records and row["extrapolated_from"]:
            return row
    return None


def _kept(folder: Path | None, size: Size, recipe: Mapping[str, Any], secure: bool, full: bool) -> Row:
    """Return the row that is kept in the folder, or measure it and keep it there."""
    if folder is None:
        return measure(size, recipe, secure, full)
    title = f"{size}, {'in full' if full else f'{ROUNDS * ROUND} exchanges'}"
    load = partial(fresh, size.design, parties=size.parties)
    path = folder / Job(title, load, Colonnade(secure, recipe), SEED, Published()).file_name
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(measure(size, recipe, secure, full)).encode())
    row: Row = json.loads(path.read_bytes())
    return row


def measure(size: Size, recipe: Mapping[str, Any], secure: bool, full: bool) -> Row:
    """Return the row of a size: of a whole discovery, or extrapolated from a few exchanges."""
    plan = _Plan.of(size, recipe, secure)
    settings = plan.settings if full else plan.few
    *parties, coordinator = live_apart(size.design, size.parties, settings, SEED).values()
    memory = {
        "peak_memory": max(life.peak_memory for life in parties),
        "coordinator_memory": coordinator.peak_memory,
    }
    if full:
        sent = [life.end.sent_bytes for life in parties]
        costs = {
            "seconds": round(parties[0].end.seconds, 3),
            "bytes": sum(sent) + coordinator.end.sent_bytes,
            "party_bytes": max(sent),
            **dict.fromkeys(f"{part}_{of}" for of in ("seconds", "bytes") for part in _PARTS),
        }
        return {**plan.about, **costs, **memory, "extrapolated_from": None}
    by_party = [party_course(life, "sent_bytes") for life in parties]
    everybody = sum(by_party, start=coordinator_course(coordinator, "sent_bytes"))
    busiest = max(course.total(plan.exchanges, plan.looks) for course in by_party)
    costs = {**_costs(plan, party_course(parties[0], "seconds"), everybody), "party_bytes": round(busiest)}
    return {**plan.about, **costs, **memory, "extrapolated_from": f"{_measured(parties[0])} exchanges"}


def grown(fewer: Row, size: Size, recipe: Mapping[str, Any]) -> Row:
    """Return the row of a size as the row of the same size with one block of records tells it."""
    plan = _Plan.of(size, recipe, fewer["secure"])
    seconds, sent = (
        Course(*(fewer[f"{part}_{of}"] for part in _PARTS)).with_blocks(plan.blocks) for of in ("seconds", "bytes")
    )
    costs = _costs(plan, seconds, sent)
    return {
        **plan.about,
        **costs,
        "party_bytes": round(costs["bytes"] * fewer["party_bytes"] / fewer["bytes"]),
        "peak_memory": _party_memory(fewer, plan.blocks),
        "coordinator_memory": fewer["coordinator_memory"],
        "extrapolated_from": f"{fewer['extrapolated_from']}, {fewer['records']} records",
    }


def judged(rows: Sequence[Row]) -> Iterator[str]:
    """Say how far each rule was from what was measured."""
    by_size: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = (row["attributes"], row["records"], row["parties"], row["secure"])
        by_size.setdefault(key, []).append(row)
    for (attributes, records, parties, secure), (rule, *measured) in by_size.items():
        for row in measured:
            ratios = (f"{name} {rule[name] / row[name]:.3f}" for name in ("seconds", "bytes", "peak_memory"))
            yield (
                f"the rule judged: {attributes} attributes, {records} records, {parties} parties, "
                f"{'encrypted' if secure else 'plain'}: what {rule['extrapolated_from']} tell, divided by what "
                f"{row['extrapolated_from'] or 'the whole discovery'} took: {', '.join(ratios)}"
            )


def party_course(life: Lived, of: str) -> Course:
    """Return how seconds or sent bytes of a party grew; its marks end with those of the weighing."""
    at = [getattr(mark, of) for mark in life.marks[: _measured(life)]]
    steps = list(enumerate((after - before for before, after in pairwise(at)), start=1))
    # The first exchange still makes what lasts; a step onto the first exchange of a round has a look in it.
    exchange = fmean(step for place, step in steps if place > 1 and place % ROUND)
    look = fmean(step for place, step in steps if not place % ROUND) - exchange
    return Course(at[0], exchange, look, getattr(life.end, of) - at[-1])


def coordinator_course(life: Lived, of: str) -> Course:
    """Return how seconds or sent bytes of the coordinator grew; its marks are its answers, the last to a weighing."""
    at = [getattr(mark, of) for mark in life.marks[:-1]]
    look = (at[-1] - at[0]) / (len(at) - 1)
    return Course(at[0] - look, 0.0, look, getattr(life.end, of) - at[-1] + look)


def _measured(life: Lived) -> int:
    """How many exchanges a party lived through before it weighed its edges."""
    return sum(mark.exchange < life.marks[-1].exchange for mark in life.marks)


@dataclass(frozen=True)
class _Plan:
    """How many exchanges and looks the recipe asks for, and the settings that do a few of them."""

    size: Size
    settings: DiscoverySettings
    timetable: Blocks

    @classmethod
    def of(cls, size: Size, recipe: Mapping[str, Any], secure: bool) -> _Plan:
        from colonnade.discover.timetable import Blocks
        from colonnade.federation.discovery import DiscoverySettings

        settings = DiscoverySettings(secure=secure, **recipe)
        return cls(size, settings, Blocks(size.records, settings, SEED))

    @property
    def blocks(self) -> int:
        return len(self.timetable)

    @property
    def looks(self) -> int:
        return self.timetable.looks(self.settings.epochs) + self.timetable.looks(self.settings.refit_epochs)

    @property
    def exchanges(self) -> int:
        return self.looks * self.settings.validate_every

    @property
    def few(self) -> DiscoverySettings:
        epochs = -(-ROUNDS * ROUND // self.blocks)
        return self.settings.model_copy(update={"epochs": epochs, "refit_epochs": 0, "validate_every": ROUND})

    @property
    def about(self) -> Row:
        of_a_block = len(self.timetable.rows[0])
        return {
            "method": "colonnade",
            "secure": self.settings.secure,
            "attributes": self.size.attributes,
            "records": self.size.records,
            "parties": self.size.parties,
            "exchanges": self.exchanges,
            "looks": self.looks,
            "published_exchange_seconds": 10 * of_a_block * self.size.attributes**2 / PUBLISHED_RATE,
        }


def _costs(plan: _Plan, seconds: Course, sent: Course) -> Row:
    return {
        "seconds": round(seconds.total(plan.exchanges, plan.looks), 3),
        "bytes": round(sent.total(plan.exchanges, plan.looks)),
        "party_bytes": None,
        **{f"{part}_seconds": round(getattr(seconds, part), 5) for part in _PARTS},
        **{f"{part}_bytes": round(getattr(sent, part)) for part in _PARTS},
    }


def _party_memory(row: Row, blocks: int) -> int:
    """What a party holds of so many blocks of records, given the row of one block."""
    held, bare = int(row["peak_memory"]), int(row["coordinator_memory"])
    return bare + blocks * (held - bare)


def _memory_of(fewer: Row, size: Size) -> float:
    """What all roles of a size would hold together."""
    blocks = -(-size.records // fewer["records"])
    return size.parties * _party_memory(fewer, blocks) + float(fewer["coordinator_memory"])
