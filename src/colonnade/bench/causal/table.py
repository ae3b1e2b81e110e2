"""One table of the causal benches: cases × methods × seeds, each row kept on disk as soon as it is there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from colonnade.bench.causal.methods import Method
from colonnade.bench.causal.published import Published
from colonnade.bench.causal.sets import CausalSet
from colonnade.bench.causal.summary import with_means
from colonnade.bench.kept import file_name, finished
from colonnade.bench.registry import Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.line_file import plain
from colonnade.progress import Progress

_SCORES = ("shd", "f1", "precision", "recall", "inter_f1", "intra_f1", "correlation", "seconds", "bytes")
_GENERATOR = Path(__file__).with_name("generator.py")


@dataclass(frozen=True)
class Case:
    """One column group of a table: a kind of data, and what is run on it.

    Attributes:
        data: names the kind of data in the row.
        load: makes the data set of a seed; a module's function or a `partial` of one, so that processes can share it.
        methods: what is run.
        seeds: one data set each, or one repetition each where there is one data set only.
        published: the paper's entry for a method's name.
        one_set: whether all seeds give the same data, so that methods without a seed run once.
    """

    data: str
    load: Callable[[int], CausalSet]
    methods: Sequence[Method]
    seeds: Sequence[int]
    published: Mapping[str, Published] = field(default_factory=dict)
    one_set: bool = False


@dataclass(frozen=True)
class Job:
    """One row to be made."""

    data: str
    load: Callable[[int], CausalSet]
    method: Method
    seed: int
    published: Published

    @property
    def title(self) -> str:
        """What people call it; also begins the name of its file."""
        secure = {True: " secure", False: " plain", None: ""}[self.method.secure]
        return f"{self.data} {self.method.name}{secure} {self.seed}"

    @property
    def group(self) -> tuple[str, str, str, bool | None]:
        """What it has in common with the same method on other sets of its case."""
        return self.data, _call(self.load), self.method.name, self.method.secure

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the row."""
        files = [_GENERATOR, *self.method.files()]
        return file_name(self.title, [_call(self.load), repr(self.method)], files)

    def run(self) -> Row:
        """Run the method and return its row."""
        data = self.load(self.seed)
        scores = self.method.score(data, self.seed)
        row = {
            "method": self.method.name,
            "data": self.data,
            "secure": self.method.secure,
            "parties": len(data.parties),
            "columns": data.columns,
            "attributes": len(data.frame.columns),
            "edges": None if data.truth is None else int(data.truth.sum()),
            "records": len(data.frame),
            "standardised": data.standardised,
            "unit_variance": data.unit_variance,
            "seed": self.seed,
            **{name: _rounded(scores.get(name)) for name in _SCORES},
        }
        return {str(key): value for key, value in plain(row).items()}


def run_table(
    cases: Sequence[Case], progress: Progress, title: str, folder: Path | None = None, workers: Workers = ALONE
) -> list[Row]:
    """Return the rows of all cases: first the mean over seeds of each method, then every seed.

    Args:
        cases: what to run.
        progress: is told of every row; what failed is said through its `message`.
        title: of the bench.
        folder: keeps finished rows; None keeps nothing.
        workers: who run rows.
    """
    work = list(_jobs(cases))
    progress.start(len(work), title)
    rows: dict[int, Row] = {}
    for done, (place, row) in enumerate(finished(work, progress, folder, workers), start=1):
        if row is not None:
            said = {"published_shd": work[place].published.shd, "published_f1": work[place].published.f1}
            rows[place] = {**row, **said}
            progress.advance(done, shd=row["shd"], f1=row["f1"])
        else:
            progress.advance(done)
    there = sorted(rows)
    means = with_means([rows[place] for place in there], [work[place].group for place in there])
    return [*means, *_only_published(cases)]


def _jobs(cases: Sequence[Case]) -> Iterator[Job]:
    for case in cases:
        for method in case.methods:
            for seed in case.seeds[:1] if case.one_set and not method.seeded else case.seeds:
                yield Job(case.data, case.load, method, seed, case.published.get(method.name, Published()))


def _only_published(cases: Sequence[Case]) -> Iterator[Row]:
    """Methods that were not run, so that nobody takes what is missing for what was beaten."""
    for case in cases:
        run = {method.name for method in case.methods}
        for name, said in case.published.items():
            if name not in run:
                scores = {"published_shd": said.shd, "published_f1": said.f1}
                yield {"method": name, "data": case.data, "seed": None, **dict.fromkeys(_SCORES), **scores}


def _call(load: Callable[[int], CausalSet]) -> str:
    """Name a function and its arguments; its `repr` has an address in it, which another process does not repeat."""
    if isinstance(load, partial):
        return f"{_call(load.func)} {load.args!r} {sorted(load.keywords.items())!r}"
    return f"{load.__module__}.{load.__qualname__}"


def _rounded(value: float | None) -> float | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, int) else round(value, 4)
