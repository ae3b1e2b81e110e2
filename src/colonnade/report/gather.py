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
SHORT = {"align": "alignment", "predict": "prediction"}
"""What a party's own run of a purpose is called; such a run has no task."""


@dataclass(frozen=True)
class Job:
    """One training, discovery, alignment or prediction: a run folder of each party that is here.

    Attributes:
        name: the folder's, from the one that was asked for.
        runs: each party's run.
    """

    name: str
    runs: Mapping[str, Run]

    @property
    def kind(self) -> str:
        """`training`, `discovery`, `alignment` or `prediction`."""
        config = next(iter(self.runs.values())).config
        if short := SHORT.get(config.get("purpose", "")):
            return short
        return "discovery" if (config.get("task") or {}).get("kind") == DISCOVERY else "training"

    @property
    def result(self) -> dict[str, Any]:
        """What the active party, or whoever knows most, has noted at the end."""
        results = [run.result or {} for run in self.runs.values()]
        return max(results, key=lambda result: ("test" in result, len(result)))

    @property
    def parties(self) -> int:
        """How many took part: as many as the config names, of whom some may have their run folder elsewhere.

        A short run's config names nobody: those who were sent something have taken part.
        """
        config = next(iter(self.runs.values())).config
        agreed = config.get("federation") or config
        sent_to = (to for run in self.runs.values() for to in run.ledger.summary()["to"])
        return max(len(self.runs), len(agreed.get("parties") or {*self.runs, *sent_to}))


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
    """Put run folders that lie side by side together where they are parties of one job."""
    groups: dict[Path, dict[str, Run]] = {}
    for folder in folders:
        run = Run.open(folder)
        groups.setdefault(_job_folder(root, run), {})[_party(run)] = run
    return [Job(_below(root, folder), runs) for folder, runs in groups.items()]


def _job_folder(root: Path, run: Run) -> Path:
    """Return the folder that a run's job is called after.

    A simulation keeps a folder of each party side by side. Over a network, what lies side by side are one party's runs,
    of which each is a job of its own.
    """
    return run.path.parent if run.path != root and _party(run) == run.path.name else run.path


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
        inside = (file.parent / "run.json").is_file()
        name = _below(root, _job_folder(root, Run.open(file.parent)) if inside else file.parent)
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
