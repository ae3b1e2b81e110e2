"""What Keystone's coin alone hides, and what it hides only from readers who do not know of it.

A decoder is held to the record as it is. Of uploads of which half are of negatives it makes the mean, however much they
tell; so a part of what decoders do not find is owed to their loss. Here one reader knows of the coin, and the same
reader without that knowledge stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from colonnade.bench.images.matrix import device_here, introduce
from colonnade.bench.images.sets import fingerprint, pictures
from colonnade.bench.images.setting import SEEDS, SIZES, Choice, task_of
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.registry import BENCHES, Row, also_smaller
from colonnade.bench.workers import ALONE, Workers
from colonnade.measure.interval import interval
from colonnade.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor

    from colonnade.attack.evidence import Evidence
    from colonnade.audit.held_out import HeldOut
    from colonnade.learn.model import VerticalModel

DATASET = "cifar10"
_VEIL = 32
_FORMS: tuple[Choice, ...] = (
    {"name": "keystone", "veil": _VEIL},
    {"name": "keystone", "veil": _VEIL, "negatives": False},
    {"name": "keystone", "veil": _VEIL, "levels": 2, "sigma": 0.0, "channels": 16, "grid": 2},
)
_COMPONENTS = {"smoke": (2,)}
_USUAL_COMPONENTS = (16, 64)
_WANTED, _EPOCHS = {"smoke": 8}, {"smoke": 1}
_USUAL_WANTED, _USUAL_EPOCHS = 400, 60
_MEASURES = ("skill_up_to_sign", "shuffled", "identification", "accuracy")
_NOTE = (
    "readers guess the largest components that the veil leaves of each half, from one upload; skill_up_to_sign is the "
    "share of them that is explained, of guess and negative the nearer; shuffled is that of the same guesses, each "
    "held against another record; identification up to the sign, among those wanted; readers have true pairs of the "
    "other pictures that were held out, three quarters at most"
)


@dataclass(frozen=True)
class Coin:
    """One training under a form of Keystone, and what both readers find.

    Attributes:
        defense: as pairs of a name and a value.
        seed: of the run, of who is wanted and of the readers.
        preset: how long.
    """

    defense: tuple[tuple[str, Any], ...]
    seed: int
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        return " ".join(["coin", *(str(value) for _, value in self.defense), str(self.seed)])

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the result."""
        chosen = [SIZES[self.preset], task_of(DATASET, self.preset), fingerprint(DATASET)]
        deciding = code("attack/either_way.py", "audit", "bench/keystone/coin.py", "defend", "learn", "nets")
        return file_name(self.title, [self, *chosen], deciding)

    def run(self) -> list[Row]:
        """Train, and return what each reader finds, as means over both halves."""
        from colonnade.audit.evidence import working_copy
        from colonnade.audit.held_out import divide, held_out_of
        from colonnade.learn.train import train

        size, device = SIZES[self.preset], device_here()
        federation = pictures(DATASET, size.private, size.held_out)
        task = task_of(DATASET, self.preset)
        trained = train(federation, dict(self.defense), task=task, seed=self.seed, device=device, progress=False)
        held = held_out_of(trained, federation, None)
        parties = list(held.records)
        model = working_copy(trained, parties)
        known, wanted = divide(held, 0.75, _WANTED.get(self.preset, _USUAL_WANTED), self.seed)
        halves = [_Half.of(model, party, known, wanted, self.seed) for party in parties]
        return [
            {
                "components": components,
                "knows": knows,
                "accuracy": trained.scores["accuracy"],
                **_mean_of([half.read(components, knows, self.preset, self.seed, device) for half in halves]),
            }
            for components in _COMPONENTS.get(self.preset, _USUAL_COMPONENTS)
            for knows in (False, True)
        ]


@dataclass(frozen=True)
class _Half:
    """What is known of one party, and the records that are wanted of it."""

    evidence: Evidence
    truths: Tensor

    @classmethod
    def of(cls, model: VerticalModel, party: str, known: HeldOut, wanted: HeldOut, seed: int) -> _Half:
        from colonnade.audit.attacks import bottom_of
        from colonnade.audit.evidence import evidence_on, prepared

        bottom = bottom_of(model, party)
        evidence = evidence_on(party, bottom, known, wanted, seed=seed)
        return cls(evidence, prepared(bottom, wanted.records[party]))

    def read(self, components: int, knows: bool, preset: str, seed: int, device: str) -> Row:
        """Return what a reader finds."""
        from colonnade.attack.either_way import EitherWay, identified_up_to_sign, skill_up_to_sign

        veil = components if preset == "smoke" else _VEIL
        reader = EitherWay(veil, components, knows=knows, epochs=_EPOCHS.get(preset, _USUAL_EPOCHS))
        reader.seed(seed, device)
        reader.fit(self.evidence)
        guessed, truths = reader.guess(self.evidence.uploads), reader.of(self.truths)
        return {
            "skill_up_to_sign": skill_up_to_sign(guessed, truths),
            "shuffled": skill_up_to_sign(guessed.roll(1, 0), truths),
            "identification": identified_up_to_sign(guessed, truths),
        }


@BENCHES.register("keystone-coin")
@also_smaller
def coin(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """What readers find who know that each record comes as it is or as its negative, and the same without knowing."""
    introduce(DATASET, preset, progress)
    progress.message(_NOTE)
    forms = _forms(preset)
    work = [Coin(tuple(form.items()), seed, preset) for seed in SEEDS[preset] for form in forms]
    progress.start(len(work), "keystone-coin")
    found: dict[Coin, list[Row]] = {}
    for done, (place, result) in enumerate(finished(work, progress, folder, workers, device_here()), start=1):
        if result is not None:
            found[work[place]] = result
        progress.advance(done)
    return list(_rows(found, forms))


def _forms(preset: str) -> Sequence[Choice]:
    # A smoke run has too few pictures for a veil of 32.
    return [{**one, "veil": 2} for one in _FORMS[:1]] if preset == "smoke" else _FORMS


def _rows(found: Mapping[Coin, Sequence[Row]], forms: Iterable[Choice]) -> Iterable[Row]:
    for form in forms:
        each = [rows for job, rows in found.items() if dict(job.defense) == form]
        for place in range(len(each[0]) if each else 0):
            at = [rows[place] for rows in each]
            yield {
                "dataset": DATASET,
                "cut": 6,
                "defense": form["name"],
                "strength": form["veil"],
                "negatives": form.get("negatives", True),
                "levels": form.get("levels"),
                "attack": "either-way",
                "knowledge": "oracle",
                "knows": at[0]["knows"],
                "components": at[0]["components"],
                "seeds": len(at),
                **{key: value for name in _MEASURES for key, value in _mean(name, at).items()},
            }


def _mean_of(rows: Sequence[Row]) -> Row:
    return {name: fmean(row[name] for row in rows) for name in rows[0]}


def _mean(name: str, rows: Sequence[Row]) -> Row:
    values = [row[name] for row in rows]
    half = interval(values)
    return {name: round(fmean(values), 4), f"{name}_ci": None if half is None else round(half, 4)}
