"""What the frontier compares, where, and how much of it is trained and attacked under each preset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colonnade.bench.equilibrium import setting as tables
from colonnade.bench.equilibrium.sets import Scene, scene
from colonnade.bench.equilibrium.table import ADULT, HOSPITAL
from colonnade.bench.images import setting as images
from colonnade.bench.images.sets import fingerprint, pictures
from colonnade.bench.images.setting import ALL_DEFENSES, PUBLISHED_DEFENSES, UNDEFENDED, Choice

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation
    from colonnade.federation.task import Task

SEEDS = images.SEEDS
MATCHED_BY_ONE, MATCHED_BY_MANY, MATCHED_BY_TRAINING = "matcher", "matcher-repeated", "matcher-witness"
"""What rows call it when a matcher is shown one upload, many of the finished model, or all those of training."""
CASES = {"adult": ADULT, "hospital": HOSPITAL}


@dataclass(frozen=True)
class Size:
    """How much is trained on and attacked.

    Attributes:
        private: pictures that are trained on; None takes all there are.
        held_out: pictures that are not; None takes twice the published test pictures.
        epochs: of training on pictures; tables keep those of the equilibrium benches.
        targets: people who are attacked.
        pairs: true pairs that each oracle has, at most.
        repeats: how often a record is uploaded for the oracle that averages uploads.
        decoder_epochs: passes of decoders over the pairs; None takes their own.
        matcher_epochs: of the matcher, at most.
        steps: of a training step's time: those that are not timed, and those that are.
    """

    private: int | None
    held_out: int | None
    epochs: int
    targets: int
    pairs: int
    repeats: int
    decoder_epochs: int | None
    matcher_epochs: int
    steps: tuple[int, int]


SIZES = {
    "smoke": Size(128, 64, 1, 16, 24, 3, 1, 1, (1, 2)),
    "medium": Size(None, None, 6, 1000, 8000, 100, 15, 60, (5, 20)),
    "default": Size(None, None, 30, 1000, 8000, 100, 30, 60, (5, 20)),
    "paper": Size(None, None, 60, 1000, 8000, 100, None, 60, (5, 50)),
}
"""Decoders of `default` make half of their own passes. One look, skill of the strong oracle after 30 and 60: undefended
.987 and .990, disco .977 and .980, nopeek .948 and .958, ressfl .886 and .898, prune .910 and .906."""
TABLE_SIZES = {
    "smoke": SIZES["smoke"],
    "default": replace(SIZES["default"], decoder_epochs=20, steps=(50, 500)),
    "paper": SIZES["paper"],
}
"""A decoder of columns is done sooner. One look at Adult's employer, skill after 20 and 60 epochs: .991 and .995 of
undefended uploads, .678 and .652 of noisy ones. A step of theirs takes a fifth of a millisecond: twenty would tell more
of the clock than of the step."""


@dataclass(frozen=True)
class Ground:
    """Where defenses are compared: pictures cut at one place, or a table.

    Attributes:
        name: of pictures, one of `SOURCES`; of tables, one of `CASES`.
        cut: how many modules stay at the parties; None for tables.
    """

    name: str
    cut: int | None = None

    @property
    def dataset(self) -> str:
        """What rows call it: of tables the set that is there."""
        return self.name if self.cut is not None else CASES[self.name].dataset

    @property
    def metric(self) -> str:
        """How the task is scored: accuracy, or the area under the curve where one class is rare."""
        return "auc" if self.name == "hospital" else "accuracy"

    @property
    def fingerprint(self) -> list[str]:
        """What tells pictures that are at hand from others; tables are always whole."""
        return [] if self.cut is None else [fingerprint(self.name)]

    def size(self, preset: str) -> Size:
        """Return how much is trained on and attacked here."""
        return (SIZES if self.cut is not None else TABLE_SIZES)[preset]

    def size_note(self, preset: str) -> str:
        """Return in words what is trained on here: presets change, and a result must tell what it was made with.

        >>> Ground("cifar10", 4).size_note("medium")
        'medium, cut 4: all pictures trained on, all held out, 6 epochs of batches of 128, resnet18_narrow'
        """
        size = self.size(preset)
        return f"{preset}, cut {self.cut}: {images.pictures_note(size.private, size.held_out, self._task(preset))}"

    def learning(self, preset: str) -> str:
        """Return what decides how it is learned, wherever that is."""
        if self.cut is None:
            return str(tables.SIZES[preset][self.name])
        return images.task_of(self.name, preset, self.cut).model_dump_json()

    def laid_out(self, preset: str) -> tuple[Federation, Task]:
        """Return who takes part, and what is learned."""
        if self.cut is not None:
            size = self.size(preset)
            return pictures(self.name, size.private, size.held_out), self._task(preset)
        staged, learned = self._scene(preset), tables.SIZES[preset][self.name]
        return staged.federation, tables.task_of(staged, learned, preset, "none", local_updates=1, watched=False)

    def _task(self, preset: str) -> Task:
        """Return what is learned of pictures."""
        task = images.task_of(self.name, preset, self.cut or images.CUT)
        return task.model_copy(update={"epochs": self.size(preset).epochs})

    def _scene(self, preset: str) -> Scene:
        learned = tables.SIZES[preset][self.name]
        return scene(CASES[self.name], learned.train, learned.test)


PICTURES, SHALLOW = Ground("cifar10", 6), Ground("cifar10", 4)
TABLES = (Ground("adult"), Ground("hospital"))

_DP = ("dp_laplace", "dp_gaussian")
_VEILS = (8, 16, 32, 64, 128)
_MIDDLE: tuple[Choice, ...] = tuple({"name": "keystone", "veil": veil} for veil in _VEILS)
_BITS: Choice = {"name": "keystone", "veil": 32, "levels": 2, "sigma": 0.0}
KEYSTONE: tuple[Choice, ...] = (
    {"name": "keystone", "veil": 0},
    *_MIDDLE[1:],
    *({**_BITS, "channels": channels, "grid": grid} for channels, grid in ((16, 2), (8, 1))),
)
"""From light to strong; the last two send 32 bits and 8, which is what a matcher can be refused with."""
KEYSTONE_OF_TABLES: tuple[Choice, ...] = tuple({"name": "keystone", "levels": levels} for levels in (64, 16, 8, 4, 2))
RIVALS: tuple[Choice, ...] = tuple(choice for choice in ALL_DEFENSES if choice["name"] not in ("keystone", "none"))
CORE: tuple[Choice, ...] = (UNDEFENDED, *KEYSTONE, *RIVALS)
"""Ours, and every defense as the matrix has it; a run that is stopped has ours."""
GRIDS: tuple[Choice, ...] = (
    UNDEFENDED,
    *({"name": name, "epsilon": epsilon, "mode": "paper"} for name in _DP for epsilon in (3.0, 2.0)),
    *({"name": "prune", "rate": rate} for rate in (0.90, 0.95)),
    *({"name": "soteria", "rate": rate} for rate in (0.90, 0.99)),
    *({"name": name, "noise": noise} for name in ("invl_dnp", "invl_enp") for noise in (0.08, 0.15)),
    *({"name": "inf2guard", "task": task} for task in (0.75, 0.4)),
    *({"name": "top_k", "kept": kept} for kept in (4 / 32, 2 / 32)),
    *({"name": "quantise", "levels": levels} for levels in (16, 8)),
    *({"name": "bottleneck", "sigma": sigma} for sigma in (1.0, 3.0)),
    {"name": "disco", "weight": 0.3},
    {"name": "nopeek", "weight": 0.3},
    {"name": "hashvfl", "bits": 4},
)
"""The other strengths that the literature reports. Those of CausShield, 20 and 30 rounds, are left out: a training
would take as long as twenty."""
THIN: tuple[Choice, ...] = (
    UNDEFENDED,
    *_MIDDLE,
    *PUBLISHED_DEFENSES[1:],
    {"name": "dp_gaussian", "epsilon": 100.0},
    {"name": "invl_enp", "noise": 0.12},
    {"name": "inf2guard", "task": 0.6},
    {"name": "hashvfl", "bits": 16},
    {"name": "quantise", "levels": 4},
    {"name": "gaussian", "sigma": 1.0},
    {"name": "bottleneck"},
)
"""Those of the published figure and the strongest others."""
OF_TABLES: tuple[Choice, ...] = (UNDEFENDED, *KEYSTONE_OF_TABLES, *RIVALS)
FEW: tuple[Choice, ...] = (UNDEFENDED, {"name": "prune", "rate": 0.99}, *_MIDDLE[:2])
FEW_OF_TABLES: tuple[Choice, ...] = (UNDEFENDED, {"name": "gaussian", "sigma": 1.0}, *KEYSTONE_OF_TABLES[2:4])
