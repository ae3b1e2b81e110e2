"""How much the equilibrium benches train and attack under each preset, the same for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from colonnade.bench.equilibrium.sets import Scene
from colonnade.federation.task import Task

SEEDS: dict[str, Sequence[int]] = {"smoke": (0,), "default": range(3), "paper": range(5)}


@dataclass(frozen=True)
class Size:
    """How much is trained on and attacked.

    Attributes:
        train: records that are trained on; None takes all.
        test: records that are not; half of them the attackers learn from.
        epochs: of training.
        attackers: fresh ones, the best of which counts.
        rate: learning rate; the best of a few for the undefended run, or nearly, and for ours.
    """

    train: int | None
    test: int | None
    epochs: int
    attackers: tuple[str, ...] = ("linear", "mlp", "boosting", "conv")
    rate: float = 2e-3


_SMOKE = Size(512, 240, 1, ("linear",))
SIZES: dict[str, dict[str, Size]] = {
    "smoke": {
        "adult": _SMOKE,
        "modalities": _SMOKE,
        "hospital": replace(_SMOKE, epochs=4),  # local updates divide them
        "faces": Size(64, 80, 1, ("linear",)),
    },
    "default": {
        "adult": Size(None, None, 10),
        "modalities": Size(None, None, 20),
        "hospital": Size(None, 12_000, 4, rate=4e-3),
        "faces": Size(None, None, 40, rate=1e-3),
    },
    "paper": {
        "adult": Size(None, None, 30),
        "modalities": Size(None, None, 60),
        "hospital": Size(None, None, 8, rate=4e-3),
        "faces": Size(None, None, 80, rate=1e-3),
    },
}


def task_of(scene: Scene, size: Size, preset: str, weights: str, *, local_updates: int, watched: bool) -> Task:
    """Return what is learned, and how: Adam with a cosine schedule.

    Args:
        scene: who takes part.
        size: of the run.
        preset: a smoke run on pictures takes a small network.
        weights: how the active party weighs the parties.
        local_updates: steps on each batch; exchanges become as many times fewer, so it divides the epochs.
        watched: whether records are held back and scored after every epoch.
    """
    epochs, over = divmod(size.epochs, local_updates)
    assert not over, "a round more or less, and runs could not be compared"
    validation = 0.1 if watched else 0.0
    family = ("mnist_net" if preset == "smoke" else "resnet18") if scene.pictures else "mlp"
    return Task.model_validate(
        {
            "kind": "binary" if scene.classes == 2 else "multiclass",
            "epochs": epochs,
            "batch_size": 128 if scene.pictures else 256,
            "network": {"family": family, **({"cut": 6} if scene.pictures else {})},
            "optimizer": {"learning_rate": size.rate, "schedule": "cosine"},
            "split": {"train": 0.9 - validation, "validation": validation, "test": 0.1},
            "augment": "shift" if scene.pictures and preset != "smoke" else "none",
            "precision": "mixed" if scene.pictures else "float32",
            "local_updates": local_updates,
            "weights": {"strategy": weights},
        }
    )
