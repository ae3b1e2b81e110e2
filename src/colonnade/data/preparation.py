"""How records become the numbers a network reads: fitted on training records, stored with the model as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.data.image_preparation import ImagePreparation
from colonnade.data.label_preparation import LabelKind, LabelPreparation
from colonnade.data.records import Records
from colonnade.data.table_preparation import TablePreparation
from colonnade.errors import DataError, RunError

__all__ = [
    "FeaturePreparation",
    "ImagePreparation",
    "LabelKind",
    "LabelPreparation",
    "Preparation",
    "TablePreparation",
    "preparation_from_dict",
    "prepare_features",
]

FeaturePreparation = TablePreparation | ImagePreparation
Preparation = FeaturePreparation | LabelPreparation

_STORED: dict[str, type[Preparation]] = {
    "table": TablePreparation,
    "images": ImagePreparation,
    "label": LabelPreparation,
}


def prepare_features(records: Records) -> FeaturePreparation | None:
    """Return the preparation fitted to these training records; None for a label-only party."""
    if records.table is not None and records.images is not None:
        raise DataError(
            "records have both columns and images", where="records", remedy="give each to a party of its own"
        )
    if records.images is not None:
        return ImagePreparation().fit(records)
    return None if records.table is None else TablePreparation().fit(records)


def preparation_from_dict(stored: Mapping[str, Any]) -> Preparation:
    """Rebuild whichever preparation `to_dict` wrote; RunError when it is damaged."""
    kind = stored.get("preparation")
    if not isinstance(kind, str) or kind not in _STORED:
        raise RunError(f"unknown stored preparation {kind!r}", remedy=f"known: {', '.join(_STORED)}")
    return _STORED[kind].from_dict(stored)
