"""Rows of the reconstruction benches: defenses × attacks on halves of pictures, every cell kept when it is there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from colonnade.bench.images.published import Column, entry
from colonnade.bench.images.sets import note_of, pictures
from colonnade.bench.images.setting import CUT, SEEDS, SIZES, Choice, attacks_of, defenses_of, size_note, task_of
from colonnade.bench.registry import Row
from colonnade.bench.revision import source_revision
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

KEYS = ("dataset", "cut", "defense", "strength", "attack", "knowledge", "seeds")
MEASURES = ("mse", "psnr", "ssim", "lpips", "skill", "identification", "asr", "accuracy", "accuracy_cost")


@dataclass(frozen=True)
class Trial:
    """What one table tries.

    Attributes:
        dataset: one of `SOURCES`.
        defenses: what victims use.
        attacks: names, as `attacks_of` takes them.
        cut: how many modules stay at the parties.
        threshold: mean squared error up to which a picture counts as found.
        published: the paper's entries, by the name of an attack.
    """

    dataset: str
    defenses: Sequence[Choice]
    attacks: Sequence[str]
    cut: int = CUT
    threshold: float = 0.025
    published: Mapping[str, Column] = field(default_factory=dict)


def run_trial(
    trial: Trial, preset: str, progress: Progress, folder: Path | None, workers: Workers = ALONE
) -> list[Row]:
    """Return one row for each defense and attack: means over seeds on whole pictures, ± the interval of 95 %.

    Trivial guesses are rows of their own, whose `knowledge` is `baseline`.
    """
    from colonnade.audit.matrix import run_matrix

    size, device = SIZES[preset], device_here()
    introduce(trial.dataset, preset, progress)
    with TemporaryDirectory() as scratch:
        result = run_matrix(
            pictures(trial.dataset, size.private, size.held_out),
            defenses_of(trial.defenses, preset, trial.dataset),
            attacks_of(trial.attacks, preset),
            out=(folder or Path(scratch)) / f"{trial.dataset}-{trial.cut}",
            task=task_of(trial.dataset, preset, trial.cut),
            seeds=list(SEEDS[preset]),
            made_with=source_revision(),
            engine=workers.engine,
            jobs=workers.jobs,
            address=workers.address,
            gather=workers.gather,
            progress=progress,
            dataset=trial.dataset,
            targets=size.targets,
            threshold=trial.threshold,
            device=device,
        )
    workers.kept.append(len(result.frame))  # who only gathers is told where nothing is kept, by the matrix itself
    whole = result.frame[result.frame["party"] == "all"]
    return [_row(found, trial) for found in whole.to_dict("records")]


def introduce(dataset: str, preset: str, progress: Progress) -> None:
    """Say what the pictures are, where they stand in for others, and how many are trained on and attacked."""
    if note := note_of(dataset):
        progress.message(note)
    progress.message(size_note(dataset, preset))


def device_here() -> str:
    """Return `cuda` where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def defense_keys(dataset: str, defense: Choice) -> Row:
    """Return the keys that say what was defended, and how."""
    from colonnade.audit.rows import strength_of
    from colonnade.learn.train import named_defense

    made = named_defense(defense)
    return {"dataset": dataset, "cut": CUT, "defense": made.name, "strength": _plain(strength_of(made))}


def _row(found: Mapping[Any, Any], trial: Trial) -> Row:
    row: Row = {key: _plain(found[key]) for key in KEYS}
    for name in MEASURES:
        row[name], row[f"{name}_ci"] = _plain(found[name]), _plain(found[f"{name}_ci"])
    row["defense_settings"], row["attack_settings"] = found["defense_settings"], found["attack_settings"]
    column = trial.published.get(row["attack"], {}) if row["knowledge"] != "adaptive" else {}
    said = entry(column, row["defense"], row["strength"])
    return {**row, **{f"published_{name}": value for name, value in asdict(said).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None  # an exact guess has no finite PSNR
    return value
