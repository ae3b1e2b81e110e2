"""The task all parties agree on: what is learned, with which network, for how long."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from colonnade.errors import ConfigError

Fraction = float


class Settings(BaseModel):
    """Base of every settings block: unknown keys are errors, values never change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NetworkSettings(Settings):
    """The network and where it is cut.

    Attributes:
        family: `mlp` for tables; `mnist_net`, `resnet18`, `resnet18_narrow`, `resnet34` for images.
        cut: how many modules stay at the passive parties; None takes the family's usual cut.
        hidden: widths of the hidden layers of an `mlp`.
        join: how uploads are joined: `width` lays feature maps side by side, `features` concatenates vectors.
    """

    family: Literal["mlp", "mnist_net", "resnet18", "resnet18_narrow", "resnet34"] = "mlp"
    cut: int | None = Field(default=None, ge=1)
    hidden: tuple[int, ...] = (64, 32, 32)
    join: Literal["auto", "width", "features"] = "auto"


class OptimizerSettings(Settings):
    """How weights move."""

    name: Literal["sgd", "adam", "adamw"] = "adam"
    learning_rate: float = Field(default=1e-3, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["constant", "cosine", "step"] = "constant"
    warmup: int = Field(default=0, ge=0, description="epochs of linear warm-up")


class SplitSettings(Settings):
    """Which share of the aligned records is trained on, validated on and tested on."""

    train: Fraction = Field(default=0.8, gt=0, le=1)
    validation: Fraction = Field(default=0.1, ge=0, lt=1)
    test: Fraction = Field(default=0.1, ge=0, lt=1)
    column: str | None = Field(
        default=None, description="column of the active party that already says train/validation/test"
    )

    @model_validator(mode="after")
    def _sum_to_one(self) -> SplitSettings:
        if abs(self.train + self.validation + self.test - 1.0) > 1e-9:
            raise ValueError("train, validation and test must add up to 1")
        return self


class WeightSettings(Settings):
    """How much each party's part of the task counts in what it is told to improve; a plain name is the strategy.

    Attributes:
        strategy: `none` sends plain gradients; `uniform` divides them by the number of parties that upload; `shapley`
            weighs each party by what it brings to the task just now. Weights sum to 1.
        every: steps between two looks at what each party brings.
        floor: no weight falls below this before all are made to sum to 1; at most one part in the number of parties.
            None is half of that, and never above .05.
        smoothing: share of the old weight that stays at each look.
    """

    strategy: Literal["none", "uniform", "shapley"] = "none"
    every: int = Field(default=10, ge=1)
    floor: float | None = Field(default=None, ge=0, le=1)
    smoothing: float = Field(default=0.5, ge=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """A plain name is the strategy."""
        return {"strategy": given} if isinstance(given, str) else given

    def require_room(self, parties: int) -> None:
        """Refuse a floor that all `parties` that upload can't have at once: their weights sum to 1."""
        if self.strategy != "shapley" or self.floor is None or self.floor * parties <= 1 + 1e-9:
            return
        what = f"{parties} parties can't all weigh {self.floor:g} or more: their weights sum to 1"
        remedy = f"give at most {math.floor(1000 / parties) / 1000:g}"
        raise ConfigError(what, where="task.weights.floor", remedy=remedy)


class Task(Settings):
    """What the federation learns together."""

    kind: Literal["auto", "binary", "multiclass", "regression"] = "auto"
    network: NetworkSettings = NetworkSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    split: SplitSettings = SplitSettings()
    epochs: int = Field(default=20, ge=1)
    batch_size: int = Field(default=256, ge=1)
    local_updates: int = Field(
        default=1, ge=1, description="steps that every party takes on a batch between two exchanges"
    )
    labels: Literal["server", "shared"] = Field(
        default="server",
        description="who sees labels: the active party alone, or all parties, with the top model and all uploads",
    )
    weights: WeightSettings = WeightSettings()
    patience: int | None = Field(
        default=None, ge=1, description="stop after so many epochs without a better validation loss"
    )
    augment: Literal["none", "shift"] = Field(
        default="none",
        description="what changes pictures afresh each time they are trained on: shift moves them a little",
    )
    missing: Literal["drop", "impute"] = "drop"
    protection: str | None = Field(
        default=None,
        description="the defense every passive party must use, alone or among layers; None leaves it to each",
    )
    precision: Literal["float32", "mixed"] = "float32"
    checkpoint_every: int = Field(default=100, ge=1, description="steps between checkpoints")

    @model_validator(mode="after")
    def _patience_needs_validation(self) -> Task:
        if self.patience is not None and self.split.validation == 0:
            raise ValueError("patience needs validation records: set split.validation above 0")
        return self
