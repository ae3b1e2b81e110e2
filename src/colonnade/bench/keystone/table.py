"""The frontier: what every defense costs the task, beside what it leaves to the strongest readers.

`keystone-frontier` has all rows of pictures. Its parts are benches of their own, and keep what they find under names
that the whole knows: run `keystone-frontier-cut6`, `-grids` and `-cut4` with one and the same `--out`, one after the
other and each as often as it takes, then `keystone-frontier` with that folder gathers them and trains nothing.
They have 87, 72 and 60 trainings, three of them in common; `keystone-frontier-tables`, which wants no GPU, has 162. All
begin with the first seed of everything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.bench.images.matrix import KEYS, MEASURES
from colonnade.bench.images.sets import SOURCES, note_of
from colonnade.bench.images.setting import UNDEFENDED, Choice, quicker
from colonnade.bench.kept import finished
from colonnade.bench.keystone.front import COSTS, Point, contests, efficient, told
from colonnade.bench.keystone.pace import Pace
from colonnade.bench.keystone.setting import (
    CORE,
    FEW,
    FEW_OF_TABLES,
    GRIDS,
    MATCHED_BY_MANY,
    MATCHED_BY_ONE,
    MATCHED_BY_TRAINING,
    OF_TABLES,
    PICTURES,
    SEEDS,
    SHALLOW,
    TABLES,
    THIN,
    Ground,
)
from colonnade.bench.keystone.victim import Victim, device_of
from colonnade.bench.registry import BENCHES, Row, also_medium
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

Compared = Mapping[Ground, Sequence[Choice]]
"""What is tried where."""
_ORACLE, _BASELINE = "decoder-strong", "baseline"
_WHO = ("dataset", "cut", "party")
_WHAT = (*_WHO, "defense", "defense_settings")
_TABLE_NOTES = {
    "adult": "Adult: a bank learns income; the columns of employer and registry are guessed",
    "diabetes130": "Diabetes-130: readmission within 30 days; a patient's stays are all trained on or all held out",
}
_EXPLAINED = (
    "skill = 1 - error / error of the mean record that the attacker knows; rows whose knowledge is 'baseline' saw no "
    "upload; accuracy and accuracy_cost come from honest runs and are of the column metric: the area under the curve "
    "where one class is rare",
    "each oracle has up to {pairs:,} true pairs: of people who were held out, then of people who were trained on. "
    "decoder-strong reads one upload, decoder-repeated the mean of {repeats}; witness kept every training upload, "
    "knows half of the people trained on and wants others of them; matcher names one of {targets:,} people and "
    "guesses nothing, by one upload; matcher-repeated by {repeats} of each, read in two ways of which the one that "
    "names more counts; matcher-witness by all those of training",
    "oracle_skill is the skill of decoder-strong, matched the identification of matcher, of the same defense; front "
    "says that no other defense or strength has less of both cost and oracle_skill, by means over seeds; step_ratio is "
    "a party's own step against an undefended one, timed alone; capacity_bits and upload_numbers are of one party "
    "and one upload",
)


@BENCHES.register("keystone-frontier")
@also_medium
def frontier(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Cost of accuracy against oracle skill on CIFAR-10, cuts 6 and 4: Keystone and every other defense."""
    return compare(_pictures(preset), preset, progress, folder, workers)


@BENCHES.register("keystone-frontier-cut6")
@also_medium
def cut6(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """The part of the frontier with every defense at the strength of the matrix, cut 6."""
    return compare({PICTURES: _of(CORE, preset)}, preset, progress, folder, workers)


@BENCHES.register("keystone-frontier-grids")
@also_medium
def grids(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """The part of the frontier with the other published strengths, cut 6."""
    return compare({PICTURES: _of(GRIDS, preset)}, preset, progress, folder, workers)


@BENCHES.register("keystone-frontier-cut4")
@also_medium
def cut4(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """The part of the frontier with fewer defenses and an earlier cut."""
    return compare({SHALLOW: _of(THIN, preset)}, preset, progress, folder, workers)


@BENCHES.register("keystone-frontier-tables")
def of_tables(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """The frontier on tables: what oracles read of each party's private columns, Adult and a hospital."""
    chosen = FEW_OF_TABLES if preset == "smoke" else OF_TABLES
    return compare(dict.fromkeys(TABLES, chosen), preset, progress, folder, workers)


def compare(
    compared: Compared, preset: str, progress: Progress, folder: Path | None, workers: Workers = ALONE
) -> list[Row]:
    """Return one row for each attack on each defense: means over seeds, ± the interval of 95 %."""
    for text in (*_notes(compared, preset), *_explained(compared, preset)):
        progress.message(text)
    work = [
        Victim(ground, tuple(choice.items()), seed, preset)
        for seed in SEEDS[preset]
        for ground, choices in compared.items()
        for choice in quicker(choices, preset)
    ]
    progress.start(len(work), "keystone-frontier")
    found: dict[Victim, Any] = {}
    device = "cuda" if any(device_of(ground) == "cuda" for ground in compared) else "cpu"
    for done, (place, result) in enumerate(finished(work, progress, folder, workers, device), start=1):
        if result is not None:
            found[work[place]] = result
        progress.advance(done)
    if not found:
        return []
    for text in _unread(found):
        progress.message(text)
    rows = _rows(found, _paces(found, preset, progress, folder, workers))
    for text in _verdicts(rows):
        progress.message(text)
    return rows


def _pictures(preset: str) -> dict[Ground, Sequence[Choice]]:
    if preset == "smoke":
        return {PICTURES: FEW}
    return {PICTURES: (*CORE, *GRIDS[1:]), SHALLOW: THIN}


def _of(choices: Sequence[Choice], preset: str) -> Sequence[Choice]:
    return FEW if preset == "smoke" else choices


def _notes(compared: Compared, preset: str) -> Iterable[str]:
    for dataset in dict.fromkeys(ground.dataset for ground in compared):
        note = note_of(dataset) if dataset in SOURCES else _TABLE_NOTES.get(dataset)
        if note:
            yield note
    for ground in compared:
        if ground.cut is not None:
            yield ground.size_note(preset)


def _explained(compared: Compared, preset: str) -> Iterable[str]:
    size = next(iter(compared)).size(preset)
    numbers = {"pairs": size.pairs, "repeats": size.repeats, "targets": size.targets}
    return (text.format(**numbers) for text in _EXPLAINED)


def _unread(found: Mapping[Victim, Any]) -> Iterable[str]:
    """Yield by which matchers some trainings, kept by an earlier version, were not read."""
    for name in (MATCHED_BY_MANY, MATCHED_BY_TRAINING):
        lacking = sum(all(row["attack"] != name for row in result["rows"]) for result in found.values())
        if lacking:
            yield f"{lacking} of {len(found)} trainings were run before there was a {name}, and not read by it"


def _paces(
    found: Iterable[Victim], preset: str, progress: Progress, folder: Path | None, workers: Workers
) -> dict[tuple[Ground, tuple[tuple[str, Any], ...]], float]:
    """Time a step of each defense: here and one after the other, whoever did the rest."""
    work = [Pace(*key, preset) for key in dict.fromkeys((victim.ground, victim.defense) for victim in found)]
    timed = {work[place]: found for place, found in finished(work, progress, folder, workers.one_by_one)}
    return {(pace.ground, pace.defense): found["step_ratio"] for pace, found in timed.items() if found is not None}


def _rows(found: Mapping[Victim, Any], paces: Mapping[Any, float]) -> list[Row]:
    """Return the means over seeds, with what belongs to a defense beside each of its attacks."""
    from colonnade.audit.rows import summarised

    seeds = _per_seed(found, paces)
    frame = summarised(seeds)
    about = seeds.drop_duplicates([*_WHAT]).set_index([*_WHAT])
    rows = [_row(one, about.loc[tuple(one[key] for key in _WHAT)]) for one in frame.to_dict("records")]
    for name, attack, measure in (("oracle_skill", _ORACLE, "skill"), ("matched", MATCHED_BY_ONE, "identification")):
        known = {_what(row): row[measure] for row in rows if row["attack"] == attack}
        for row in rows:
            row[name] = known.get(_what(row))
    return _with_front(rows)


def _per_seed(found: Mapping[Victim, Any], paces: Mapping[Any, float]) -> pd.DataFrame:
    """Return all rows of single seeds, each with its cost against the undefended model of its seed."""
    import pandas as pd

    rows = []
    for victim, result in found.items():
        bare = found.get(Victim(victim.ground, tuple(UNDEFENDED.items()), victim.seed, victim.preset))
        cost = math.nan if bare is None else bare["score"] - result["score"]
        pace = paces.get((victim.ground, victim.defense), math.nan)
        more = {"accuracy": result["score"], "accuracy_cost": cost, "metric": victim.ground.metric, "step_ratio": pace}
        rows += [{**row, **more} for row in result["rows"]]
    return pd.DataFrame(rows)


def _row(found: Mapping[Any, Any], about: Any) -> Row:
    row: Row = {key: _plain(found[key]) for key in (*KEYS[:2], "party", *KEYS[2:])}
    row["attack"] = _attack(found)
    for name in MEASURES:
        row[name], row[f"{name}_ci"] = _plain(found[name]), _plain(found[f"{name}_ci"])
    for name in ("metric", "step_ratio", "capacity_bits", "upload_numbers"):
        row[name] = _plain(about[name])
    return {**row, "defense_settings": found["defense_settings"], "attack_settings": found["attack_settings"]}


def _with_front(rows: Sequence[Row]) -> list[Row]:
    """Add whether a defense is on the front of cost and oracle skill."""
    on_front: dict[tuple[Any, ...], bool] = {}
    for group in _grouped(rows).values():
        measured = [row for row in group if row["attack"] == _ORACLE and row["accuracy_cost"] is not None]
        flags = efficient([_point(row, row["skill"]) for row in measured])
        on_front |= {_what(row): flag for row, flag in zip(measured, flags, strict=True)}
    return [{**row, "front": on_front.get(_what(row))} for row in rows]


def _verdicts(rows: Sequence[Row]) -> Iterable[str]:
    """Yield at which costs Keystone leaves least: to the oracle of one upload, then to whoever reads best."""
    for (dataset, cut, party), group in _grouped(rows).items():
        where = f"{dataset}, cut {cut}" + ("" if party == "all" else f", {party}")
        attacked = [row for row in group if row["skill"] is not None and row["knowledge"] != _BASELINE]
        known = [row for row in attacked if row["accuracy_cost"] is not None]
        oracle = [_point(row, row["skill"]) for row in known if row["attack"] == _ORACLE]
        worst = [
            _point(same[0], max(row["skill"] for row in same))
            for same in ([row for row in known if _what(row) == what] for what in dict.fromkeys(map(_what, known)))
        ]
        for reader, points in (("the strong oracle", oracle), ("the best of all readers", worst)):
            span = f"of costs from {COSTS[0]:g} to {COSTS[-1]:g} points"
            yield f"{where}, {reader}, {span}: {told(contests(points))}"


def _grouped(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in _WHO), []).append(row)
    return groups


def _point(row: Row, skill: float) -> Point:
    strength = "" if row["strength"] is None else f"{row['strength']:g}"
    return Point(row["defense"], strength, 100 * row["accuracy_cost"], skill)


def _what(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in _WHAT)


def _attack(found: Mapping[Any, Any]) -> str:
    """Return the attack's name, with its preset: rows of one name would be told apart by their settings alone."""
    preset = json.loads(found["attack_settings"]).get("preset")
    return f"{found['attack']}-{preset}" if preset else str(found["attack"])


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    return value
