"""A party's records: ids, and beside them columns, images or a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.ids import check_ids
from colonnade.data.kinds import column_kind, is_numeric, numeric_values
from colonnade.data.text_kinds import require_no_dates
from colonnade.errors import DataError, nearest

__all__ = ["Records", "check_ids"]

Rows = TypeVar("Rows", pd.DataFrame, pd.Series)

_SHOWN_COLUMNS = 12
_NAMED_COLUMNS = 3
"""So many unknown columns are named in an error; a party's table may lack them all."""
_FEW_CHANNELS = (1, 3)


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records one party holds, each with an id that aligns it with the records of the others.

    Attributes:
        ids: one id a record: unique, none missing, all integers or all strings.
        table: the party's columns, one row a record (indexed by id), or None.
        images: `(records, channels, height, width)`, uint8 or float32 in [0, 1], or None.
        label: what the federation learns to predict (indexed by id); None but at the active party.
        secrets: columns whose values the others must not learn (indexed by id), or None. They are no features, unless
            `table` has them too.

    A label-only party has neither table nor images. Rows correspond by position; but a table, a label or secrets that
    are indexed by the ids go by them.
    """

    ids: pd.Index
    table: pd.DataFrame | None = None
    images: npt.NDArray[np.generic] | None = None
    label: pd.Series | None = None
    secrets: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        ids = check_ids(self.ids, where="records")
        object.__setattr__(self, "ids", ids)
        for name in ("table", "secrets"):
            frame: pd.DataFrame | None = getattr(self, name)
            if frame is not None:
                object.__setattr__(self, name, by_id(frame, ids, name) if len(frame.columns) else None)
        if self.label is not None:
            object.__setattr__(self, "label", by_id(self.label, ids, "label"))
        if self.images is not None:
            object.__setattr__(self, "images", _checked_images(self.images, len(ids)))

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        id_column: str | None = None,
        columns: Sequence[str] | None = None,
        label: str | None = None,
        secrets: Sequence[str] = (),
        where: str = "frame",
        for_training: bool = True,
    ) -> Records:
        """Take a party's records out of a frame.

        Args:
            frame: one row a record.
            id_column: the column with the ids; None takes the frame's index.
            columns: the party's columns; None takes all but the id, the label and the secrets, `[]` none.
            label: the column with the label, which may not be one of `columns`.
            secrets: sensitive columns; those of them that `columns` lists are features all the same.
            where: the file or party named in errors.
            for_training: False lets a column pass in which every value is missing, as records to predict may have.
        """
        _check_names(frame, id_column, columns, label, secrets=secrets, where=where)
        if not len(frame):
            raise DataError("there are no records", where=where, remedy="give at least one")
        ids = check_ids(frame.index if id_column is None else pd.Index(frame[id_column]), where)
        aside = {id_column, label, *secrets}
        wanted = list(columns) if columns is not None else [name for name in frame.columns if name not in aside]
        table = frame[wanted]
        _check_kinds(table, where, for_training)
        _check_values(table if label is None else frame[[*wanted, label]], where, for_training)
        # Whatever numbers the rows of a frame have, ids from one of its columns are those of its rows.
        rows = frame.set_axis(ids, axis=0)
        kept = rows[list(secrets)] if secrets else None
        return cls(ids, table=rows[wanted], label=None if label is None else rows[label], secrets=kept)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> list[str]:
        """Names of the table's columns; empty without a table."""
        return [] if self.table is None else list(self.table.columns)

    @property
    def has_features(self) -> bool:
        """Whether there is anything to learn from besides the label."""
        return self.table is not None or self.images is not None

    def take(self, rows: npt.ArrayLike) -> Records:
        """Return the records at these row numbers, in this order.

        An alignment writes -1 for a record that the party lacks: that is refused here, since leaving it
        out or filling it in is the federation's choice.
        """
        chosen = np.asarray(rows)
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise DataError("rows must be a list of whole numbers", where="records")
        bad = np.flatnonzero((chosen < 0) | (chosen >= len(self)))
        if bad.size:
            raise DataError(
                f"{bad.size} of {chosen.size} asked rows do not exist (first: row {chosen[bad[0]]} of {len(self)})",
                where="records",
                remedy="leave out records that this party lacks before taking",
            )
        return Records(
            self.ids.take(chosen),
            table=None if self.table is None else self.table.take(chosen),
            images=None if self.images is None else self.images[chosen],
            label=None if self.label is None else self.label.take(chosen),
            secrets=None if self.secrets is None else self.secrets.take(chosen),
        )

    def __repr__(self) -> str:
        # Ids are what alignment keeps private: their values are never printed.
        kind = "integer" if pd.api.types.is_integer_dtype(self.ids.dtype) else "text"
        lines = [f"Records: {len(self):,} records with {kind} ids"]
        if self.table is not None:
            shown = [_described(self.table[name]) for name in self.columns[:_SHOWN_COLUMNS]]
            more = len(self.columns) - len(shown)
            lines.append(f"  {len(self.columns)} columns: {', '.join(shown)}{f' and {more} more' if more else ''}")
        if self.images is not None:
            lines.append(f"  images: {' x '.join(map(str, self.images.shape[1:]))}, {self.images.dtype}")
        if self.label is not None:
            lines.append(f"  label: {self.label.name or 'unnamed'}, {self.label.nunique()} distinct values")
        if self.secrets is not None:
            lines.append(f"  secrets: {', '.join(self.secrets.columns)}")
        if not self.has_features:
            lines.append("  no columns and no images")
        return "\n".join(lines)


def by_id(part: Rows, ids: pd.Index, what: str, where: str = "records") -> Rows:
    """Return one row an id, in the order of the ids; rows that are merely numbered 0, 1, ... are in that order already.

    Raises:
        DataError: where the rows are indexed by anything else than these ids.
    """
    if len(part) != len(ids):
        raise DataError(f"{what} has {len(part)} rows for {len(ids)} ids", where=where)
    if part.index.equals(pd.RangeIndex(len(part))):
        return part.set_axis(ids, axis=0)
    usable = part.index.is_unique and part.index.nlevels == 1
    rows = part.index.get_indexer(ids) if usable else np.full(len(ids), -1)
    if (rows < 0).any():
        remedy = "index it by the ids, or give it with reset_index(drop=True) if its rows are in their order"
        raise DataError(f"{what} is indexed by other ids", where=where, remedy=remedy)
    return part.take(rows).set_axis(ids, axis=0)


def check_channels(images: npt.NDArray[np.generic], where: str) -> None:
    """Raise DataError if images seem to be (records, height, width, channels)."""
    if images.shape[-1] in _FEW_CHANNELS and images.shape[1] not in _FEW_CHANNELS:
        what = f"images of shape {images.shape} seem to have their channels last"
        raise DataError(what, where=where, remedy="give images.transpose(0, 3, 1, 2)")


def first_missing(names: Sequence[str], known: Sequence[str]) -> str:
    """Say which columns are not among the known ones: the first few, and how many more.

    >>> first_missing(["age", "bmj", "town", "x", "y"], ["bmi", "sex"])
    "'age'; 'bmj' (did you mean 'bmi'?); 'town'; and 2 more"
    """
    named = []
    for name in names[:_NAMED_COLUMNS]:
        near = nearest(name, known)
        # All known names are told once, not behind each of several.
        named.append(f"'{name}' ({near})" if near.endswith("?") or len(names) == 1 else f"'{name}'")
    more = len(names) - len(named)
    return "; ".join([*named, f"and {more} more"] if more else named)


def _checked_images(images: npt.NDArray[np.generic], count: int) -> npt.NDArray[np.generic]:
    if images.ndim != 4 or len(images) != count or 0 in images.shape[1:]:
        raise DataError(
            f"images have shape {images.shape} for {count} ids",
            where="records",
            remedy="give (records, channels, height, width)",
        )
    check_channels(images, "records")
    if images.dtype == np.uint8:
        return images
    if images.dtype != np.float32:
        raise DataError(f"images are {images.dtype}", where="records", remedy="give uint8 or float32 between 0 and 1")
    if count and not (images.min() >= 0 and images.max() <= 1):  # also false for NaN
        raise DataError("float images must lie between 0 and 1", where="records", remedy="divide by their maximum")
    return images


def _check_names(
    frame: pd.DataFrame,
    id_column: str | None,
    columns: Sequence[str] | None,
    label: str | None,
    *,
    secrets: Sequence[str],
    where: str,
) -> None:
    for what, names in (("columns", columns), ("secrets", secrets)):
        if isinstance(names, str):
            raise DataError(f"{what} must be a list, not the text '{names}'", where=where, remedy=f"give ['{names}']")
    known = list(frame.columns)
    if not all(isinstance(name, str) for name in known):
        raise DataError(
            "column names must be text", where=where, remedy="frame.columns = frame.columns.map(str) makes them so"
        )
    if not frame.columns.is_unique:
        twice = sorted(set(frame.columns[frame.columns.duplicated()]))
        raise DataError(f"column names occur twice: {', '.join(twice)}", where=where, remedy="rename one of each")
    asked = [*(columns or []), *secrets, *(name for name in (id_column, label) if name is not None)]
    unknown = [name for name in dict.fromkeys(asked) if name not in frame.columns]
    if unknown:
        hidden = "; it is listed among the secrets, 'sensitive' in a party's file" if unknown[0] in secrets else ""
        raise DataError(f"no such column: {first_missing(unknown, known)}{hidden}", where=where)
    for role, name in (("label", label), ("id", id_column)):
        for listed, among in ((columns or [], "features"), (secrets, "secrets")):
            if name is not None and name in listed:
                what = f"the {role} column '{name}' is also listed among the {among}"
                raise DataError(what, where=where, remedy="take it out of that list")
    if label is not None and label == id_column:
        raise DataError(f"column '{label}' cannot be both id and label", where=where)
    if columns is not None and len(set(columns)) < len(columns):
        twice = sorted({name for name in columns if list(columns).count(name) > 1})
        raise DataError(f"columns are listed twice: {', '.join(twice)}", where=where, remedy="list each once")


def _check_kinds(table: pd.DataFrame, where: str, for_training: bool) -> None:
    """Refuse here what no preparation can take: by then others would be waiting."""
    for name in table.columns:
        column_kind(table[name], where)
        if for_training:  # whoever trained with such text must still be able to predict
            require_no_dates(table[name], where)


def _check_values(table: pd.DataFrame, where: str, for_training: bool) -> None:
    infinite = [n for n in table.columns if is_numeric(table[n]) and np.isinf(numeric_values(table[n])).any()]
    if infinite:
        raise DataError(
            f"infinite values in {_quoted(infinite)}", where=where, remedy="replace them with missing values or a bound"
        )
    empty = [name for name in table.columns if table[name].isna().all()] if for_training else []
    if empty:
        raise DataError(f"every value is missing in {_quoted(empty)}", where=where, remedy="leave the column out")


def _quoted(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(repr(name) for name in names)}"


def _described(column: pd.Series) -> str:
    share = column.isna().mean() if len(column) else 0.0
    return f"{column.name} ({share:.0%} missing)" if share else str(column.name)
