"""The published comparisons of CausShield with its rivals, each beside trivial guesses and an oracle."""

from __future__ import annotations

from pathlib import Path

from colonnade.bench.images.matrix import Trial, run_trial
from colonnade.bench.images.published import OF_FOUR_PICTURES, UNSPLIT, URVFL, WORSE_THAN_GUESSING
from colonnade.bench.images.setting import (
    ALL_DEFENSES,
    FOUND_BY_UNSPLIT,
    PUBLISHED_DEFENSES,
    REDUCED,
    UNDEFENDED,
    Choice,
)
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.progress import Progress

ORACLES = ("decoder", "decoder-strong", "decoder-repeated", "ridge")
_QUICK_ORACLES = ("decoder", "ridge")
"""Those of reduced presets: a deep decoder takes a processor ten times as long as the victim that it reads."""
INSIDERS = ("urvfl", "sdar", "fsha", "pcat")
_FEW: tuple[Choice, ...] = (UNDEFENDED, {"name": "prune", "rate": 0.99})
_FIGURE5: tuple[Choice, ...] = (
    UNDEFENDED,
    *({"name": "dp_laplace", "epsilon": epsilon, "mode": "paper"} for epsilon in (1.0, 2.0, 3.0)),
    *({"name": "prune", "rate": rate} for rate in (0.90, 0.95, 0.99)),
    *({"name": "soteria", "rate": rate} for rate in (0.90, 0.95, 0.99)),
    {"name": "causshield"},
)
_TABLE2: tuple[Choice, ...] = (
    UNDEFENDED,
    *({"name": name, "noise": noise} for name in ("invl_dnp", "invl_enp") for noise in (0.08, 0.12, 0.15)),
    {"name": "causshield"},
    {"name": "bottleneck"},
)
_SKILL = (
    "skill = 1 - error / error of the mean auxiliary picture; rows whose knowledge is 'baseline' saw no upload; "
    "accuracy comes from honest runs"
)


@BENCHES.register("causshield-matrix")
@also_smaller
def matrix(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Every defense against every attack, CIFAR-10 halves, cut after the sixth module."""
    progress.message(_SKILL)
    if preset == "smoke":
        return run_trial(Trial("cifar10", _FEW, ("unsplit", "urvfl", "ridge")), preset, progress, folder, workers)
    # A witness repeats a training and reads it with strong decoders: not in minutes.
    witness = () if preset in REDUCED else ("witness",)
    attacks = ("unsplit", *INSIDERS, *oracles(preset), *witness)
    trial = Trial("cifar10", ALL_DEFENSES, attacks, published={"urvfl": URVFL["cifar10"]})
    return run_trial(trial, preset, progress, folder, workers)


@BENCHES.register("causshield-fig5")
@also_smaller
def figure5(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 5: UnSplit on handwritten digits, eleven rows of defenses."""
    progress.message(_SKILL)
    return [
        row
        for dataset in (("mnist",) if preset == "smoke" else ("mnist", "emnist"))
        for row in run_trial(
            Trial(
                dataset,
                _FEW if preset == "smoke" else _FIGURE5,
                ("unsplit", "ridge") if preset == "smoke" else ("unsplit", *oracles(preset)),
                threshold=FOUND_BY_UNSPLIT,
                published={"unsplit": UNSPLIT[dataset]},
            ),
            preset,
            progress,
            folder,
            workers,
        )
    ]


@BENCHES.register("causshield-fig6")
@also_smaller
def figure6(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 6: UnSplit on CIFAR-10, a thousand pictures at once instead of four."""
    return _unsplit("cifar10", preset, progress, folder, workers)


@BENCHES.register("causshield-fig7")
@also_smaller
def figure7(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 7: UnSplit on a hundred classes."""
    return _unsplit("cifar100", preset, progress, folder, workers)


@BENCHES.register("causshield-table2")
@also_smaller
def table2(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Table II: URVFL against noise along sensitive directions and against CausShield."""
    progress.message(_SKILL)
    progress.message(WORSE_THAN_GUESSING)
    few = preset == "smoke"
    return [
        row
        for dataset in (("cifar10",) if few else ("cifar10", "imagenet"))
        for row in run_trial(
            Trial(
                dataset,
                _FEW if few else _TABLE2,
                ("urvfl",) if few else ("urvfl", "urvfl-adaptive", *oracles(preset, "decoder-strong", "ridge")),
                published={"urvfl": URVFL[dataset]},
            ),
            preset,
            progress,
            folder,
            workers,
        )
    ]


@BENCHES.register("causshield-fig10")
@also_smaller
def figure10(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 10: deeper cuts, from the seventh module to the eleventh."""
    progress.message(_SKILL)
    few = preset == "smoke"
    return [
        row
        for cut in ((7,) if few else (7, 8, 9, 10, 11))
        for row in run_trial(
            Trial(
                "cifar10",
                _FEW if few else PUBLISHED_DEFENSES,
                ("unsplit",) if few else ("unsplit", *oracles(preset, "decoder-strong", "ridge")),
                cut=cut,
                threshold=FOUND_BY_UNSPLIT,
            ),
            preset,
            progress,
            folder,
            workers,
        )
    ]


def oracles(preset: str, *names: str) -> tuple[str, ...]:
    """Return these oracles, or all; those of reduced presets are always the quick ones."""
    return _QUICK_ORACLES if preset in REDUCED else names or ORACLES


def _unsplit(dataset: str, preset: str, progress: Progress, folder: Path | None, workers: Workers) -> list[Row]:
    progress.message(_SKILL)
    progress.message(OF_FOUR_PICTURES[dataset])
    few = preset == "smoke"
    trial = Trial(
        dataset,
        _FEW if few else PUBLISHED_DEFENSES,
        ("unsplit", "ridge") if few else ("unsplit", "unsplit-adaptive", *oracles(preset)),
        threshold=FOUND_BY_UNSPLIT,
        published={"unsplit": UNSPLIT.get(dataset, {})},
    )
    return run_trial(trial, preset, progress, folder, workers)
