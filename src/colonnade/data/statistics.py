"""What a fitted preparation remembers of the training records: small, typed, and JSON without loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError

from colonnade.errors import RunError

Model = TypeVar("Model", bound="Statistics")
Positive = Annotated[float, Field(gt=0)]


class Statistics(BaseModel):
    """Base of all statistics: unknown keys and infinite numbers are refused when read back."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Return pure JSON types; Python writes floats so that they read back exactly."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls: type[Model], stored: Mapping[str, Any]) -> Model:
        """Read statistics back; RunError when they are damaged."""
        try:
            return cls.model_validate(dict(stored))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise RunError(f"stored preparation is damaged at '{field}': {first['msg']}") from None


class NumericColumn(Statistics):
    """A column of numbers: what a missing value becomes, and how values are scaled."""

    name: str
    median: float
    mean: float
    scale: Positive
    had_missing: bool


class CategoryColumn(Statistics):
    """A column of categories: those with an output of their own (None: missing) and those that share one."""

    name: str
    kind: Literal["text", "code"]
    frequent: list[StrictStr | StrictInt | None]
    rare: list[StrictStr | StrictInt]


class TableStatistics(Statistics):
    """All columns of a table."""

    preparation: Literal["table"] = "table"
    numeric: list[NumericColumn]
    categories: list[CategoryColumn]


class ImageStatistics(Statistics):
    """Per-channel mean and standard deviation of images in [0, 1]."""

    preparation: Literal["images"] = "images"
    shape: tuple[int, int, int]
    mean: list[float]
    scale: list[Positive]


class LabelStatistics(Statistics):
    """The classes of a label, or the scale of a regression target."""

    preparation: Literal["label"] = "label"
    kind: Literal["binary", "multiclass", "regression"]
    classes: list[StrictBool | StrictInt | StrictStr]
    mean: float = 0.0
    scale: Positive = 1.0
