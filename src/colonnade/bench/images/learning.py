"""Rows about what defenses cost the task: curves, final accuracy, records that a party lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from colonnade.bench.images.matrix import defense_keys, device_here, introduce
from colonnade.bench.images.published import ACCURACY, entry
from colonnade.bench.images.sets import fingerprint, pictures
from colonnade.bench.images.setting import PUBLISHED_DEFENSES, SEEDS, SIZES, UNDEFENDED, Choice, defenses_of, task_of
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.measure.interval import interval
from colonnade.progress import Progress

_FEW: tuple[Choice, ...] = (UNDEFENDED, {"name": "prune", "rate": 0.99})
_OVERLAPS = (0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Learning:
    """One training run.

    Attributes:
        dataset: one of `SOURCES`.
        defense: of both passive parties.
        seed: of the run.
        preset: how long.
        overlap: share of the training records that both halves' owners hold.
        curves: whether records are scored after every epoch.
    """

    dataset: str
    defense: tuple[tuple[str, Any], ...]
    seed: int
    preset: str
    overlap: float = 1.0
    curves: bool = False

    @property
    def title(self) -> str:
        """What people call it."""
        chosen = " ".join(str(value) for _, value in self.defense)
        return f"{self.dataset} {chosen} overlap {self.overlap} {self.seed}"

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the run."""
        task = task_of(self.dataset, self.preset).model_dump_json()
        deciding = [self, SIZES[self.preset], task, fingerprint(self.dataset)]
        return file_name(self.title, deciding, code("defend", "learn", "nets"))

    def run(self) -> dict[str, Any]:
        """Train, and return scores and curves."""
        from colonnade.learn.train import train

        size, device = SIZES[self.preset], device_here()
        watched = min(500, (size.held_out or 1000) // 2) if self.curves else 0
        federation = pictures(self.dataset, size.private, size.held_out, watched=watched, overlap=self.overlap)
        task = task_of(self.dataset, self.preset, missing="impute" if self.overlap < 1 else "drop")
        model = train(federation, dict(self.defense), task=task, seed=self.seed, device=device, progress=False)
        meters = next((part.result.get("history") for party, part in model.parts.items() if party == "left"), None)
        history = model.history.to_dict("records") if self.curves else []
        return {"scores": model.scores, "history": history, "meters": meters or []}


def learned(work: Sequence[Learning], progress: Progress, folder: Path | None, workers: Workers) -> dict[Learning, Any]:
    """Run everything and return what came out, by run."""
    progress.start(len(work), "training")
    found = {}
    for done, (place, result) in enumerate(finished(work, progress, folder, workers, device_here()), start=1):
        if result is not None:
            found[work[place]] = result
        progress.advance(done)
    return found


def _runs(dataset: str, defenses: Iterable[Choice], preset: str, **more: Any) -> list[Learning]:
    return [
        Learning(dataset, tuple(defense.items()), seed, preset, **more)
        for defense in defenses
        for seed in SEEDS[preset]
    ]


@BENCHES.register("causshield-fig11")
@also_smaller
def figure11(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 11: accuracy and loss after every epoch, handwritten digits."""
    return _curves("mnist", preset, progress, folder, workers)


@BENCHES.register("causshield-fig12")
@also_smaller
def figure12(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 12: accuracy and loss after every epoch, CIFAR-10; and Ψ of CausShield."""
    return _curves("cifar10", preset, progress, folder, workers)


@BENCHES.register("causshield-table3")
@also_smaller
def table3(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Table III: final accuracy of every defense on digits and on a hundred classes."""
    datasets = ("emnist",) if preset == "smoke" else ("emnist", "cifar100")
    _say(datasets, preset, progress)
    runs = [run for dataset in datasets for run in _runs(dataset, _defenses(preset, dataset), preset)]
    found = learned(runs, progress, folder, workers)
    rows = []
    for (dataset, defense), group in _grouped(found).items():
        row = _row(dataset, defense, [result["scores"]["accuracy"] for result in group.values()])
        said = entry(ACCURACY.get(dataset, {}), row["defense"], row["strength"]).accuracy
        rows.append({**row, "published_accuracy": said})
    return rows


@BENCHES.register("causshield-fig13")
@also_smaller
def figure13(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """Fig. 13: accuracy where one party lacks some of the training records."""
    overlaps = (0.5, 1.0) if preset == "smoke" else _OVERLAPS
    _say(("cifar10",), preset, progress)
    progress.message("the right half's owner lacks records; its mean upload stands in for them")
    names = ("none", "soteria", "ressfl", "causshield")
    defenses = [one for one in _defenses(preset, "cifar10") if preset == "smoke" or one["name"] in names]
    rows = []
    for overlap in overlaps:
        found = learned(_runs("cifar10", defenses, preset, overlap=overlap), progress, folder, workers)
        for (dataset, defense), group in _grouped(found).items():
            accuracies = [result["scores"]["accuracy"] for result in group.values()]
            rows.append({**_row(dataset, defense, accuracies), "overlap": overlap})
    return rows


def _curves(dataset: str, preset: str, progress: Progress, folder: Path | None, workers: Workers) -> list[Row]:
    _say((dataset,), preset, progress)
    found = learned(_runs(dataset, _defenses(preset, dataset), preset, curves=True), progress, folder, workers)
    rows = []
    for (name, defense), group in _grouped(found).items():
        histories = [result["history"] for result in group.values()]
        meters = [{row["epoch"]: row for row in result["meters"]} for result in group.values()]
        for epoch in range(min(map(len, histories))):
            row = _row(name, defense, [history[epoch]["validation_accuracy"] for history in histories])
            loss = fmean(history[epoch]["validation_loss"] for history in histories)
            psi = [one[epoch]["psi"] for one in meters if "psi" in one.get(epoch, {})]
            rows.append({**row, "epoch": epoch + 1, "loss": round(loss, 4), "psi": _mean(psi)})
    return rows


def _defenses(preset: str, dataset: str) -> Sequence[Choice]:
    return _FEW if preset == "smoke" else defenses_of(PUBLISHED_DEFENSES, preset, dataset)


def _say(datasets: Iterable[str], preset: str, progress: Progress) -> None:
    for dataset in datasets:
        introduce(dataset, preset, progress)


def _grouped(
    found: Mapping[Learning, Any],
) -> dict[tuple[str, tuple[tuple[str, Any], ...]], dict[Learning, Any]]:
    groups: dict[tuple[str, tuple[tuple[str, Any], ...]], dict[Learning, Any]] = {}
    for run, result in found.items():
        groups.setdefault((run.dataset, run.defense), {})[run] = result
    return groups


def _row(dataset: str, defense: tuple[tuple[str, Any], ...], accuracies: Sequence[float]) -> Row:
    return {
        **defense_keys(dataset, dict(defense)),
        "seeds": len(accuracies),
        "accuracy": _mean(accuracies),
        "accuracy_ci": _rounded(interval(list(accuracies))),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
