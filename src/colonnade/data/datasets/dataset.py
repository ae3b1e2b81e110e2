"""What a loader returns: one published data set, before it is split over parties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.errors import DataError

Images = npt.NDArray[np.uint8]
"""N x channels x height x width, 0 to 255."""

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """One published data set; every part has one row per id, in the order of `ids`.

    Attributes:
        ids: the records; published ids where there are any, else 0, 1, 2, ...
        table: feature columns.
        images: pictures, N x channels x height x width.
        modalities: feature columns by modality (voice, face, ...), one natural party each.
        label: what is to be predicted: class numbers from 0, or a number (regression).
        classes: names of the classes, in the order of their numbers.
        split: 'train', 'validation' or 'test' for each record, where the publisher says so.
        attributes: what is known of a record but is no feature (an actor's age, a patient's number).
        secrets: sensitive columns, in `table` or `attributes`.
        graph: true causal graph, [cause, effect] is 1 where there is an edge.
        name: the data set's name in the registry.
        note: publisher and licence.
    """

    ids: pd.Index
    table: pd.DataFrame | None = None
    images: Images | None = None
    modalities: Mapping[str, pd.DataFrame] | None = None
    label: pd.Series | None = None
    classes: tuple[str, ...] = ()
    split: pd.Series | None = None
    attributes: pd.DataFrame | None = None
    secrets: tuple[str, ...] = ()
    graph: pd.DataFrame | None = None
    name: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not self.ids.is_unique:
            twice = self.ids[self.ids.duplicated()][0]
            raise DataError(f"id '{twice}' stands for more than one record")
        for part, rows in self._parts().items():
            if len(rows) != len(self.ids):
                raise DataError(f"{part} has {len(rows)} rows for {len(self.ids)} records")
            if isinstance(rows, pd.DataFrame | pd.Series) and not rows.index.equals(self.ids):
                raise DataError(f"{part} is not in the order of the ids")
        if unknown := [secret for secret in self.secrets if secret not in self._columns()]:
            raise DataError(f"no column for the secret '{unknown[0]}'")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        lines = [f"Dataset {self.name}: {len(self)} records{_counted(self.split)}"]
        if self.table is not None:
            lines.append(f"  table      {_named(self.table)}")
        if self.images is not None:
            lines.append(f"  images     {' x '.join(map(str, self.images.shape[1:]))} (channels x height x width)")
        for modality, columns in (self.modalities or {}).items():
            lines.append(f"  {modality:<10} {_named(columns)}")
        if self.label is not None:
            lines.append(f"  label      {self._label_line(self.label)}")
        if self.attributes is not None:
            lines.append(f"  attributes {_named(self.attributes)}")
        if self.secrets:
            lines.append(f"  secrets    {', '.join(self.secrets)}")
        if self.graph is not None:
            lines.append(f"  graph      {int((self.graph != 0).to_numpy().sum())} edges")
        return "\n".join([*lines, f"  note       {self.note}"])

    def _label_line(self, label: pd.Series) -> str:
        if self.classes:
            return f"{len(self.classes)} classes: {_shortened(self.classes)}"
        return f"{label.min():g} to {label.max():g}, mean {label.mean():g}"

    def _parts(self) -> dict[str, Any]:
        parts = {part: getattr(self, part) for part in ("table", "images", "label", "split", "attributes")}
        parts |= {f"modality '{name}'": columns for name, columns in (self.modalities or {}).items()}
        return {name: part for name, part in parts.items() if part is not None}

    def _columns(self) -> set[str]:
        return {str(name) for part in (self.table, self.attributes) if part is not None for name in part.columns}


def column(values: Any, ids: pd.Index, name: str) -> pd.Series:
    """Return `values` as a series that is indexed by `ids`."""
    return pd.Series(np.asarray(values), index=ids, name=name)


def of_images(
    images: Images,
    label: Sequence[int] | npt.NDArray[Any],
    split: Sequence[str] | npt.NDArray[Any] | None,
    classes: Sequence[str],
    *,
    ids: pd.Index | None = None,
    attributes: pd.DataFrame | None = None,
    secrets: Sequence[str] = (),
) -> Dataset:
    """Return a data set of labelled pictures; without `ids` the records are numbered."""
    records = pd.RangeIndex(len(images), name="id") if ids is None else ids
    label = np.asarray(label, dtype=np.int64)
    if len(label) and not (label.min() >= 0 and label.max() < len(classes)):
        raise DataError(f"labels {label.min()} to {label.max()} do not fit {len(classes)} classes")
    return Dataset(
        ids=records,
        images=images,
        label=column(label, records, "label"),
        classes=tuple(map(str, classes)),
        split=None if split is None else column(split, records, "split"),
        attributes=attributes,
        secrets=tuple(secrets),
    )


def first_of_each(groups: Sequence[Any], limit: int | None) -> npt.NDArray[np.int64]:
    """Return the rows of the first `limit` members of each group, in the given order; all rows without a limit."""
    if limit is None:
        return np.arange(len(groups))
    seen: Counter[Any] = Counter()
    kept = []
    for row, group in enumerate(groups):
        if seen[group] < limit:
            kept.append(row)
            seen[group] += 1
    return np.array(kept, dtype=np.int64)


def _counted(split: pd.Series | None) -> str:
    if split is None:
        return ""
    counts = split.value_counts()
    return f" ({', '.join(f'{name} {counts[name]}' for name in SPLITS if name in counts)})"


def _named(frame: pd.DataFrame) -> str:
    return f"{frame.shape[1]} columns: {_shortened(frame.columns)}"


def _shortened(names: Sequence[Any] | pd.Index, most: int = 6) -> str:
    shown = ", ".join(str(name) for name in names[:most])
    return f"{shown}, ..." if len(names) > most else shown
