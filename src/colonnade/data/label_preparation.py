"""A label turned into class numbers or a standardised target, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.ids import record_names
from colonnade.data.kinds import is_numeric, numeric_values
from colonnade.data.statistics import LabelStatistics
from colonnade.errors import ConfigError, DataError

LabelKind = Literal["auto", "binary", "multiclass", "regression"]
Class = bool | int | str

MAX_INTEGER_CLASSES = 20
"""Whole-number labels with more distinct values than this are taken for a quantity, unless the task says otherwise."""

_WHERE = "label"
_KINDS = ("auto", "binary", "multiclass", "regression")


class LabelPreparation:
    """What a task's label means, learned from training records.

    `auto` decides from the type: text and booleans are classes; integers are classes if they take at most 20
    distinct values; floats, and integers with more values, are a quantity (regression). Two classes make the task
    `binary`, more make it `multiclass`.

    Example:
        >>> import pandas as pd
        >>> label = LabelPreparation().fit(pd.Series(["no", "yes", "no"]))
        >>> label.kind, label.classes, label.transform(pd.Series(["yes", "no"])).tolist()
        ('binary', ['no', 'yes'], [1, 0])
    """

    def __init__(self, kind: LabelKind = "auto") -> None:
        if kind not in _KINDS:
            raise ConfigError(f"unknown task kind '{kind}'", remedy=f"known: {', '.join(_KINDS)}")
        self._asked: LabelKind = kind
        self._statistics: LabelStatistics | None = None

    def fit(self, label: pd.Series) -> LabelPreparation:
        """Learn the classes, or the scale of the target, from training records; returns itself."""
        check_labels(label)
        if not len(label):
            raise DataError("there are no labels to learn from", where=_WHERE)
        kind = _decide(label) if self._asked == "auto" else self._asked
        if kind == "regression":
            self._statistics = _target_statistics(label)
            return self
        classes = _sorted_classes(_plain(label))
        if len(classes) < 2:
            raise DataError(
                f"all training records have the same label, {classes[0]!r}", where=_WHERE, remedy="check the column"
            )
        if self._asked == "binary" and len(classes) > 2:
            what = f"a binary task has 2 classes, the label has {len(classes)}"
            raise DataError(what, where=_WHERE, remedy="make the task's kind multiclass")
        found: Literal["binary", "multiclass"] = "binary" if len(classes) == 2 else "multiclass"
        self._statistics = LabelStatistics(kind="multiclass" if self._asked == "multiclass" else found, classes=classes)
        return self

    def transform(self, label: pd.Series) -> npt.NDArray[np.int64] | npt.NDArray[np.float32]:
        """Return class numbers (int64) or standardised targets (float32)."""
        check_labels(label)
        if self.kind == "regression":
            scaled = (_numbers(label) - self.statistics.mean) / self.statistics.scale
            return scaled.astype(np.float32)
        numbers = {value: number for number, value in enumerate(self.classes)}
        values = _plain(label)
        unseen = sorted({repr(value) for value in set(values) if value not in numbers})
        if unseen:
            raise DataError(
                f"labels that no training record had: {', '.join(unseen[:5])}",
                where=_WHERE,
                remedy=f"known: {', '.join(repr(value) for value in self.classes[:10])}",
            )
        return np.fromiter((numbers[value] for value in values), dtype=np.int64, count=len(values))

    def inverse(self, prepared: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
        """Return class numbers as the original classes, or standardised targets in their original unit."""
        if self.kind == "regression":
            return np.asarray(prepared, dtype=np.float64) * self.statistics.scale + self.statistics.mean
        return _as_array(self.classes)[np.asarray(prepared)]

    @property
    def statistics(self) -> LabelStatistics:
        """What was learned from the training records."""
        if self._statistics is None:
            raise DataError("this preparation has not been fitted", where=_WHERE, remedy="call fit first")
        return self._statistics

    @property
    def kind(self) -> Literal["binary", "multiclass", "regression"]:
        """What the task turned out to be."""
        return self.statistics.kind

    @property
    def classes(self) -> list[Class]:
        """The original classes in sorted order; empty for regression."""
        return list(self.statistics.classes)

    @property
    def outputs(self) -> int:
        """How many numbers the top model computes: one a class, or one for regression."""
        return 1 if self.kind == "regression" else len(self.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one prepared label: a single number."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned as pure JSON types."""
        return self.statistics.to_dict()

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> LabelPreparation:
        """Rebuild a fitted preparation."""
        statistics = LabelStatistics.from_dict(stored)
        preparation = cls(statistics.kind)
        preparation._statistics = statistics
        return preparation

    def __repr__(self) -> str:
        if self._statistics is None:
            return f"LabelPreparation: {self._asked}, not fitted"
        shown = ", ".join(repr(value) for value in self.classes[:10])
        return f"LabelPreparation: {self.kind}" + (f" with {len(self.classes)} classes: {shown}" if shown else "")


def check_labels(label: pd.Series, where: str = _WHERE) -> None:
    """Raise DataError where a record has no label; the index holds the ids, which the error names."""
    missing = label.index[label.isna().to_numpy()]
    if missing.size:
        what = f"there is no label for {record_names(missing)}"
        raise DataError(what, where=where, remedy="leave records without a label out")


def _decide(label: pd.Series) -> Literal["classes", "regression"]:
    inferred = _inferred(label)
    if inferred == "integer" and not isinstance(label.dtype, pd.CategoricalDtype):
        return "classes" if label.nunique() <= MAX_INTEGER_CLASSES else "regression"
    return "regression" if inferred in ("floating", "decimal", "mixed-integer-float") else "classes"


def _plain(label: pd.Series) -> list[Class]:
    """Return classes as Python values; whole floats count as integers, since a task may ask for classes."""
    inferred = _inferred(label)
    values = label.astype(object).to_numpy()
    if inferred == "string":
        return [str(value) for value in values]
    if inferred == "boolean":
        return [bool(value) for value in values]
    if inferred == "empty":
        return []
    numbers = _numbers(label) if inferred in ("integer", "floating", "mixed-integer-float", "decimal") else None
    if numbers is None or not (numbers == np.floor(numbers)).all():
        what = "numbers that are not whole" if numbers is not None else f"values of type {inferred}"
        raise DataError(f"the label has {what}", where=_WHERE, remedy="classes are text, booleans or integers")
    return [int(value) for value in values]


def _sorted_classes(values: list[Class]) -> list[Class]:
    return sorted(set(values))  # of one type: see _plain


def _as_array(classes: Sequence[Class]) -> npt.NDArray[Any]:
    """Return classes as an array of their own type; of Python objects where numpy has none, as for huge integers."""
    if isinstance(classes[0], str):
        return np.array(classes, dtype=object)
    try:
        return np.array(classes, dtype=type(classes[0]))
    except OverflowError:  # codes of 20 digits need not fit in 64 bits
        return np.array(classes, dtype=object)


def _target_statistics(label: pd.Series) -> LabelStatistics:
    from sklearn.preprocessing import StandardScaler

    with np.errstate(over="ignore", invalid="ignore"):
        scaler = StandardScaler().fit(_numbers(label)[:, None])
    mean, scale = float(scaler.mean_[0]), float(scaler.scale_[0])
    if not np.isfinite([mean, scale, scaler.var_[0]]).all():
        raise DataError("the label's values are too large to be scaled", where=_WHERE)
    return LabelStatistics(kind="regression", classes=[], mean=mean, scale=scale)


def _numbers(label: pd.Series) -> npt.NDArray[np.float64]:
    values = label.astype(object) if isinstance(label.dtype, pd.CategoricalDtype) else label
    if len(values) and not is_numeric(values):
        raise DataError("a regression label must be numbers", where=_WHERE, remedy="or make the task's kind multiclass")
    numbers = numeric_values(values)
    if np.isinf(numbers).any():
        raise DataError("the label has infinite values", where=_WHERE)
    return numbers


def _inferred(label: pd.Series) -> str:
    values = label.dtype.categories if isinstance(label.dtype, pd.CategoricalDtype) else label
    return pd.api.types.infer_dtype(values, skipna=True)
