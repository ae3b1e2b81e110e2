"""What CausShield costs and hides with the generator that stays: one training, deployed in several ways.

While it trains, every batch has a generator of its own, M steps away from the bottom. What computes uploads afterwards
is a choice that the paper leaves open. One that is adapted for longer than those that others have learned from is
strange to the top model, and to an attacker's decoder too: what looks like protection may be that alone, and it is
not there for the records that were uploaded in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from colonnade.bench.images.matrix import defense_keys, device_here, introduce
from colonnade.bench.images.sets import STRIPS, fingerprint, pictures
from colonnade.bench.images.setting import SEEDS, SIZES, UNDEFENDED, Choice, attacks_of, defenses_of, task_of
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.measure.interval import interval
from colonnade.progress import Progress

if TYPE_CHECKING:  # listing benches loads no torch
    from torch import Tensor

    from colonnade.audit.held_out import HeldOut
    from colonnade.federation.federation import Federation
    from colonnade.learn.model import VerticalModel

DATASET = "cifar10"
TIMES = (1, 3, 10)
_RATE = 1e-4  # what CausShield has where nothing is said
"""Steps of the generator that stays, in those of a batch's."""
TRAINING, BOTTOM, GENERATOR = "as in training", "bottom", "generator"
_FURTHER: Choice = {"learning_rate": 1e-3}
"""A rate that takes generators ten times as far from the bottom: how far is what the defense has to offer."""
_MEASURES = ("accuracy", "accuracy_cost", "mse", "skill", "blind_mse")
_NOTE = (
    "mse and skill are URVFL's, of whole pictures; deployed 'as in training' are uploads of pictures that were trained "
    "on, each batch with a generator of its own, computed once more when training had ended and from pictures that are "
    "not moved; all others are of held-out pictures; "
    "blind_mse is the error of the mean auxiliary picture; accuracy comes from an honest run with the same seed"
)


@dataclass(frozen=True)
class Deployment:
    """One training under one defense, honest and attacked, deployed in every way.

    Attributes:
        defense: of both passive parties.
        seed: of everything.
        preset: how long and how many.
    """

    defense: tuple[tuple[str, Any], ...]
    seed: int
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        return " ".join(["deploy", *(str(value) for _, value in self.defense), str(self.seed)])

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the result."""
        deciding = code("attack", "audit", "bench/images/deployment.py", "defend", "learn", "nets")
        chosen = [SIZES[self.preset], task_of(DATASET, self.preset), attacks_of(["urvfl"], self.preset)]
        return file_name(self.title, [self, *chosen, fingerprint(DATASET)], deciding)

    def run(self) -> list[Row]:
        """Train twice, and return what each way to deploy scores and gives away."""
        from colonnade.attack import Insider
        from colonnade.audit.attacks import chosen_attacks, train_inside
        from colonnade.audit.held_out import divide, held_out_of
        from colonnade.learn.train import train

        size, device = SIZES[self.preset], device_here()
        federation = pictures(DATASET, size.private, size.held_out)
        task = task_of(DATASET, self.preset)
        honest = train(federation, self._defenses(), task=task, seed=self.seed, device=device, progress=False)
        tested = held_out_of(honest, federation, None)
        known, wanted = divide(tested, 0.5, size.targets, self.seed)
        (attack,) = chosen_attacks(attacks_of(["urvfl"], self.preset)[0])
        assert isinstance(attack, Insider)
        curious, attacked = train_inside(
            attack, honest, federation, known, self._defenses(), seed=self.seed, device=device
        )

        def guessed(shown: HeldOut, uploads: Mapping[str, Tensor]) -> Row:
            return errors(attacked, known, shown, curious.reconstruct_all(uploads))

        trained = trained_on(federation, size.targets)
        rows: list[Row] = [{"deployed": TRAINING, "steps": None, "accuracy": None}]
        rows[0] |= guessed(trained, training_uploads(attacked, trained, task.batch_size))
        for (way, steps), _ in zip(deployments(honest), deployments(attacked), strict=True):
            uploads = {half: attacked_upload(attacked, half, wanted) for half in STRIPS}
            rows.append({"deployed": way, "steps": steps, "accuracy": accuracy(honest, tested)})
            rows[-1] |= guessed(wanted, uploads)
        return rows

    def _defenses(self) -> dict[str, Any]:
        from colonnade.bench.images.undecided import Undecided

        chosen = dict(self.defense)
        if chosen.pop("name") != "causshield":
            return {half: dict(self.defense) for half in STRIPS}
        return {half: Undecided(**chosen) for half in STRIPS}


def deployments(model: VerticalModel) -> Iterator[tuple[str, int | None]]:
    """Let the model upload in one way after the other; yield each way's name and steps."""
    from colonnade.audit.attacks import bottom_of
    from colonnade.bench.images.undecided import Undecided

    defenses = [bottom_of(model, half).defense for half in STRIPS]
    undecided = [one for one in defenses if isinstance(one, Undecided)]
    yield BOTTOM, None
    for times in TIMES if undecided else ():
        for defense in undecided:
            defense.decide(times * defense.rounds)
        yield GENERATOR, times * undecided[0].rounds


def accuracy(model: VerticalModel, tested: HeldOut) -> float:
    """Return the share of held-out pictures whose class is told."""
    import torch

    assert tested.labels is not None, "the active party is in the same process"
    probabilities = torch.tensor(model.predict_proba(dict(tested.records)).to_numpy())
    return float((probabilities.argmax(1) == tested.labels).float().mean())


def trained_on(federation: Federation, count: int) -> HeldOut:
    """Return both halves of the first pictures that were trained on: the set is in random order."""
    import numpy as np

    from colonnade.audit.held_out import people_at

    assert federation.split is not None
    return people_at(federation, STRIPS, np.flatnonzero(federation.split.to_numpy() == "train")[:count])


def training_uploads(model: VerticalModel, shown: HeldOut, batch_size: int) -> dict[str, Tensor]:
    """Return what leaves the parties for these people in training, batch by batch; no picture is moved."""
    import torch

    from colonnade.audit.attacks import bottom_of
    from colonnade.audit.evidence import device_of

    uploads = {}
    for half, records in shown.records.items():
        bottom = bottom_of(model, half)
        network = bottom.network.train()
        parts = torch.split(bottom.features(records).to(device_of(model.parts[half])), batch_size)
        with torch.enable_grad():  # the generator learns
            found = [bottom.defense.protect(x, network(x), train=True).detach().float().cpu() for x in parts]
        uploads[half] = torch.cat(found)
    return uploads


def attacked_upload(model: VerticalModel, half: str, shown: HeldOut) -> Tensor:
    """Return what leaves one party for these people now."""
    from colonnade.audit.attacks import bottom_of
    from colonnade.audit.evidence import uploads_of

    return uploads_of(bottom_of(model, half), shown.records[half])


def errors(model: VerticalModel, known: HeldOut, shown: HeldOut, guesses: Mapping[str, Tensor]) -> Row:
    """Return how near guesses of whole pictures came, and how near the mean of the known ones does."""
    from colonnade.audit.attacks import bottom_of
    from colonnade.audit.evidence import prepared
    from colonnade.audit.truth import joined, natural, side_by_side, truth_of
    from colonnade.measure.reconstruct import skill, squared_error

    bottoms = {half: bottom_of(model, half) for half in STRIPS}
    truth = joined(
        {
            half: truth_of(
                bottom.preparation, prepared(bottom, shown.records[half]), prepared(bottom, known.records[half])
            )
            for half, bottom in bottoms.items()
        }
    )
    assert truth is not None, "halves lie side by side"
    whole = side_by_side(
        {half: natural(bottom.preparation, guesses[half].cpu().numpy()) for half, bottom in bottoms.items()}
    )
    mse, blind = (float(squared_error(one, truth.records).mean()) for one in (whole, truth.blind))
    return {"mse": mse, "skill": skill(mse, blind), "blind_mse": blind}


@BENCHES.register("causshield-deploy")
@also_smaller
def deploy(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """What CausShield costs and what URVFL finds, by how the generator that stays is made."""
    introduce(DATASET, preset, progress)
    progress.message(_NOTE)
    work = [Deployment(tuple(one.items()), seed, preset) for seed in SEEDS[preset] for one in _defenses(preset)]
    progress.start(len(work), "causshield-deploy")
    found: dict[Deployment, list[Row]] = {}
    for done, (place, result) in enumerate(finished(work, progress, folder, workers, device_here()), start=1):
        if result is not None:
            found[work[place]] = result
        progress.advance(done)
    return list(_rows(found, preset))


def _defenses(preset: str) -> list[Choice]:
    ours: Choice = {"name": "causshield", "surrogate": "jitter"}
    if preset == "smoke":
        return [UNDEFENDED, ours]
    return defenses_of([UNDEFENDED, ours, {**ours, **_FURTHER}, {**ours, "surrogate": "lab"}], preset)


def _rows(found: Mapping[Deployment, Sequence[Row]], preset: str) -> Iterable[Row]:
    from colonnade.audit.rows import settings_of
    from colonnade.learn.train import named_defense

    bare = {one.seed: rows[-1]["accuracy"] for one, rows in found.items() if dict(one.defense) == UNDEFENDED}
    for defense in _defenses(preset):
        each = {one.seed: rows for one, rows in found.items() if dict(one.defense) == defense}
        for place in range(len(next(iter(each.values()), []))):
            at = {seed: dict(rows[place]) for seed, rows in each.items()}
            for seed, row in at.items():
                if row["accuracy"] is not None and seed in bare:
                    row["accuracy_cost"] = bare[seed] - row["accuracy"]
            first = next(iter(at.values()))
            yield {
                **defense_keys(DATASET, defense),
                "surrogate": defense.get("surrogate"),
                "rate": None if defense == UNDEFENDED else defense.get("learning_rate", _RATE),
                "deployed": first["deployed"],
                "steps": first["steps"],
                "attack": "urvfl",
                "knowledge": "published",
                "seeds": len(at),
                **{key: value for name in _MEASURES for key, value in _mean(name, at.values()).items()},
                "defense_settings": settings_of(named_defense(defense).describe()),
            }


def _mean(name: str, rows: Iterable[Row]) -> Row:
    values = [row[name] for row in rows if row.get(name) is not None]
    half = interval(values)
    mean = round(fmean(values), 4) if values else None
    return {name: mean, f"{name}_ci": None if half is None else round(half, 4)}
