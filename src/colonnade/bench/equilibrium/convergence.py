"""Fig. 7: how fast training gets there, what hiding takes, and what it takes away from each attacker."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from colonnade.bench.equilibrium import methods as known
from colonnade.bench.equilibrium.methods import Method
from colonnade.bench.equilibrium.play import Clock, Play
from colonnade.bench.equilibrium.published import STEP_RATIOS
from colonnade.bench.equilibrium.rows import Results, keys_of, mean, played, plays, rows, say_measured
from colonnade.bench.equilibrium.sets import scene
from colonnade.bench.equilibrium.setting import SIZES
from colonnade.bench.equilibrium.table import HOSPITAL
from colonnade.bench.kept import finished
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

_ALPHA = 0.5
_OURS = known.SHAPLEY.at(_ALPHA)
_QUICK = replace(_OURS, name="nashcoder, reversal", fixed=(("reversal", True),))
_COMPARED = (known.NONE, _OURS, _QUICK, known.SHAPLEY.at(0.0), known.PUBLISHED.at(_ALPHA), known.CAPPED.at(_ALPHA))
_LOCAL_UPDATES = 4
_TURNS = {"smoke": 1, "default": 3, "paper": 5}


@BENCHES.register("equilibrium-fig7")
def figure7(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 7: convergence, with and without adversarial training, and the time of a step beside standard training."""
    say_measured(progress)
    progress.message(
        "published: standard training 1, variants of the method "
        + " and ".join(f"{ratio:g}" for ratio in STEP_RATIOS)
        + "; which is which is not said. alpha 0 trains a head and does not listen to it; 'reversal' is its quick way"
    )
    progress.message(
        "step_ratio here: a step of all parties in one process, in turns with standard training of the same process; "
        f"rows with an epoch are scored on records held back; with q_local {_LOCAL_UPDATES} there are "
        f"{_LOCAL_UPDATES} times fewer exchanges"
    )
    compared = _COMPARED[:2] if preset == "smoke" else _COMPARED
    work = plays((HOSPITAL,), compared, preset, watched=True)
    found = played(work, progress, "equilibrium-fig7", folder, workers)
    fewer = plays((HOSPITAL,), compared[:2], preset, watched=True, local_updates=_LOCAL_UPDATES, attacked=False)
    stale = played(fewer, progress, "equilibrium-fig7, stale", folder, workers)
    ratios = _ratios([one for one in compared if one != known.NONE], preset, progress, folder, workers)
    return [_with_ratio(row, ratios) for row in rows(found, attacker=None)] + _curves({**found, **stale})


@dataclass(frozen=True)
class Timing:
    """A method and standard training in turns, in one process: whatever else the machine does slows both."""

    play: Play

    @property
    def title(self) -> str:
        """What people call it."""
        return f"step of {self.play.title}"

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the steps."""
        return f"step-{self.play.file_name}"

    def run(self) -> list[float]:
        """Return the ratio of each turn."""
        size = SIZES[self.play.preset][self.play.case.kind]
        staged, ratios = scene(self.play.case, size.train, size.test), []
        for _ in range(_TURNS[self.play.preset]):
            seconds = []
            for play in (self.play, replace(self.play, method=known.NONE, strength=None)):
                clock = Clock()
                play.trained(staged, clock)
                seconds.append(clock.seconds or float("nan"))
            ratios.append(seconds[0] / seconds[1])
        return ratios


def _ratios(
    compared: list[Method], preset: str, progress: Progress, folder: Path | None, workers: Workers
) -> dict[tuple[Any, ...], Row]:
    """Time one after the other in this process, whoever the workers are: neighbours would be timed too."""
    work = [Timing(Play(HOSPITAL, one, one.strengths[0], 0, preset, attacked=False)) for one in compared]
    progress.start(len(work), "equilibrium-fig7, steps")
    found = {}
    for done, (place, ratios) in enumerate(finished(work, progress, folder, workers.one_by_one), start=1):
        if ratios is not None:
            row = keys_of(work[place].play)
            found[row["method"], row["alpha"]] = mean(ratios, "step_ratio")
        progress.advance(done)
    return found


def _with_ratio(row: Row, ratios: dict[tuple[Any, ...], Row]) -> Row:
    said = " or ".join(f"{ratio:g}" for ratio in STEP_RATIOS)
    found = ratios.get((row["method"], row["alpha"]), {"step_ratio": 1.0, "step_ratio_ci": None})
    return {**row, **found, "published_step_ratio": "1" if row["method"] == "none" else said}


def _curves(found: Results) -> list[Row]:
    """Return the target score after every epoch, mean over seeds."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    first: dict[tuple[Any, ...], Play] = {}
    for play, result in found.items():
        for told in result["history"]:
            key = (play.method, play.strength, play.local_updates, told["epoch"])
            share = (told["epoch"] + 1) / len(result["history"])
            now = {"target": told.get(f"validation_{result['metric']}"), "loss": told.get("validation_loss")}
            groups[key].append({**now, "exchanges": share * result["steps"], "bytes": share * result["bytes"]})
            first.setdefault(key, play)
    return [
        {
            **keys_of(first[key]),
            "seeds": len(group),
            "epoch": key[-1] + 1,
            **mean([one["target"] for one in group], "target"),
            **mean([one["loss"] for one in group], "loss"),
            "exchanges": round(group[0]["exchanges"]),
            "bytes": round(group[0]["bytes"]),
        }
        for key, group in groups.items()
    ]
