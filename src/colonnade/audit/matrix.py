"""Defenses against attacks, seed by seed: every cell is kept on disk as soon as it is there.

A matrix that was stopped goes on where it was. A kept cell is not computed again, unless something that decides it has
changed: records, task, defense, attack, settings of the audit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from colonnade.audit.attacks import chosen_attacks
from colonnade.audit.cell import (
    MADE_WITH,
    Cell,
    Choice,
    Failed,
    Files,
    Saved,
    Study,
    Victim,
    attack_victim,
    train_victim,
)
from colonnade.audit.engine import Engine, engine_or_nobody, telling_what_is_kept
from colonnade.audit.plan import Planned
from colonnade.audit.result import AuditResult
from colonnade.audit.rows import KEYS
from colonnade.audit.settings import seeds_from, settings_from
from colonnade.audit.shelf import Shelf
from colonnade.defend.base import Defense
from colonnade.errors import ColonnadeError, ConfigError, RunError
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.train import named_defense
from colonnade.progress import Progress, make_progress

UNDEFENDED = "none"
_FEW = 5
"""So many missing cells of a seed are named one by one."""


def run_matrix(
    federation: Federation,
    defenses: Iterable[str | Choice],
    attacks: Iterable[str | Choice],
    *,
    out: Path | str,
    task: Task | None = None,
    seeds: int | Sequence[int] = 3,
    engine: str = "local",
    jobs: int = 1,
    address: str | None = None,
    gather: bool = False,
    made_with: str | None = None,
    progress: bool | Progress = True,
    **settings: Any,
) -> AuditResult:
    """Train a model under every defense with every seed, let every attack at it, and return all that was found.

    Args:
        federation: who takes part; aligned.
        defenses: names, or `{"name": ..., strength...}`; with "none" among them, `accuracy_cost` is what each costs.
        attacks: names, or `{"name": ..., parameters...}`.
        out: folder for the trained models, the cells and the result.
        task: what is learned.
        seeds: how many, or the seeds themselves; each trains its own models and divides the records its own way.
        engine: `local`, or `ray`, where each cell is a task.
        jobs: processes at once.
        address: of a Ray cluster; None starts one on this machine.
        gather: compute nothing: return what is there, and name what is missing among `left_out`.
        made_with: which source this is; a result whose cells come from several says so.
        progress: show a bar when the output is a terminal; or a `Progress` of your own.
        settings: fields of `Settings`, as for `audit`.
    """
    # A study of many defenses can't keep to the one that the federation requires of its parties.
    free = (task or Task()).model_copy(update={"protection": None})
    study = Study(federation, free, settings_from(settings), made_with)
    cells = cells_of(defenses, attacks, seeds)
    device = study.settings.device
    chosen = engine_or_nobody(engine, gather=gather, jobs=jobs, address=address, device=device)
    bar = progress if isinstance(progress, Progress) else make_progress("auto" if progress else "silent")
    shelf = Shelf(Path(out), study)
    if not gather:
        shelf.begin(cells)
    bar.start(len(cells), "audit matrix")
    found: dict[int, AuditResult] = {}
    failed: dict[int, str] = {}
    with telling_what_is_kept(cells, shelf.has_cell, "cells"):
        for done, (place, outcome) in enumerate(_outcomes(cells, study, chosen, shelf), start=1):
            if isinstance(outcome, Failed):
                failed[place] = f"{cells[place].title}: {outcome.reason}"
                if not gather:
                    bar.message(f"left out: {failed[place]}")
            else:
                found[place] = outcome
            bar.advance(done)
    left_out = [failed[place] for place in sorted(failed)]
    if gather and failed:
        missing = missing_of(cells, set(failed))
        left_out = [f"{one}: not run" for one in missing]
        bar.message(f"{len(found)} of {len(cells)} cells are there; not run: {', '.join(missing)}")
    bar.close()
    if not found:
        raise _without_cells(out, None if gather else failed[min(failed)])
    result = merged([found[place] for place in sorted(found)], left_out)
    shelf.keep_result(result, cells, found if gather else found | failed)
    return result


def cells_of(
    defenses: Iterable[str | Choice], attacks: Iterable[str | Choice], seeds: int | Sequence[int]
) -> list[Cell]:
    """Return all cells; whatever can't be made is an error before anything runs."""
    protections, tried = ([_named(one) for one in listed] for listed in (defenses, attacks))
    for where, listed in (("defenses", protections), ("attacks", tried)):
        if not listed:
            raise ConfigError("is empty", where=where, remedy="name at least one")
    for defense in protections:
        _check_labels(named_defense(defense))
    chosen_attacks(tried)
    numbers = seeds_from(seeds)
    return [Cell(Victim(d, seed), a) for d in protections for a in tried for seed in numbers]


def missing_of(cells: Sequence[Cell | Planned], missing: Set[int]) -> list[str]:
    """Return in words which cells are missing: of each seed all, or how many, or by name where they are few.

    A matrix that was stopped lacks hundreds: a name for each would hide everything else that is said.
    """
    told = []
    for seed in dict.fromkeys(cell.seed for cell in cells):
        places = [place for place, cell in enumerate(cells) if cell.seed == seed]
        lacking = [place for place in places if place in missing]
        if len(lacking) <= _FEW:
            told += [cells[place].title for place in lacking]
        elif len(lacking) == len(places):
            told.append(f"all {len(places)} cells of seed {seed}")
        else:
            told.append(f"{len(lacking)} of {len(places)} cells of seed {seed}")
    return told


def merged(results: Sequence[AuditResult], left_out: Sequence[str] = ()) -> AuditResult:
    """Return many cells as one result, with what each defense costs beside the undefended model of the same seed."""
    rows = pd.concat([result.per_seed for result in results], ignore_index=True)
    # Every cell of a victim has its trivial guesses: once is enough.
    rows = rows.drop_duplicates([*KEYS, "seed", "model_seed"], ignore_index=True)
    open_models = rows[rows["defense"] == UNDEFENDED].drop_duplicates("model_seed").set_index("model_seed")["accuracy"]
    rows["accuracy_cost"] = rows["model_seed"].map(open_models) - rows["accuracy"]
    tables = [result.columns_per_seed for result in results if len(result.columns_per_seed)]
    columns = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    seeds = sorted(int(seed) for seed in rows["model_seed"].unique())
    shown = [one for result in results if result.settings["seeds"] == seeds[:1] for one in result.pictures]
    notes = list(dict.fromkeys(note for result in results for note in result.settings["notes"]))
    sources = sorted({str(result.settings.get(MADE_WITH)) for result in results})
    if len(sources) > 1:
        notes.append(f"cells were computed with {len(sources)} sources: {', '.join(sources)}")
    told = {
        **results[0].settings,
        **{name: min(result.settings[name] for result in results) for name in ("auxiliary", "targets", "candidates")},
        "seeds": seeds,
        "notes": notes,
        "left_out": list(left_out),
    }
    for result in results:
        if candidates_of := result.settings.get("candidates_of"):
            told["candidates_of"] = {**told.get("candidates_of", {}), **candidates_of}
    return AuditResult(rows, columns, tuple(shown), told)


def _outcomes(
    cells: Sequence[Cell], study: Study, engine: Engine | None, shelf: Shelf
) -> Iterator[tuple[int, AuditResult | Failed]]:
    """Yield the place and the outcome of every cell, kept ones first; new ones are kept as they come.

    Without an engine there are no new ones.
    """
    kept = {place: shelf.cell(cell) for place, cell in enumerate(cells)}
    yield from ((place, result) for place, result in kept.items() if result is not None)
    waiting = [place for place, result in kept.items() if result is None]
    if engine is None:
        yield from ((place, Failed("has not been run")) for place in waiting)
        return
    if not waiting:
        return
    # One seed after the other: a matrix that is stopped has whole tables of fewer seeds.
    seeds = dict.fromkeys(cell.seed for cell in cells)
    by_seed = [[place for place in waiting if cells[place].seed == seed] for seed in seeds]
    with engine(study) as crew:
        failed: dict[str, Failed] = {}
        # Whoever has nothing left to attack trains what is attacked next: the slowest attack keeps nobody waiting.
        for attacked, following in pairwise([[], *by_seed, []]):
            reasons = {place: failed.get(shelf.name_of(cells[place].victim)) for place in attacked}
            yield from ((place, reason) for place, reason in reasons.items() if reason is not None)
            ready = [place for place in attacked if reasons[place] is None]
            untrained = _untrained((cells[place].victim for place in following), shelf)
            attacks = [(cells[place], shelf.model(cells[place].victim)) for place in ready]
            whose: list[int | Victim] = [*ready, *untrained]
            for number, outcome in crew(_done, [*attacks, *untrained]):
                owner = whose[number]
                if isinstance(owner, int):
                    if isinstance(outcome, AuditResult):
                        shelf.keep_cell(cells[owner], outcome)
                    yield owner, outcome
                elif isinstance(outcome, Failed):
                    failed[shelf.name_of(owner)] = outcome
                else:
                    shelf.keep_model(owner, outcome)


def _without_cells(out: Path | str, failure: str | None) -> ColonnadeError:
    """Return the error that there is no cell: none is kept, or each has failed."""
    if failure is not None:
        return RunError(f"no cell could be computed; the first: {failure}", where=str(out))
    remedy = "name the folder that a run with these settings wrote, or let it run"
    return ConfigError("no cell is kept here", where=str(out), remedy=remedy)


def _done(study: Study, job: Victim | tuple[Cell, Saved]) -> AuditResult | Files | Failed:
    """Train a victim, or attack one that has been trained."""
    return train_victim(study, job) if isinstance(job, Victim) else attack_victim(study, job)


def _untrained(victims: Iterable[Victim], shelf: Shelf) -> list[Victim]:
    """Return once each of these whose model is not there yet."""
    found: list[Victim] = []
    for victim in victims:
        if victim not in found and not shelf.has_model(victim):
            found.append(victim)
    return found


def _named(choice: str | Choice) -> Choice:
    if isinstance(choice, str):
        return {"name": choice}
    if not isinstance(choice, Mapping) or not isinstance(choice.get("name"), str):
        remedy = "another process can't be given an object"
        raise ConfigError(f"{choice!r} is no name and no mapping with a name", where="matrix", remedy=remedy)
    return dict(choice)


def _check_labels(defense: Defense) -> None:
    if defense.needs_labels:
        what = f"'{defense.name}' needs labels, which a passive party does not have"
        raise ConfigError(what, where="defenses", remedy="choose another defense")
