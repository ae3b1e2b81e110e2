"""Defenses against attacks, seed by seed: every cell is kept on disk as soon as it is there.

A matrix that was stopped goes on where it was. A kept cell is not computed again, unless something that decides it has
changed: records, task, defense, attack, settings of the audit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from colonnade.audit.attacks import chosen_attacks
from colonnade.audit.cell import Cell, Choice, Failed, Study, Victim, attack_victim, train_victim
from colonnade.audit.engine import Crew, Engine, make_engine
from colonnade.audit.result import AuditResult
from colonnade.audit.rows import KEYS
from colonnade.audit.settings import seeds_from, settings_from
from colonnade.audit.shelf import Shelf
from colonnade.defend.base import Defense
from colonnade.errors import ConfigError, RunError
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.train import named_defense
from colonnade.progress import Progress, make_progress

UNDEFENDED = "none"


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
        progress: show a bar when the output is a terminal; or a `Progress` of your own.
        settings: fields of `Settings`, as for `audit`.
    """
    # A study of many defenses can't keep to the one that the federation requires of its parties.
    free = (task or Task()).model_copy(update={"protection": None})
    study = Study(federation, free, settings_from(settings))
    cells = cells_of(defenses, attacks, seeds)
    chosen = None if gather else make_engine(engine, jobs=jobs, address=address, device=study.settings.device)
    bar = progress if isinstance(progress, Progress) else make_progress("auto" if progress else "silent")
    shelf = Shelf(Path(out), study)
    bar.start(len(cells), "audit matrix")
    found: dict[int, AuditResult] = {}
    failed: dict[int, str] = {}
    for done, (place, outcome) in enumerate(_outcomes(cells, study, chosen, shelf), start=1):
        if isinstance(outcome, Failed):
            failed[place] = f"{cells[place].title}: {outcome.reason}"
            if not gather:
                bar.message(f"left out: {failed[place]}")
        else:
            found[place] = outcome
        bar.advance(done)
    if gather and failed:
        missing = ", ".join(cells[place].title for place in sorted(failed))
        bar.message(f"{len(found)} of {len(cells)} cells are there; not run: {missing}")
    bar.close()
    if gather and not found:
        remedy = "name the folder that a run with these settings wrote, or let it run"
        raise ConfigError("no cell is kept here", where=str(out), remedy=remedy)
    if not found:
        raise RunError(f"no cell could be computed; the first: {failed[min(failed)]}", where=str(out))
    result = merged([found[place] for place in sorted(found)], [failed[place] for place in sorted(failed)])
    result.save(shelf.folder)
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
    told = {
        **results[0].settings,
        **{name: min(result.settings[name] for result in results) for name in ("auxiliary", "targets", "candidates")},
        "seeds": seeds,
        "notes": notes,
        "left_out": list(left_out),
    }
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
    with engine(study) as crew:
        # One seed after the other: a matrix that is stopped has whole tables of fewer seeds.
        for seed in dict.fromkeys(cell.victim.seed for cell in cells):
            yield from _computed([place for place in waiting if cells[place].victim.seed == seed], cells, crew, shelf)


def _computed(
    places: Sequence[int], cells: Sequence[Cell], crew: Crew, shelf: Shelf
) -> Iterator[tuple[int, AuditResult | Failed]]:
    """Train the victims of these cells, let the attacks at them, keep and yield what comes."""
    untrained = _train(_victims(cells[place] for place in places), crew, shelf)
    failed = {place: untrained.get(shelf.name_of(cells[place].victim)) for place in places}
    yield from ((place, reason) for place, reason in failed.items() if reason is not None)
    ready = [place for place in places if failed[place] is None]
    jobs = [(cells[place], shelf.model(cells[place].victim)) for place in ready]
    for number, outcome in crew(attack_victim, jobs):
        if isinstance(outcome, AuditResult):
            shelf.keep_cell(cells[ready[number]], outcome)
        yield ready[number], outcome


def _train(victims: Sequence[Victim], crew: Crew, shelf: Shelf) -> dict[str, Failed]:
    """Train the models that are not there yet; return by name why one could not be trained."""
    missing = [victim for victim in victims if not shelf.has_model(victim)]
    failed = {}
    for number, outcome in crew(train_victim, missing):
        if isinstance(outcome, Failed):
            failed[shelf.name_of(missing[number])] = outcome
        else:
            shelf.keep_model(missing[number], outcome)
    return failed


def _victims(cells: Iterable[Cell]) -> list[Victim]:
    """Return every victim once."""
    found: list[Victim] = []
    for cell in cells:
        if cell.victim not in found:
            found.append(cell.victim)
    return found


def _named(choice: str | Choice) -> Choice:
    if isinstance(choice, str):
        return {"name": choice}
    if not isinstance(choice, Mapping) or "name" not in choice:
        remedy = "another process can't be given an object"
        raise ConfigError(f"{choice!r} is no name and no mapping with a name", where="matrix", remedy=remedy)
    return dict(choice)


def _check_labels(defense: Defense) -> None:
    if defense.needs_labels:
        what = f"'{defense.name}' needs labels, which a passive party does not have"
        raise ConfigError(what, where="defenses", remedy="choose another defense")
