"""A table turned into numbers by scikit-learn transformers that were fitted on training records only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.kinds import Kind, category_values, column_kind, is_numeric, numeric_values
from colonnade.data.records import Records, first_missing
from colonnade.data.statistics import CategoryColumn, NumericColumn, TableStatistics
from colonnade.data.text_again import text_again
from colonnade.errors import DataError

MIN_SHARE = 0.0005
"""A category rarer than this among the training records shares one output with the other rare ones."""
MAX_CATEGORIES = 64
"""At most so many outputs a column; a column of free text does not explode."""

_WHERE = "table preparation"
_NAMES: dict[Kind, str] = {"numeric": "numbers", "text": "text", "code": "integer categories"}


class TablePreparation:
    """Numbers and categories as one float32 vector a record.

    - Numbers and booleans: missing values become the median, then values are standardised. A column that had
      missing values among the training records gets one more output, 1 where the value is missing.
    - Text and pandas categoricals of text or integers: one output a category, missing being a category of its own;
      rare ones share an output; a category that training never saw gets zeros.
    - Dates are refused.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"age": [30.0, None, 50.0], "town": ["Bern", "Chur", None]})
        >>> preparation = TablePreparation().fit(Records.from_frame(table))
        >>> preparation.feature_names
        ['age', 'age is missing', 'town=Bern', 'town=Chur', 'town is missing']
    """

    def __init__(self) -> None:
        self._statistics: TableStatistics | None = None

    def fit(self, records: Records) -> TablePreparation:
        """Learn medians, scales and categories from training records; returns itself."""
        if records.table is None or not len(records):
            raise DataError("there is no table to learn from", where=_WHERE)
        numeric, categories = [], []
        for name in records.columns:
            column = records.table[name]
            kind = column_kind(column, where=_WHERE)
            if kind is None:
                raise DataError(
                    f"every training value is missing in column '{name}'", where=_WHERE, remedy="leave the column out"
                )
            if kind == "numeric":
                numeric.append(_numeric_statistics(name, _finite(name, numeric_values(column))))
            else:
                categories.append(_category_statistics(name, kind, category_values(column, kind)))
        self._build(TableStatistics(numeric=numeric, categories=categories))
        return self

    def transform(self, records: Records) -> npt.NDArray[np.float32]:
        """Return one row of prepared numbers a record; columns that training did not have are left aside."""
        table = self._table(records)
        if len(table) == 0:
            return np.zeros((0, *self.shape), np.float32)
        blocks: list[npt.NDArray[np.float32]] = []
        if self.statistics.numeric:
            raw = np.column_stack([_finite(c.name, self._values(table, c.name)) for c in self.statistics.numeric])
            imputed, count = self._imputer.transform(raw), raw.shape[1]
            with np.errstate(over="ignore"):
                blocks.append(self._scaler.transform(imputed[:, :count]).astype(np.float32))
            blocks.append(imputed[:, count:].astype(np.float32))
        for column, encoder in zip(self.statistics.categories, self._encoders, strict=True):
            # A category is encoded once, not at each of its records: strings are slow to compare.
            codes, categories = _numbered(self._categories(table, column))
            blocks.append(encoder.transform(categories[:, None])[codes])
        return self._bounded(np.concatenate(blocks, axis=1))

    def absent(self) -> npt.NDArray[np.float32]:
        """Return what a record becomes of which this party knows nothing: every value missing."""
        table = pd.DataFrame({name: [None] for name in self.columns})
        prepared: npt.NDArray[np.float32] = self.transform(Records(pd.Index([0]), table=table))[0]
        return prepared

    @property
    def statistics(self) -> TableStatistics:
        """What was learned from the training records."""
        if self._statistics is None:
            raise DataError("this preparation has not been fitted", where=_WHERE, remedy="call fit first")
        return self._statistics

    @property
    def columns(self) -> list[str]:
        """The columns it needs, in the order of their outputs."""
        numeric, categories = self.statistics.numeric, self.statistics.categories
        return [column.name for column in numeric] + [column.name for column in categories]

    @property
    def feature_names(self) -> list[str]:
        """A name for each output."""
        numeric, categories = self.statistics.numeric, self.statistics.categories
        names = [column.name for column in numeric]
        names += [f"{column.name} is missing" for column in numeric if column.had_missing]
        for column in categories:
            names += [f"{column.name}={value}" for value in column.frequent if value is not None]
            names += [f"{column.name} is missing"] if None in column.frequent else []
            names += [f"{column.name} is rare"] if column.rare else []
        return names

    @property
    def shape(self) -> tuple[int]:
        """Shape of one prepared record."""
        return (len(self.feature_names),)

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned as pure JSON types."""
        return self.statistics.to_dict()

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> TablePreparation:
        """Rebuild a fitted preparation; it transforms bit for bit as the one that was stored."""
        preparation = cls()
        preparation._build(TableStatistics.from_dict(stored))
        return preparation

    def __repr__(self) -> str:
        if self._statistics is None:
            return "TablePreparation: not fitted"
        numeric, categories = len(self.statistics.numeric), len(self.statistics.categories)
        return f"TablePreparation: {numeric} numeric and {categories} categorical columns to {self.shape[0]} numbers"

    def _build(self, statistics: TableStatistics) -> None:
        # Fitting and reading back both end here, so the two cannot drift apart.
        self._statistics = statistics
        self._imputer = _imputer(statistics.numeric)
        self._scaler = _scaler(statistics.numeric)
        self._encoders = [_encoder(column) for column in statistics.categories]

    def _table(self, records: Records) -> pd.DataFrame:
        known = records.columns
        missing = [name for name in self.columns if name not in known]
        if missing or records.table is None:
            what = f"columns are missing that the model was trained with: {first_missing(missing, known)}"
            raise DataError(what, where=_WHERE)
        return records.table

    def _values(self, table: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
        kind = column_kind(table[name], where=_WHERE)
        if kind is None:
            return np.full(len(table), np.nan)
        if kind != "numeric":
            raise _changed(name, "numeric", kind)
        return numeric_values(table[name])

    def _categories(self, table: pd.DataFrame, column: CategoryColumn) -> npt.NDArray[np.object_]:
        values = table[column.name]
        kind = column_kind(values, where=_WHERE)
        if kind is None:
            return np.full(len(table), None, dtype=object)
        # A CSV file forgets that whole numbers were categories; nothing is lost by taking them as such again.
        codes_as_numbers = column.kind == "code" and kind == "numeric" and _are_whole(values)
        if column.kind == "text" and kind == "numeric":
            known = [*column.frequent, *column.rare]
            text = text_again(values, [value for value in known if isinstance(value, str)])
            if text is not None:
                return text
        if kind != column.kind and not codes_as_numbers:
            raise _changed(column.name, column.kind, kind)
        return category_values(values, column.kind)

    def _bounded(self, prepared: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        bad = np.flatnonzero(~np.isfinite(prepared).all(axis=0))
        if bad.size:
            names = [self.feature_names[number] for number in bad]
            raise DataError(f"values are too large for the scale of training: {', '.join(names)}", where=_WHERE)
        return prepared


def _numeric_statistics(name: str, values: npt.NDArray[np.float64]) -> NumericColumn:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    with np.errstate(over="ignore", invalid="ignore"):
        imputer = SimpleImputer(strategy="median").fit(values[:, None])
        scaler = StandardScaler().fit(imputer.transform(values[:, None]))
    median, mean, scale = (float(found[0]) for found in (imputer.statistics_, scaler.mean_, scaler.scale_))
    # An infinite variance must be looked for: the scaler quietly takes it for a constant column.
    if not np.isfinite([median, mean, scale, scaler.var_[0]]).all():
        raise DataError(f"values of column '{name}' are too large to be scaled", where=_WHERE)
    return NumericColumn(name=name, median=median, mean=mean, scale=scale, had_missing=bool(np.isnan(values).any()))


def _category_statistics(name: str, kind: Kind, values: npt.NDArray[np.object_]) -> CategoryColumn:
    from sklearn.preprocessing import OneHotEncoder

    assert kind != "numeric"
    codes, categories = _numbered(values)
    encoder = OneHotEncoder(min_frequency=MIN_SHARE, max_categories=MAX_CATEGORIES).fit(codes[:, None])
    infrequent = encoder.infrequent_categories_[0]
    shared = set() if infrequent is None else set(infrequent.tolist())
    # Missing keeps its own output however rare it is: that a value is missing is information of another sort.
    kept = [value for code, value in enumerate(categories) if code not in shared or value is None]
    rare = [value for code, value in enumerate(categories) if code in shared and value is not None]
    return CategoryColumn(name=name, kind=kind, frequent=kept, rare=rare)


def _numbered(values: npt.NDArray[np.object_]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.object_]]:
    """Return each value's number in the sorted list of distinct values, and that list, missing last."""
    codes, found = pd.factorize(values)
    ranks = np.argsort(np.argsort(found))
    categories = np.array([*sorted(found), None], dtype=object)
    numbers = np.append(ranks, len(found))[codes]  # a missing value has code -1: the number added last
    return numbers, categories if (codes < 0).any() else categories[:-1]


def _imputer(columns: list[NumericColumn]) -> Any:
    """Fit on the smallest table with these medians and these missing values: public interface only."""
    from sklearn.impute import SimpleImputer

    if not columns:
        return None
    medians = np.array([column.median for column in columns])
    rest = np.array([np.nan if column.had_missing else column.median for column in columns])
    return SimpleImputer(strategy="median", add_indicator=True).fit(np.stack([medians, rest, rest]))


def _scaler(columns: list[NumericColumn]) -> Any:
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    scaler.mean_ = np.array([column.mean for column in columns])
    scaler.scale_ = np.array([column.scale for column in columns])
    scaler.var_ = scaler.scale_**2
    scaler.n_features_in_ = len(columns)
    return scaler


def _encoder(column: CategoryColumn) -> Any:
    """Fit on the smallest column in which frequent categories occur twice and rare ones once."""
    from sklearn.preprocessing import OneHotEncoder

    values = np.array([*column.frequent, *column.frequent, *column.rare], dtype=object)
    encoder = OneHotEncoder(min_frequency=2, handle_unknown="ignore", sparse_output=False, dtype=np.float32)
    return encoder.fit(values[:, None])


def _finite(name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if np.isinf(values).any():
        raise DataError(f"infinite values in column '{name}'", where=_WHERE, remedy="replace them with missing values")
    return values


def _are_whole(values: pd.Series) -> bool:
    found = numeric_values(values[values.notna()])
    return not is_numeric(values) or bool((found == np.floor(found)).all() and np.isfinite(found).all())


def _changed(name: str, before: Kind, now: Kind) -> DataError:
    what = f"column '{name}' held {_NAMES[before]} at training and holds {_NAMES[now]} now"
    can = "; Parquet can say so, CSV can't" if before == "text" else ""
    return DataError(what, where=_WHERE, remedy=f"make it {_NAMES[before]} again{can}")
