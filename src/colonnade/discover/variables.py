"""A party's columns as discovery sees them: variables of four kinds, with what encoders read and decoders predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.kinds import category_values, column_kind, numeric_values
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.knowledge import VariableKind

Missing = Literal["refuse", "impute"]
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

BOUND = 8.0
"""Standardised values are clipped here: one outlier must neither rule a gradient nor overflow the fixed point."""
MAX_LEVELS = 50
MAX_COUNT_LEVELS = 30
MAX_MEAN_COUNT = 50.0
"""A Poisson decoder is steeper the larger the counts; beyond this mean gradient steps of .01 do not settle."""
_LINEAR = 1e-10


@dataclass(frozen=True)
class Variable:
    """One variable of a party.

    Attributes:
        name: the column's name.
        kind: which likelihood fits it.
        columns: where its encoded columns stand in the party's plain matrix; more than one for categorical only.
        levels: the values that 0, 1, … of the target stand for; empty for continuous variables and counts.
    """

    name: str
    kind: VariableKind
    columns: slice
    levels: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many encoded columns it has."""
        return int(self.columns.stop - self.columns.start)


@dataclass(frozen=True)
class PartyColumns:
    """What a party takes into discovery.

    Attributes:
        variables: in the order of the frame; their columns lie side by side in `plain`.
        plain: (n, p) what the encoders read; 0 where the value is missing.
        target: (n, d) what the decoders predict: the plain value, 0 or 1, the count, or the level's number.
        observed: (n, d) False where the value is missing.
        raw_variance: (d,) variances before standardising.
    """

    variables: tuple[Variable, ...]
    plain: Array
    target: Array
    observed: Mask
    raw_variance: Array

    def take(self, rows: npt.NDArray[np.int64]) -> PartyColumns:
        """Return these records as they were prepared: kinds, levels and scales stay those of all records."""
        return replace(self, plain=self.plain[rows], target=self.target[rows], observed=self.observed[rows])


@dataclass(frozen=True)
class _Encoded:
    """One column on its way: `values` (n,) are numbers or level numbers, arbitrary where not observed."""

    kind: VariableKind
    values: Array
    observed: Mask
    levels: tuple[str, ...]


def prepare_columns(
    frame: pd.DataFrame,
    kinds: Mapping[str, VariableKind] | None = None,
    missing: Missing = "refuse",
    standardise: bool = True,
    where: str = "party",
) -> PartyColumns:
    """Turn a party's table into variables.

    A kind that is not given is guessed: two values are binary, text is categorical, whole numbers from 0 with at
    most 30 different values and a mean of at most 50 are counts, everything else is continuous.

    Args:
        frame: the party's columns, one row a record.
        kinds: the kinds a person has stated, by column.
        missing: `refuse` raises at a missing value; `impute` puts the mean and lets no decoder learn from it.
        standardise: False centres only: every column keeps its own scale and is not clipped.
        where: the party's name, for errors.

    Raises:
        DataError: a column cannot be used; names the party, the column and the remedy.

    Example:
        >>> frame = pd.DataFrame({"age": [31.5, 47.0, 60.2, 18.9], "town": ["Bern", "Chur", "Sion", "Bern"]})
        >>> [variable.kind for variable in prepare_columns(frame).variables]
        ['continuous', 'categorical']
    """
    kinds = dict(kinds or {})
    _check_frame(frame, kinds, where)
    encoded = {str(name): _encode(frame[name], kinds.get(str(name)), missing, where) for name in frame.columns}
    variables: list[Variable] = []
    blocks: list[Array] = []
    variances: list[float] = []
    start = 0
    for name, column in encoded.items():
        block, variance = _plain(name, column, standardise, where)
        variables.append(Variable(name, column.kind, slice(start, start + block.shape[1]), column.levels))
        blocks.append(block)
        variances.append(variance)
        start += block.shape[1]
    plain = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    _enough_records(len(frame), plain.shape[1], where)
    _no_duplicates(encoded, where)
    target = [
        block[:, 0] if column.kind == "continuous" else np.where(column.observed, column.values, 0.0)
        for block, column in zip(blocks, encoded.values(), strict=True)
    ]
    observed = np.stack([column.observed for column in encoded.values()], axis=1)
    return PartyColumns(tuple(variables), plain, np.stack(target, axis=1), observed, np.array(variances))


def measures(columns: PartyColumns) -> dict[str, float]:
    """Return each variable's variance before standardising, by name: what varsortability is computed from."""
    return {variable.name: float(v) for variable, v in zip(columns.variables, columns.raw_variance, strict=True)}


def _check_frame(frame: pd.DataFrame, kinds: Mapping[str, VariableKind], where: str) -> None:
    names = [str(name) for name in frame.columns]
    if not names:
        raise DataError("the party has no columns", where=where, remedy="give it at least one column, or leave it out")
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"column '{name}' occurs twice", where=where, remedy="rename or drop one of them")
    for name, kind in kinds.items():
        if name not in names:
            raise ConfigError(f"a kind is stated for '{name}', no column", where=where, remedy=nearest(name, names))
        if kind not in get_args(VariableKind):
            raise ConfigError(
                f"column '{name}' has the unknown kind '{kind}'",
                where=where,
                remedy=nearest(str(kind), get_args(VariableKind)),
            )
    _enough_records(len(frame), len(names), where)


def _enough_records(records: int, columns: int, where: str) -> None:
    if records < columns:
        raise DataError(
            f"there are {records} records for {columns} encoded columns",
            where=where,
            remedy="bring more records, or leave columns out",
        )


def _encode(column: pd.Series, stated: VariableKind | None, missing: Missing, where: str) -> _Encoded:
    found = column_kind(column, where=where)
    if found is None:
        raise DataError(f"every value of column '{column.name}' is missing", where=where, remedy="leave it out")
    observed = column.notna().to_numpy()
    if found == "numeric":
        values = numeric_values(column)
        observed = ~np.isnan(values)
        _check_finite(str(column.name), values, where)
    else:
        # Text sorts as text and codes as numbers, so that level numbers do not depend on the order of records.
        texts = category_values(column, found)
        distinct = sorted(set(texts[observed]))
        numbers = {value: float(number) for number, value in enumerate(distinct)}
        values = np.array([numbers.get(value, np.nan) for value in texts])
    if missing == "refuse" and not observed.all():
        raise DataError(
            f"column '{column.name}' has {int((~observed).sum())} missing values",
            where=where,
            remedy="set missing='impute', or drop those records",
        )
    seen = np.unique(values[observed])
    levels = tuple(_number_name(v) for v in seen) if found == "numeric" else tuple(str(v) for v in distinct)
    kind = stated or _guess(found == "numeric", seen, values[observed])
    _check_kind(str(column.name), kind, found == "numeric", values[observed], where)
    if kind in ("binary", "categorical"):
        return _Encoded(kind, np.searchsorted(seen, values).astype(np.float64), observed, levels)
    return _Encoded(kind, values, observed, ())


def _guess(numeric: bool, seen: Array, values: Array) -> VariableKind:
    if len(seen) == 2:
        return "binary"
    if not numeric:
        return "categorical"
    few = len(seen) <= MAX_COUNT_LEVELS and _are_counts(seen) and values.mean() <= MAX_MEAN_COUNT
    return "count" if few else "continuous"


def _are_counts(seen: Array) -> bool:
    return bool(seen[0] >= 0 and (seen == np.floor(seen)).all())


def _number_name(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _check_finite(name: str, values: Array, where: str) -> None:
    if np.isinf(values).any():
        raise DataError(
            f"column '{name}' has infinite values", where=where, remedy="replace them, or make them missing"
        )
    # Squares must stay finite: variances are taken of what is accepted here.
    if np.nanmax(np.abs(values)) > 1e150:
        raise DataError(f"values of column '{name}' are too large to be scaled", where=where, remedy="rescale it")


def _check_kind(name: str, kind: VariableKind, numeric: bool, values: Array, where: str) -> None:
    problem, seen = None, np.unique(values)
    if len(seen) == 1 or (numeric and np.ptp(seen) <= 1e-12 * np.abs(seen).max()):
        raise DataError(f"column '{name}' is constant", where=where, remedy="leave it out: nothing can cause it")
    if kind == "binary" and len(seen) != 2:
        problem = f"column '{name}' is stated to be binary and has {len(seen)} different values", "state another kind"
    elif kind == "categorical" and len(seen) > MAX_LEVELS:
        problem = f"column '{name}' has {len(seen)} levels, more than {MAX_LEVELS}", "merge levels, or leave it out"
    elif kind in ("count", "continuous") and not numeric:
        problem = f"column '{name}' is stated to be {kind} and holds text", "state it to be categorical"
    elif kind == "count" and not _are_counts(seen):
        problem = f"column '{name}' is stated to be a count and holds other numbers", "state it to be continuous"
    elif kind == "count" and values.mean() > MAX_MEAN_COUNT:
        problem = f"the counts of column '{name}' are above {MAX_MEAN_COUNT:g} on average", "state it to be continuous"
    if problem:
        raise DataError(problem[0], where=where, remedy=problem[1])


def _plain(name: str, column: _Encoded, standardise: bool, where: str) -> tuple[Array, float]:
    """Return the encoded columns (n, width) and the variable's variance before standardising."""
    observed = column.observed[:, None]
    values = np.where(column.observed, column.values, 0.0)
    raw = values[:, None]
    if column.kind == "categorical":
        raw = (values[:, None] == np.arange(len(column.levels))).astype(np.float64)
    shown = np.log1p(raw) if column.kind == "count" else raw
    shown = shown - shown.mean(axis=0, where=observed)
    variance = float(np.var(raw, axis=0, where=observed).sum())
    if standardise:
        # A group of one-hot columns shares one scale: its total variance is 1, as that of any other variable.
        spread = float(np.sqrt(np.mean(shown**2, axis=0, where=observed).sum()))
        if spread < 1e-150:
            raise DataError(f"values of column '{name}' are too small to be scaled", where=where, remedy="rescale it")
        shown = np.clip(shown / spread, -BOUND, BOUND)
    return np.where(observed, shown, 0.0), variance


def _no_duplicates(encoded: Mapping[str, _Encoded], where: str) -> None:
    names = list(encoded)
    for first, second in _candidates(list(encoded.values())):
        if _same(encoded[names[first]], encoded[names[second]]):
            raise DataError(
                f"columns '{names[first]}' and '{names[second]}' say the same thing",
                where=where,
                remedy="leave one of them out: cause and effect cannot be told apart",
            )


def _candidates(columns: list[_Encoded]) -> list[tuple[int, int]]:
    """Return the pairs worth a close look: nearly correlated numbers, and categories of equally many levels."""
    observed = np.stack([column.observed for column in columns], axis=1)
    values = np.stack([column.values for column in columns], axis=1)
    centred = np.where(observed, values, 0.0)
    centred = np.where(observed, centred - centred.mean(axis=0, where=observed), 0.0)
    centred /= np.abs(centred).max(axis=0)
    weights = observed.astype(np.float64)
    number = np.maximum(weights.T @ weights, 1.0)
    sums = centred.T @ weights
    covariance = centred.T @ centred - sums * sums.T / number
    variance = (centred**2).T @ weights - sums**2 / number
    near = np.abs(covariance) >= (1 - 1e-6) * np.sqrt(np.abs(variance * variance.T))
    level_count = np.array([len(column.levels) if column.kind == "categorical" else -1 for column in columns])
    nominal = level_count > 0
    near &= ~(nominal[:, None] | nominal)
    near |= (level_count[:, None] == level_count) & nominal
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(near, 1))]


def _same(first: _Encoded, second: _Encoded) -> bool:
    both = first.observed & second.observed
    # Too few common records prove nothing: two binary columns agree on five records by chance.
    if 2 * both.sum() < min(first.observed.sum(), second.observed.sum()) or both.sum() < 3:
        return False
    x, y = first.values[both], second.values[both]
    if first.kind == "categorical":
        pairs = len(np.unique(np.stack([x, y]), axis=1).T)
        return bool(pairs == len(np.unique(x)) == len(np.unique(y)) > 1)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return size > 0 and bool(1 - abs(float(x @ y)) / size < _LINEAR)
