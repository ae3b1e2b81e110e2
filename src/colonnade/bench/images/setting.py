"""How victims are trained and attacked under each preset, the same in every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.federation.task import Task

Choice = Mapping[str, Any]
"""`{"name": ..., parameters...}` of a defense or an attack."""

SEEDS: dict[str, Sequence[int]] = {
    "smoke": (0,),
    "small": range(3),
    "medium": range(3),
    "default": range(3),
    "paper": range(5),
}
FAMILIES = {"mnist": "mnist_net", "emnist": "mnist_net"}
QUICK, NARROW = "mnist_net", "resnet18_narrow"
"""The network of every smoke run: a ResNet keeps a processor busy for minutes and shows no more of how things fit; and
that of coloured pictures under `small` and `medium`."""
REDUCED = ("small", "medium")
"""Presets with a narrow network and attacks that are shorter than their own default."""
CUT = 6
UNDEFENDED: Choice = {"name": "none"}
FOUND_BY_UNSPLIT = 0.1
"""Mean squared error up to which the paper counts a picture as reconstructed."""


@dataclass(frozen=True)
class Size:
    """How much is trained on, attacked and tried.

    Attributes:
        private: pictures that are trained on; None takes all there are.
        held_out: pictures that are not; None takes twice the published test pictures.
        epochs: of training.
        targets: pictures that are attacked.
        attack: preset of attacks that have one; those of `REDUCED` are none of theirs, see `_SHORTER`.
        batch_size: records a step.
    """

    private: int | None
    held_out: int | None
    epochs: int
    targets: int
    attack: str
    batch_size: int = 128


SIZES = {
    "smoke": Size(128, 64, 1, 16, "smoke", 32),
    "small": Size(2000, 2000, 8, 100, "small", 64),
    "medium": Size(None, None, 6, 250, "medium"),
    "default": Size(None, None, 15, 1000, "default"),
    "paper": Size(None, None, 60, 1000, "paper"),
}


def task_of(dataset: str, preset: str, cut: int = CUT, missing: str = "drop") -> Task:
    """Return what victims learn: the network, cut as published, and a schedule that was tuned without a defense.

    Moving pictures by up to two pixels took an undefended network from 63 to 73 % of CIFAR-10 in a first look (one
    seed, 30 epochs). Without it noise and narrow uploads look free: they keep it from learning pictures by heart.

    The published one (SGD with a rate of .0001) would not get a ResNet from scratch anywhere in so many epochs.
    """
    return Task.model_validate(
        {
            "kind": "multiclass",
            "epochs": SIZES[preset].epochs,
            "batch_size": SIZES[preset].batch_size,
            "network": {"family": _family(dataset, preset), "cut": cut},
            "optimizer": {
                "name": "sgd",
                "learning_rate": 0.05,
                "momentum": 0.9,
                "weight_decay": 5e-4,
                "schedule": "cosine",
            },
            "split": {"train": 0.8, "validation": 0.0, "test": 0.2},
            "augment": "none" if preset == "smoke" else "shift",
            "missing": missing,
            "precision": "mixed",
        }
    )


def size_note(dataset: str, preset: str) -> str:
    """Return in words what victims of this preset are: presets change, and a result must tell what it was made with.

    >>> size_note("cifar10", "small")
    'small: 2,000 pictures trained on, 2,000 held out, 8 epochs of batches of 64, resnet18_narrow; 100 attacked'
    """
    size = SIZES[preset]
    trained = pictures_note(size.private, size.held_out, task_of(dataset, preset))
    return f"{preset}: {trained}; {size.targets:,} attacked"


def pictures_note(private: int | None, held_out: int | None, task: Task) -> str:
    """Return in words how many pictures are learned, for how long and by which network; None are all there are."""
    used, kept = ("all" if count is None else f"{count:,}" for count in (private, held_out))
    return (
        f"{used} pictures trained on, {kept} held out, {task.epochs} epochs of batches of {task.batch_size}, "
        f"{task.network.family}"
    )


def _family(dataset: str, preset: str) -> str:
    coloured = NARROW if preset in REDUCED else "resnet18"
    return QUICK if preset == "smoke" else FAMILIES.get(dataset, coloured)


def attacks_of(names: Sequence[str], preset: str) -> list[Choice]:
    """Return the attacks of these names: that of an attack, or with a variant, as in `decoder-strong`.

    UnSplit searches shorter than its own default: see its docstring.

    >>> attacks_of(["urvfl-sync", "ridge"], "default")
    [{'name': 'urvfl', 'preset': 'default', 'mixed': True, 'sync': True}, {'name': 'ridge'}]
    """
    return [_attack(*name.partition("-")[::2], SIZES[preset].attack) for name in names]


_SHORTER: dict[str, dict[str, Choice]] = {
    "small": {
        "decoder": {"epochs": 20},
        "urvfl": {"decoder_width": 32, "pretrain_epochs": 20},
        "sdar": {"decoder_width": 32, "discriminator_width": 64, "updates": 1, "batch_size": 64},
        "pcat": {"decoder_width": 32, "inverse_epochs": 20, "refine_steps": 20},
        "fsha": {"decoder_width": 32, "critic_width": 16, "critic_steps": 1},
    },
    "medium": {
        "urvfl": {"pretrain_epochs": 20},
        "sdar": {"discriminator_width": 128, "updates": 1},
        "pcat": {"inverse_epochs": 20, "refine_steps": 50},
        "fsha": {"critic_width": 32, "critic_steps": 2},
    },
}
"""What attacks of reduced presets have less of than those of `default`: each takes about as long as two trainings."""


_WITHOUT_PRESETS: dict[str, Choice] = {"ridge": {}, "witness": {"mixed": True}}


def _attack(name: str, variant: str, preset: str) -> Choice:
    if name in _WITHOUT_PRESETS:
        return {"name": name, **_WITHOUT_PRESETS[name]}
    shorter = _SHORTER.get(preset, {}).get(name, {})
    if name == "unsplit" and preset in (*REDUCED, "default"):
        preset = "smoke"  # a longer search finds less, and a thousand pictures take minutes
    if preset in REDUCED:
        preset = "default"
    if name == "decoder":
        return {
            "name": name,
            "preset": variant or "weak",
            "mixed": True,
            **({"epochs": 1} if preset == "smoke" else shorter),
        }
    return {"name": name, "preset": preset, "mixed": True, **shorter, **({variant: True} if variant else {})}


PUBLISHED_DEFENSES: tuple[Choice, ...] = (
    UNDEFENDED,
    {"name": "dp_laplace", "epsilon": 1.0, "mode": "paper"},
    {"name": "disco", "weight": 0.6},
    {"name": "nopeek", "weight": 0.6},
    {"name": "soteria", "rate": 0.95},
    {"name": "prune", "rate": 0.99},
    {"name": "ressfl", "weight": 0.3},
    {"name": "causshield"},
)
"""Those of Fig. 6, with its strengths."""

ALL_DEFENSES: tuple[Choice, ...] = (
    *PUBLISHED_DEFENSES,
    {"name": "dp_laplace", "epsilon": 100.0},
    {"name": "dp_gaussian", "epsilon": 1.0, "mode": "paper"},
    {"name": "dp_gaussian", "epsilon": 100.0},
    {"name": "invl_dnp", "noise": 0.12},
    {"name": "invl_enp", "noise": 0.12},
    {"name": "inf2guard", "task": 0.6},
    {"name": "hashvfl", "bits": 16},
    {"name": "fedpass", "reach": 10},
    {"name": "prifu", "threshold": 0.1},
    {"name": "d3sfl", "weight": 1.0},
    {"name": "top_k", "kept": 0.05},
    {"name": "quantise", "levels": 4},
    {"name": "gaussian", "sigma": 1.0},
    {"name": "bottleneck"},
    {"name": "keystone"},
)
"""Every defense that there is, once or twice."""

_QUICK_DEFENSES: dict[str, dict[str, Choice]] = {
    "small": {"causshield": {"surrogate_epochs": 2}, "ressfl": {"warm_up": 5}, "soteria": {"probes": 8}},
    "medium": {"causshield": {"surrogate_epochs": 5}, "ressfl": {"warm_up": 5}, "soteria": {"probes": 8}},
}
"""What defenses of reduced presets have less of: what they do before training, or for each probe, would take longer
than all the rest."""


PUBLISHED_ROUNDS = {"mnist": 20, "emnist": 20}
"""M of CausShield under `paper`, for handwritten digits; 30 for everything else."""


def defenses_of(choices: Sequence[Choice], preset: str, dataset: str = "cifar10") -> list[Choice]:
    """Return the defenses as this preset has them.

    >>> defenses_of([{"name": "causshield"}, {"name": "prune"}], "small")
    [{'name': 'causshield', 'surrogate_epochs': 2}, {'name': 'prune'}]
    >>> defenses_of([{"name": "causshield"}], "paper", "mnist")
    [{'rounds': 20, 'name': 'causshield'}]
    """
    if preset == "paper":
        published = {"rounds": PUBLISHED_ROUNDS.get(dataset, 30)}
        return [{**published, **one} if one["name"] == "causshield" else one for one in choices]
    return quicker(choices, preset)


def quicker(choices: Sequence[Choice], preset: str) -> list[Choice]:
    """Return the defenses with less of what takes them long where the preset is a reduced one; else as they are."""
    quick = _QUICK_DEFENSES.get(preset, {})
    return [{**one, **quick.get(one["name"], {})} for one in choices]
