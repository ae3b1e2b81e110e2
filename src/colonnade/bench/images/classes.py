"""Fig. 9: UnSplit on many pictures of each class, and how often it succeeds by the paper's own measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from colonnade.bench.images.matrix import defense_keys, device_here, introduce
from colonnade.bench.images.sets import STRIPS, fingerprint, pictures
from colonnade.bench.images.setting import (
    FOUND_BY_UNSPLIT,
    PUBLISHED_DEFENSES,
    SIZES,
    Choice,
    attacks_of,
    defenses_of,
    task_of,
)
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.measure.interval import interval
from colonnade.progress import Progress

if TYPE_CHECKING:  # listing benches loads no torch
    from colonnade.audit.stage import Guess
    from colonnade.federation.federation import Federation

DATASET = "cifar10"
OF_EACH_CLASS = {"smoke": 3, "small": 50, "medium": 200, "default": 200, "paper": 1000}
CLASSES = {"smoke": 2, "small": 10, "medium": 10, "default": 10, "paper": 10}
_MEASURES = ("asr", "mse", "blind_asr", "blind_mse")
_NOTE = (
    f"a picture counts as found at an error of at most {FOUND_BY_UNSPLIT}, as published; blind_asr and blind_mse are "
    "those of guessing the mean picture, which needs no upload; ± is the interval of 95 % over the classes; each "
    "defense is trained once"
)


@dataclass(frozen=True)
class Victim:
    """One model under one defense, whose uploads are attacked class by class.

    Attributes:
        defense: of both passive parties.
        preset: how long is trained, and how many pictures of how many classes are attacked.
    """

    defense: tuple[tuple[str, Any], ...]
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        return " ".join(["classes", *(str(value) for _, value in self.defense)])

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the result."""
        deciding = code("attack", "audit", "bench/images", "defend", "learn", "measure", "nets")
        counts = [CLASSES[self.preset], OF_EACH_CLASS[self.preset]]
        return file_name(self.title, [self, SIZES[self.preset], counts, fingerprint(DATASET)], deciding)

    def run(self) -> dict[str, Any]:
        """Train, attack one class after the other, and return what was found of each."""
        from colonnade.audit.attacks import chosen_attacks
        from colonnade.audit.held_out import held_out_of, people_at
        from colonnade.audit.settings import Settings
        from colonnade.audit.stage import Stage
        from colonnade.learn.train import train

        size, device = SIZES[self.preset], device_here()
        federation = pictures(DATASET, size.private, size.held_out)
        task = task_of(DATASET, self.preset)
        model = train(federation, dict(self.defense), task=task, seed=0, device=device, progress=False)
        known = held_out_of(model, federation, None)
        found = []
        for positions in some_of_each(labels_of(federation), CLASSES[self.preset], OF_EACH_CLASS[self.preset]):
            (attack,) = chosen_attacks(attacks_of(["unsplit"], self.preset)[0])
            stage = Stage(model, Settings(device=device), known, people_at(federation, STRIPS, positions), seed=0)
            *_, whole = stage.attacked_by(attack, None)
            found.append(scored(whole))
        return {"accuracy": model.scores["accuracy"], "classes": found}


def labels_of(federation: Federation) -> npt.NDArray[np.int64]:
    """Return everybody's class."""
    assert federation.active is not None and federation.rows is not None
    held = federation.records[federation.active].label
    assert held is not None
    labels: npt.NDArray[np.int64] = held.to_numpy()[federation.rows[federation.active]]
    return labels


def some_of_each(labels: npt.NDArray[np.int64], classes: int, count: int) -> list[npt.NDArray[np.intp]]:
    """Return the places of `count` pictures of each of the first `classes`, drawn once for all defenses.

    >>> [places.tolist() for places in some_of_each(np.array([1, 0, 1, 0]), 2, 2)]
    [[1, 3], [0, 2]]
    """
    rng = np.random.default_rng(0)
    drawn = (rng.permutation(np.flatnonzero(labels == one))[:count] for one in np.unique(labels)[:classes])
    return [np.sort(places) for places in drawn]


def scored(guess: Guess) -> dict[str, float]:
    """Return how near the guesses came, and how near the mean picture comes."""
    from colonnade.measure.reconstruct import squared_error

    found, blind = (squared_error(one, guess.truth.records) for one in (guess.guesses, guess.truth.blind))
    return {
        "asr": float((found <= FOUND_BY_UNSPLIT).mean()),
        "mse": float(found.mean()),
        "blind_asr": float((blind <= FOUND_BY_UNSPLIT).mean()),
        "blind_mse": float(blind.mean()),
    }


@BENCHES.register("causshield-fig9")
@also_smaller
def figure9(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 9: how often UnSplit finds a CIFAR-10 picture, class by class; all pictures of a class at once."""
    introduce(DATASET, preset, progress)
    progress.message(f"{OF_EACH_CLASS[preset]} pictures of each of {CLASSES[preset]} classes; {_NOTE}")
    defenses = PUBLISHED_DEFENSES[:1] if preset == "smoke" else defenses_of(PUBLISHED_DEFENSES, preset)
    work = [Victim(tuple(one.items()), preset) for one in defenses]
    progress.start(len(work), "causshield-fig9")
    found: dict[int, Any] = {}
    for done, (place, result) in enumerate(finished(work, progress, folder, workers, device_here()), start=1):
        found[place] = result
        progress.advance(done)
    return [_row(dict(work[place].defense), found[place]) for place in sorted(found) if found[place] is not None]


def _row(defense: Choice, found: dict[str, Any]) -> Row:
    from colonnade.audit.rows import settings_of
    from colonnade.learn.train import named_defense

    each = found["classes"]
    row: Row = {
        **defense_keys(DATASET, defense),
        "attack": "unsplit",
        "knowledge": "published",
        "seeds": 1,
        "classes": len(each),
        "accuracy": round(found["accuracy"], 4),
    }
    for name in _MEASURES:
        row |= _over_classes(name, [one[name] for one in each])
    return {**row, "defense_settings": settings_of(named_defense(defense).describe())}


def _over_classes(name: str, values: Sequence[float]) -> Row:
    half = interval(list(values))
    return {name: round(fmean(values), 4), f"{name}_ci": None if half is None else round(half, 4)}
