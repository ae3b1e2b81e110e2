"""Small federations, models and attacks for the tests of the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import colonnade as co
from colonnade.attack import Attack, Evidence, Insider, Knowledge, Strength

PARTIES = {"clinic": ["age"], "lab": ["glucose", "insulin", "city"], "insurer": ["claims"]}
SETTINGS: dict[str, Any] = {
    "epochs": 2, "batch_size": 32, "network": {"family": "mlp", "hidden": (8, 8)},
    "split": {"train": 0.5, "validation": 0.1, "test": 0.4},
}  # fmt: skip


def table(records: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, records),
            "glucose": rng.normal(5, 1, records),
            "insulin": np.where(rng.random(records) < 0.1, np.nan, rng.normal(10, 3, records)),
            "city": rng.choice(["north", "south", "west"], records, p=[0.6, 0.3, 0.1]),
            "claims": rng.poisson(2, records).astype(float),
        },
        index=[f"patient-{i:06d}" for i in range(records)],
    )
    risk = (frame["age"] - 50) / 10 + (frame["glucose"] - 5) + (frame["claims"] - 2)
    return frame.assign(outcome=np.where(risk > 0, "ill", "well"))


def table_federation(records: int = 240) -> co.Federation:
    return co.Federation.from_frame(table(records), PARTIES, label=("clinic", "outcome"))


def table_model(defense: Any = "none", federation: co.Federation | None = None, **settings: Any) -> co.VerticalModel:
    return co.train(federation or table_federation(), defense, progress=False, **{**SETTINGS, **settings})


def pictures(records: int = 120, seed: int = 0, channels: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Smooth random pictures, whose class is which half is brighter."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((records, channels, 4, 4))
    images = coarse.repeat(2, axis=2).repeat(2, axis=3).astype(np.float32)
    return images, (images[..., :4].mean((1, 2, 3)) > images[..., 4:].mean((1, 2, 3))).astype(int)


def picture_federation(records: int = 120, channels: int = 1) -> co.Federation:
    images, labels = pictures(records, channels=channels)
    return co.Federation.from_images(images, labels, ["left", "right"])


def picture_model(federation: co.Federation | None = None, defense: Any = "none") -> co.VerticalModel:
    return co.train(federation or picture_federation(), defense, progress=False, **SETTINGS)


class Linear(Attack):
    """Least squares from true pairs."""

    name: ClassVar[str] = "linear"
    strength: ClassVar[Strength] = "oracle"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.AUXILIARY_RECORDS, Knowledge.AUXILIARY_UPLOADS}
    )
    takes_repeats = False

    def fit(self, evidence: Evidence) -> None:
        self.shape = evidence.auxiliary_records.shape[1:]
        known = with_one(self.seen(evidence.auxiliary_uploads))
        self.weights = torch.linalg.lstsq(known, evidence.auxiliary_records.flatten(1), driver="gelsd").solution

    def reconstruct(self, uploads: Tensor) -> Tensor:
        return (with_one(self.seen(uploads)) @ self.weights).unflatten(1, self.shape)

    def seen(self, uploads: Tensor) -> Tensor:
        return uploads.mean(1) if self.takes_repeats else uploads


class Averaging(Linear):
    """The same, from several uploads of each record."""

    name: ClassVar[str] = "averaging"
    takes_repeats = True


class Curious(Attack):
    """Asks for what a test gives it, and remembers what it got; guesses the mean record."""

    name: ClassVar[str] = "curious"
    seen: ClassVar[list[Evidence]] = []

    def __init__(self, *knowledge: Knowledge) -> None:
        super().__init__()
        self.knowledge = frozenset({Knowledge.UPLOADS, *knowledge})

    def fit(self, evidence: Evidence) -> None:
        self.seen.append(evidence)
        self.shape = evidence.input_shape

    def reconstruct(self, uploads: Tensor) -> Tensor:
        return torch.zeros(len(uploads), *self.shape)


class Spy(Insider):
    """Sends no gradient at all, so that bottoms stay as they began; guesses the mean of the auxiliary records."""

    name: ClassVar[str] = "spy"
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(
        {Knowledge.UPLOADS, Knowledge.LABELS, Knowledge.AUXILIARY_RECORDS, Knowledge.GRADIENTS_CONTROL}
    )
    diary: ClassVar[dict[str, Any]] = {}

    def begin(self, top: torch.nn.Module, shapes: Mapping[str, tuple[int, ...]], outputs: int) -> None:
        self.diary.clear()
        self.diary.update(steps=[], shapes=dict(shapes), finished=False)

    def watch(
        self, step: int, uploads: Mapping[str, Tensor], labels: Tensor, honest: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        self.diary["steps"].append(step)
        return {party: torch.zeros_like(gradient) for party, gradient in honest.items()}

    def finish(self) -> None:
        self.diary["finished"] = True

    def reconstruct_all(self, uploads: Mapping[str, Tensor], labels: Tensor | None = None) -> dict[str, Tensor]:
        self.diary.update(uploads=dict(uploads), labels=labels)
        means = {party: held.auxiliary_records.mean(0) for party, held in self.evidence.items()}
        return {party: mean.expand(len(uploads[party]), *mean.shape) for party, mean in means.items()}


def with_one(uploads: Tensor) -> Tensor:
    return torch.cat([uploads.flatten(1), torch.ones(len(uploads), 1)], dim=1)


def row(result: co.AuditResult, **keys: Any) -> dict[str, Any]:
    """The one row of a result with these keys."""
    frame = result.frame
    for name, value in keys.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1, frame
    return frame.iloc[0].to_dict()
