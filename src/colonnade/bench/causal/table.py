"""One table of the causal benches: cases × methods × seeds, each row kept on disk as soon as it is there.

A bench that was stopped goes on where it was: a kept row is not run again, unless the code behind it has changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

from colonnade.bench.causal.methods import Method
from colonnade.bench.causal.published import Published
from colonnade.bench.causal.sets import CausalSet
from colonnade.bench.causal.summary import with_means
from colonnade.bench.registry import Row
from colonnade.errors import RunError
from colonnade.line_file import plain
from colonnade.progress import Progress
from colonnade.run import write_atomically

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
    def file_name(self) -> str:
        """A name that changes with everything that decides the row."""
        key = [self.title, _call(self.load), repr(self.method), *map(_digest, [_GENERATOR, *self.method.files()])]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        return f"{re.sub('[^a-z0-9]+', '-', self.title.lower())}-{digest}.json"

    def row(self) -> Row:
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
    cases: Sequence[Case], progress: Progress, title: str, folder: Path | None = None, jobs: int = 1
) -> list[Row]:
    """Return the rows of all cases: first the mean over seeds of each method, then every seed.

    Args:
        cases: what to run.
        progress: is told of every row; what failed is said through its `message`.
        title: of the bench.
        folder: keeps finished rows; None keeps nothing.
        jobs: how many processes run rows at once.
    """
    work = list(_jobs(cases))
    progress.start(len(work), title)
    rows: dict[int, Row] = {}
    for done, (place, row) in enumerate(_finished(work, progress, folder, jobs), start=1):
        if row is not None:
            said = {"published_shd": work[place].published.shd, "published_f1": work[place].published.f1}
            rows[place] = {**row, **said}
            progress.advance(done, shd=row["shd"], f1=row["f1"])
        else:
            progress.advance(done)
    return [*with_means([rows[place] for place in sorted(rows)]), *_only_published(cases)]


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


def _finished(
    work: Sequence[Job], progress: Progress, folder: Path | None, jobs: int
) -> Iterator[tuple[int, Row | None]]:
    """Yield the place and row of every job as it ends, kept ones first; None where it failed."""
    kept = {place: row for place, job in enumerate(work) if (row := _kept(folder, job)) is not None}
    yield from kept.items()
    waiting = [place for place in range(len(work)) if place not in kept]
    with _pool(jobs) as pool:
        for place, get in _started(work, waiting, pool):
            try:
                row = get()
            except RunError as error:
                progress.message(f"left out: {work[place].title}: {error}")
                yield place, None
                continue
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / work[place].file_name, json.dumps(row).encode())
            yield place, row


def _pool(jobs: int) -> ProcessPoolExecutor | nullcontext[None]:
    return ProcessPoolExecutor(jobs, get_context("spawn")) if jobs > 1 else nullcontext()


def _started(
    work: Sequence[Job], waiting: Sequence[int], pool: Executor | None
) -> Iterator[tuple[int, Callable[[], Row]]]:
    if pool is None:
        yield from ((place, work[place].row) for place in waiting)
        return
    places: dict[Future[Row], int] = {pool.submit(work[place].row): place for place in waiting}
    yield from ((places[future], future.result) for future in as_completed(places))


def _kept(folder: Path | None, job: Job) -> Row | None:
    if folder is None or not (path := folder / job.file_name).is_file():
        return None
    row: Row = json.loads(path.read_bytes())
    return row


def _call(load: Callable[[int], CausalSet]) -> str:
    """Name a function and its arguments; its `repr` has an address in it, which another process does not repeat."""
    if isinstance(load, partial):
        return f"{_call(load.func)} {load.args!r} {sorted(load.keywords.items())!r}"
    return f"{load.__module__}.{load.__qualname__}"


@cache
def _digest(path: Path) -> str:
    """Digest a file; of Python only what it does, so that better words and another layout cost no row."""
    if not path.is_file():
        return ""
    text = path.read_bytes()
    if path.suffix == ".py":
        text = ast.dump(_Wordless().visit(ast.parse(text))).encode()
    return hashlib.sha256(text).hexdigest()


class _Wordless(ast.NodeTransformer):
    """Takes docstrings and other strings that stand alone out of a program."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def _rounded(value: float | None) -> float | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, int) else round(value, 4)
