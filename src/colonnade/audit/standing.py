"""How far a matrix has come: what its folder tells now, and what is missing. Nothing is computed or written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from colonnade.audit.matrix import merged, missing_of
from colonnade.audit.plan import PLAN, Plan
from colonnade.audit.result import AuditResult
from colonnade.audit.rows import BASELINE, KEYS, defense_names
from colonnade.audit.shelf import CELLS, MODELS
from colonnade.errors import RunError

INSIDES = (CELLS, MODELS)
"""The folders of a matrix that tell nothing by themselves: a cell is one attack of many on one defense of many."""

_NAME = re.compile(r"[^.].*-[0-9a-f]{16}")
"""A cell's: a title, and a digest of all that decides it."""


@dataclass(frozen=True)
class Standing:
    """How far a matrix has come.

    Attributes:
        result: what was found so far; None if nothing.
        unfinished: one sentence on what is missing; None if nothing is.
    """

    result: AuditResult | None
    unfinished: str | None = None


def is_matrix(folder: Path) -> bool:
    """Return whether a matrix was run in this folder, or its cells were laid there."""
    return (folder / PLAN).is_file() or bool(_lying(folder))


def standing_of(folder: Path) -> Standing:
    """Return how far the matrix of this folder has come.

    The merged result counts where it tells of every planned cell that lies here; otherwise it is of an earlier and
    smaller command, and the cells count.
    """
    plan, has_result = Plan.load(folder), (folder / "audit.json").is_file()
    if plan is None:
        return _result_without_plan(folder) if has_result else _without_plan(folder)
    there = _lying(folder) & {cell.name for cell in plan.cells}
    if not has_result or not there <= plan.told:
        return _as_planned(folder, plan)
    unfinished = _unfinished(plan, there | plan.told)
    if unfinished and not plan.told:
        unfinished = f"{unfinished}; what is told here was found before"
    return Standing(AuditResult.load(folder), unfinished)


def _as_planned(folder: Path, plan: Plan) -> Standing:
    """Return what those planned cells tell that are there; a damaged one will be computed again, and is missing."""
    found = _sound(folder, [cell.name for cell in plan.cells])
    unfinished = _unfinished(plan, found)
    if not found:
        return Standing(None, unfinished)
    missing = {place for place, cell in enumerate(plan.cells) if cell.name not in found}
    left_out = [f"{one}: not run" for one in missing_of(plan.cells, missing)]
    others = len(_lying(folder) - {cell.name for cell in plan.cells})
    if others:
        left_out.append(f"{_cells(others)} that the last command did not ask for")
    return _noted(list(found.values()), left_out, unfinished)


def _result_without_plan(folder: Path) -> Standing:
    """Return the merged result, and how many cells it does not tell of: nothing says whether these belong to it."""
    result, cells = AuditResult.load(folder), _sound(folder, _lying(folder))
    answered = _questions(result)
    others = sum(not _questions(cell) <= answered for cell in cells.values())
    unfinished = (
        f"{others} of {_cells(len(cells))} that lie here are of another command, and not told" if others else None
    )
    return Standing(result, unfinished)


def _without_plan(folder: Path) -> Standing:
    """Return what cells tell that were laid here by hand; two that answer one question differently are not mixed."""
    names = sorted(_lying(folder))
    found = _sound(folder, names)
    left_out = [f"{name}: damaged" for name in names if name not in found]
    alike: list[AuditResult] = []
    answered: set[tuple[object, ...]] = set()
    for name, result in found.items():
        questions = _questions(result)
        if questions & answered:
            left_out.append(f"{name}: of other settings than a cell of the same attack on the same model")
            continue
        answered |= questions
        alike.append(result)
    unfinished = f"{_cells(len(names))} of a matrix, and no {PLAN} that says how many it should have"
    return _noted(alike, left_out, unfinished) if alike else Standing(None, unfinished)


def _noted(results: Sequence[AuditResult], left_out: Sequence[str], unfinished: str | None) -> Standing:
    result = merged(results, left_out)
    if unfinished is None:
        return Standing(result)
    defenses = defense_names(result.frame).unique()
    if len(defenses) == 1:  # where there is one the verdict does not name it, and the plan may have others
        unfinished = f"{unfinished}; what is told here is under {defenses[0]}"
    notes = [unfinished, *result.settings["notes"]]
    return Standing(replace(result, settings={**result.settings, "notes": notes}), unfinished)


def _unfinished(plan: Plan, there: Iterable[str]) -> str | None:
    names = {cell.name for cell in plan.cells}
    missing = len(names.difference(there))
    if not missing:
        return None
    return f"this matrix is unfinished: {missing} of {_cells(len(names))} {'is' if missing == 1 else 'are'} missing"


def _lying(folder: Path) -> set[str]:
    """Return the names of all cells that lie here; what is called otherwise is somebody else's."""
    found = (file.parent.name for file in folder.glob(f"{CELLS}/*/audit.json"))
    return {name for name in found if _NAME.fullmatch(name)}


def _sound(folder: Path, names: Iterable[str]) -> Mapping[str, AuditResult]:
    """Return those of these cells that are here and can be read."""
    lying, found = _lying(folder), dict[str, AuditResult]()
    for name in names:
        if name in lying:
            try:
                found[name] = AuditResult.load(folder / CELLS / name)
            except RunError:
                continue
    return found


def _questions(result: AuditResult) -> set[tuple[object, ...]]:
    """Return what the attacks of a cell answer: which attack, on which model, with which seed."""
    rows = result.per_seed[result.per_seed["knowledge"] != BASELINE]
    return {tuple(row) for row in rows[[*KEYS, "seed", "model_seed"]].astype(str).to_numpy()}


def _cells(number: int) -> str:
    return f"{number} {'cell' if number == 1 else 'cells'}"
