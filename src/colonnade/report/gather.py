"""What folders hold: jobs of parties, graphs, audits, benches. Nothing else is read, and nothing is written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.audit.attribute_result import AttributeResult
from colonnade.audit.result import AuditResult
from colonnade.audit.standing import INSIDES, Standing, is_matrix, standing_of
from colonnade.discover.graph import CausalGraph
from colonnade.errors import RunError
from colonnade.place import DISCOVERY
from colonnade.run import Run

DEPTH = 4
"""Folders are looked into so deep: a study holds jobs, a job parties, a party its run."""
SUMMARY = "summary.json"
"""What a program that ran several jobs may leave beside them: sentences, phases, the command."""


@dataclass(frozen=True)
class Job:
    """One training, discovery or alignment: a run folder of each party that is here.

    Attributes:
        name: the folder's, from the one that was asked for.
        runs: each party's run.
    """

    name: str
    runs: Mapping[str, Run]

    @property
    def kind(self) -> str:
        """`training` or `discovery`."""
        task = next(iter(self.runs.values())).config.get("task") or {}
        return "discovery" if task.get("kind") == DISCOVERY else "training"

    @property
    def result(self) -> dict[str, Any]:
        """What the active party, or whoever knows most, has noted at the end."""
        results = [run.result or {} for run in self.runs.values()]
        return max(results, key=lambda result: ("test" in result, len(result)))

    @property
    def parties(self) -> int:
        """How many took part: as many as the config names, of whom some may have their run folder elsewhere."""
        config = next(iter(self.runs.values())).config
        agreed = config.get("federation") or config
        return max(len(self.runs), len(agreed.get("parties") or ()))


@dataclass(frozen=True)
class Study:
    """Everything that was found under one folder.

    Attributes:
        unfinished: of each matrix that lacks cells a sentence that says how many; it may have no audit yet.
    """

    name: str
    folder: Path
    jobs: Sequence[Job] = ()
    graphs: Mapping[str, CausalGraph] = field(default_factory=dict)
    audits: Mapping[str, AuditResult] = field(default_factory=dict)
    attributes: Mapping[str, AttributeResult] = field(default_factory=dict)
    benches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    unfinished: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        told = (self.jobs, self.graphs, self.audits, self.attributes, self.benches, self.unfinished)
        return not any(told)


def gather(folder: Path | str) -> Study:
    """Return what a folder holds: a run folder, a folder of them, results of audits and benches, or all of these."""
    root = Path(folder)
    if not root.is_dir():
        raise RunError("there is no such folder", where=str(root), remedy="'colonnade runs' lists the runs of a folder")
    folders = dict(_folders(root))
    files = [path / name for path, names in folders.items() for name in names]
    matrices = {path: standing_of(path) for path in folders if is_matrix(path)}
    study = Study(
        root.resolve().name,
        root,
        _jobs(root, [file.parent for file in files if file.name == "run.json"]),
        _graphs(root, files),
        _audits(root, files, matrices),
        {
            _below(root, file.parent): AttributeResult.load(file.parent)
            for file in files
            if file.name == "attributes.json"
        },
        {_below(root, file.parent): bench for file in files if (bench := _bench(file))},
        _json(root / SUMMARY) if (root / SUMMARY).is_file() else {},
        {_below(root, path): matrix.unfinished for path, matrix in matrices.items() if matrix.unfinished},
    )
    if study.is_empty:
        remedy = "give a folder that 'train', 'discover', 'join', 'audit', 'bench' or 'demo' wrote"
        raise RunError("holds no run, graph, audit or bench", where=str(root), remedy=remedy)
    return study


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder with its files, in order; the insides of a run or a matrix are its own business."""
    for folder, subfolders, names in os.walk(root):
        path = Path(folder)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if "run.json" in names or len(path.relative_to(root).parts) >= DEPTH:
            subfolders.clear()
        if is_matrix(path):
            subfolders[:] = [name for name in subfolders if name not in INSIDES]
        yield path, sorted(names)


def _audits(root: Path, files: Iterable[Path], matrices: Mapping[Path, Standing]) -> dict[str, AuditResult]:
    """Return every audit; a matrix is one, whatever lies in its folder."""
    found = {path: matrix.result for path, matrix in matrices.items() if matrix.result is not None}
    alone = [file.parent for file in files if file.name == "audit.json" and file.parent not in matrices]
    found |= {path: AuditResult.load(path) for path in alone}
    return {_below(root, path): found[path] for path in sorted(found)}


def _jobs(root: Path, folders: Iterable[Path]) -> list[Job]:
    """Put run folders that lie side by side together: parties of one job."""
    groups: dict[Path, list[Run]] = {}
    for folder in folders:
        groups.setdefault(folder if folder == root else folder.parent, []).append(Run.open(folder))
    return [Job(_below(root, parent), {_party(run): run for run in runs}) for parent, runs in groups.items()]


def _party(run: Run) -> str:
    """Return whose run it is: the config says so; a simulation names the folder after the party."""
    party = run.config.get("party")
    named = party.get("party") if isinstance(party, dict) else party
    return str(named or run.name)


def _graphs(root: Path, files: Iterable[Path]) -> dict[str, CausalGraph]:
    """Return every graph once, under the folder of its job; where somebody knows all of it, nobody's part of it."""
    found: dict[str, CausalGraph] = {}
    for file in files:
        if file.suffix != ".json" or b"colonnade causal graph" not in file.read_bytes()[:200]:
            continue
        graph = CausalGraph.load(file)
        folder = file.parent.parent if (file.parent / "run.json").is_file() and file.parent != root else file.parent
        name = _below(root, folder)
        if name not in found or graph.reveal == "all":
            found[name] = graph
    return found


def _bench(file: Path) -> dict[str, Any] | None:
    found = _json(file) if file.name == "result.json" and not (file.parent / "run.json").is_file() else {}
    return found if {"bench", "rows"} <= found.keys() else None


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except ValueError as error:
        raise RunError("is damaged", where=str(file), remedy="write it again") from error
    return found if isinstance(found, dict) else {}


def _below(root: Path, folder: Path) -> str:
    """Return what a folder is called in a report: its way from the root, whose own name stands for itself."""
    return root.resolve().name if folder == root else folder.relative_to(root).as_posix()
