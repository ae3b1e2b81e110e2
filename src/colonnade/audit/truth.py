"""What guesses are held against: the true records in units that people read, and what a blind guess would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from colonnade.data.preparation import FeaturePreparation, ImagePreparation
from colonnade.data.statistics import CategoryColumn
from colonnade.errors import DataError
from colonnade.measure.reconstruct import Floats

LARGEST_GUESS = 1e12
"""Standardised numbers are a few units: who guesses more has a mistake, and squares of far more leave their type."""


@dataclass(frozen=True)
class Column:
    """One column of a table, and which of the prepared numbers it became."""

    name: str
    kind: Literal["number", "category"]
    places: slice


@dataclass(frozen=True)
class Truth:
    """The targets' records, images as pixels from 0 to 1 and tables as standardised numbers.

    Attributes:
        records: one a target.
        blind: the mean of the auxiliary records: the guess of one who saw no upload.
        image: whether records are pictures.
        columns: of a table.
    """

    records: Floats
    blind: Floats
    image: bool
    columns: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.records)


def truth_of(preparation: FeaturePreparation, targets: npt.ArrayLike, auxiliary: npt.ArrayLike) -> Truth:
    """Return the truth about one party's prepared targets; the blind guess is the mean of its auxiliary records."""
    mean = np.asarray(auxiliary, dtype=np.float64).mean(axis=0, keepdims=True)
    return Truth(
        natural(preparation, targets),
        natural(preparation, mean)[0],
        isinstance(preparation, ImagePreparation),
        columns_of(preparation),
    )


def natural(preparation: FeaturePreparation, prepared: npt.ArrayLike) -> Floats:
    """Return prepared records as pixels clamped to 0 to 1, or as they are where they are a table's numbers."""
    values = np.asarray(prepared, dtype=np.float64)
    if not isinstance(preparation, ImagePreparation):
        return values
    mean, scale = (
        np.array(numbers)[:, None, None] for numbers in (preparation.statistics.mean, preparation.statistics.scale)
    )
    pixels: Floats = np.clip(values * scale + mean, 0, 1)
    return pixels


def side_by_side(parts: Mapping[str, Floats]) -> Floats:
    """Lay the parties' strips side by side, as they lay in the picture."""
    return np.concatenate(list(parts.values()), axis=-1)


def joined(truths: Mapping[str, Truth]) -> Truth | None:
    """Return the truth about whole pictures; None where the parties do not hold strips of one height."""
    if len(truths) < 2 or not all(truth.image for truth in truths.values()):
        return None
    if len({truth.blind.shape[:2] for truth in truths.values()}) > 1:
        return None
    records = side_by_side({party: truth.records for party, truth in truths.items()})
    return Truth(records, side_by_side({party: truth.blind for party, truth in truths.items()}), image=True)


def columns_of(preparation: FeaturePreparation) -> tuple[Column, ...]:
    """Return a table's columns in the order of the prepared numbers; the marks of missing numbers are left out."""
    if isinstance(preparation, ImagePreparation):
        return ()
    numeric, categories = preparation.statistics.numeric, preparation.statistics.categories
    found = [Column(column.name, "number", slice(place, place + 1)) for place, column in enumerate(numeric)]
    start = len(numeric) + sum(column.had_missing for column in numeric)
    for column in categories:
        stop = start + _width(column)
        found.append(Column(column.name, "category", slice(start, stop)))
        start = stop
    return tuple(found)


def check_guesses(guesses: npt.ArrayLike, shape: tuple[int, ...], where: str) -> Floats:
    """Return guesses as numbers if there is one sensible guess for each target, else say what is wrong with them."""
    given = np.asarray(guesses)
    if given.dtype.kind not in "fiu":
        raise DataError(f"guesses are of type {given.dtype}", where=where, remedy="give numbers")
    if given.shape != shape:
        remedy = f"give one guess for each of {shape[0]} uploads, shaped like a record"
        raise DataError(f"guesses have shape {given.shape}, not {shape}", where=where, remedy=remedy)
    with np.errstate(over="ignore"):  # what longer types hold may be infinite here, which is told next
        values = given.astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError("guesses hold infinite numbers or no numbers", where=where, remedy="give finite numbers")
    if np.abs(values).max(initial=0) > LARGEST_GUESS:
        remedy = "give standardised numbers, as the auxiliary records are"
        raise DataError(f"guesses hold numbers beyond {LARGEST_GUESS:g}", where=where, remedy=remedy)
    return values


def _width(column: CategoryColumn) -> int:
    return len(column.frequent) + bool(column.rare)
