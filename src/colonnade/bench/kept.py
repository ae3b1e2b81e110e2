"""Work of a bench that outlives the process: each result is kept on disk as soon as it is there.

A bench that was stopped goes on where it was: what is kept is not run again, unless the code behind it has changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from colonnade.audit.engine import telling_what_is_kept
from colonnade.bench.workers import ALONE, Workers
from colonnade.errors import ColonnadeError, ConfigError, RunError
from colonnade.progress import Progress
from colonnade.run import write_atomically


class Job(Protocol):
    """One piece of work; several processes may each hold a copy."""

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the result; see `file_name`."""
        ...

    def run(self) -> Any:
        """Return the result, as JSON has it."""
        ...


def file_name(title: str, deciding: Sequence[Any], sources: Iterable[Path]) -> str:
    """Return the name under which a result is kept: what people call it, and a digest of all that decides it."""
    key = [title, *map(str, deciding), *map(digest, sources)]
    number = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    return f"{re.sub('[^a-z0-9]+', '-', title.lower())}-{number}.json"


def code(*names: str) -> list[Path]:
    """Return files of this package, to be digested: each name is a file, or a folder with all Python in it."""
    package = Path(str(files("colonnade")))
    return [path for name in names for path in (sorted((package / name).rglob("*.py")) or [package / name])]


def finished(
    work: Sequence[Job],
    progress: Progress,
    folder: Path | None = None,
    workers: Workers = ALONE,
    device: str = "cpu",
) -> Iterator[tuple[int, Any]]:
    """Yield the place and result of every job as it ends, kept ones first; None where it failed, which is said.

    Args:
        work: what to run.
        progress: is told what failed, through its `message`.
        folder: keeps results; None keeps nothing.
        workers: who run it; results are kept here, wherever they come from. Whoever only gathers runs nothing.
        device: where jobs compute; on `cuda` each of Ray's tasks asks for one GPU.

    Raises:
        ConfigError: a kept result is damaged, or a job finds a mistake.
    """
    kept = {place: found for place, job in enumerate(work) if (found := _kept(folder, job)) is not None}
    workers.kept.append(len(kept))
    yield from kept.items()
    waiting = [place for place in range(len(work)) if place not in kept]
    if not waiting:
        return
    if workers.gather:
        progress.message(f"{len(kept)} of {len(work)} rows are there; not run: {_titles(work, waiting)}")
        yield from ((place, None) for place in waiting)
        return
    with telling_what_is_kept(work, partial(_is_there, folder), "rows"), workers.crew(device) as crew:
        for number, found in crew(_outcome, [work[place] for place in waiting]):
            place = waiting[number]
            if isinstance(found, RunError):
                progress.message(f"left out: {work[place].title}: {found}")
                yield place, None
                continue
            if isinstance(found, ColonnadeError):
                raise found
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / work[place].file_name, json.dumps(found).encode())
            yield place, found


@cache
def digest(path: Path) -> str:
    """Digest a file; of Python only what it does, so that better words and another layout cost no result."""
    if not path.is_file():
        return ""
    text = path.read_bytes()
    if path.suffix == ".py":
        # Python 3.12 names an empty list that 3.11 does not know; a result made by one serves the other.
        text = ast.dump(_Wordless().visit(ast.parse(text))).replace(", type_params=[]", "").encode()
    return hashlib.sha256(text).hexdigest()


class _Wordless(ast.NodeTransformer):
    """Takes docstrings and other strings that stand alone out of a program."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def _is_there(folder: Path | None, job: Job) -> bool:
    return folder is not None and (folder / job.file_name).is_file()


def _kept(folder: Path | None, job: Job) -> Any:
    if folder is None or not _is_there(folder, job):
        return None
    path = folder / job.file_name
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigError("is damaged", where=str(path), remedy="delete it: the row is run again") from error


def _titles(work: Sequence[Job], places: Iterable[int]) -> str:
    return ", ".join(work[place].title for place in places)


def _outcome(_: None, job: Job) -> Any:
    """Return the result, or why there is none: what Ray raises for it elsewhere is a page long, and of its own kind."""
    try:
        return job.run()
    except ColonnadeError as error:
        return error
    except (MemoryError, RuntimeError) as error:
        # A GPU that several rows share may be full for one of them: the others, some of them hours old, must not go.
        if isinstance(error, RuntimeError) and "out of memory" not in str(error):
            raise
        return RunError("out of memory", remedy="run it again with fewer jobs")
