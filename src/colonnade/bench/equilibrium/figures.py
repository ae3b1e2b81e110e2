"""The published figures on target against leak: trends, clients, weights, α and the number of parties."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from colonnade.bench.equilibrium import methods as known
from colonnade.bench.equilibrium.methods import methods
from colonnade.bench.equilibrium.play import Play
from colonnade.bench.equilibrium.published import WEIGHTS, shown
from colonnade.bench.equilibrium.rows import Results, keys_of, mean, played, plays, rows, say_measured
from colonnade.bench.equilibrium.sets import Case
from colonnade.bench.equilibrium.table import HOSPITAL, faces
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

MODALITIES = Case("modalities", 3)
_BOTH = (MODALITIES, HOSPITAL)
_RIVALS = (known.PUBLISHED, known.GAUSSIAN, known.LAPLACE, known.TOP_K, known.QUANTISE)
_SHOWN = (known.NONE, *known.OURS, *_RIVALS)
_SHOWN_OF_FACES = (known.NONE, *known.OURS_FOR_PICTURES, *_RIVALS)
_PARTIES = (2, 4, 19)


@BENCHES.register("equilibrium-fig4")
def figure4(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 4: target against leak, every method at its strengths, three modalities and a hospital."""
    say_measured(progress)
    return rows(played(plays(_BOTH, methods(preset), preset), progress, "equilibrium-fig4", folder, workers))


@BENCHES.register("equilibrium-fig5")
def figure5(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 5: the same at one strength, for each client's own uploads."""
    say_measured(progress)
    progress.message("the strength in the middle of each method's grid")
    work = plays(_BOTH, [one.middle for one in methods(preset, _SHOWN)], preset, every_client=True)
    return rows(played(work, progress, "equilibrium-fig5", folder, workers), client=None)


@BENCHES.register("equilibrium-fig6")
def figure6(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 6: halves of faces that hide different secrets, under two targets."""
    say_measured(progress)
    progress.message("the strength in the middle of each method's grid")
    cases = _two_targets()
    work = plays(cases, [one.middle for one in methods(preset, _SHOWN_OF_FACES)], preset, every_client=True)
    return rows(played(work, progress, "equilibrium-fig6", folder, workers), client=None)


@BENCHES.register("equilibrium-fig8")
def figure8(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 8: adaptive weights against uniform ones, and how the weights move."""
    say_measured(progress)
    progress.message(f"published: both weights move between {shown(WEIGHTS)}; rows with an epoch are of the weight q")
    compared = [one.at(*one.strengths[::4]) if preset == "smoke" else one for one in known.OURS]
    found = played(plays((HOSPITAL,), compared, preset, watched=True), progress, "equilibrium-fig8", folder, workers)
    return [*rows(found), *_weights(found)]


@BENCHES.register("equilibrium-fig9")
def figure9(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 9: α from weak to strong, and the same columns at 2, 4 and 19 parties."""
    say_measured(progress)
    progress.message("weights sum to 1: of 19 parties each gets a nineteenth of the task, and α presses as before")
    few = preset == "smoke"
    swept = sorted({*known.ALPHAS, *known.PUBLISHED_ALPHAS})
    cases = [Case("hospital", parties) for parties in (_PARTIES[:2] if few else _PARTIES)]
    work = plays(cases, [known.SHAPLEY.at(*swept[:: 5 if few else 1])], preset)
    return rows(played(work, progress, "equilibrium-fig9", folder, workers))


def _two_targets() -> list[Case]:
    if faces().dataset == "celeba":
        return [Case("faces", 2, target, ("Male", "Young")) for target in ("Smiling", "Gray_Hair")]
    return [Case("faces", 2, "race", ("gender", "age")), Case("faces", 2, "age", ("gender", "race"))]


def _weights(found: Results) -> list[Row]:
    """Return how much each party counted after each epoch, mean over seeds."""
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    first: dict[tuple[Any, ...], Play] = {}
    for play, result in found.items():
        for told in result["history"]:
            for name, weight in told.items():
                if name.startswith("weight_"):
                    key = (play.method, play.strength, name.removeprefix("weight_"), told["epoch"])
                    groups[key].append(weight)
                    first.setdefault(key, play)
    return [
        {
            **keys_of(first[key]),
            "seeds": len(weights),
            "client": key[2],
            "epoch": key[3] + 1,
            **mean(weights, "q"),
            "published_q": shown(WEIGHTS),
        }
        for key, weights in groups.items()
    ]
