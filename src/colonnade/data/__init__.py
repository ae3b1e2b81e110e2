"""A party's records: read, split over parties, prepared, and dealt out in batches."""

from colonnade.data.batches import epoch_batches, evaluation_batches
from colonnade.data.partition import by_column, by_modality, by_strip, evenly, thin
from colonnade.data.preparation import (
    FeaturePreparation,
    ImagePreparation,
    LabelPreparation,
    Preparation,
    TablePreparation,
    preparation_from_dict,
    prepare_features,
)
from colonnade.data.read import read_records, read_table
from colonnade.data.records import Records
from colonnade.data.split import TEST, TRAIN, VALIDATION, assign_split, split_from_column

__all__ = [
    "TEST",
    "TRAIN",
    "VALIDATION",
    "FeaturePreparation",
    "ImagePreparation",
    "LabelPreparation",
    "Preparation",
    "Records",
    "TablePreparation",
    "assign_split",
    "by_column",
    "by_modality",
    "by_strip",
    "epoch_batches",
    "evaluation_batches",
    "evenly",
    "preparation_from_dict",
    "prepare_features",
    "read_records",
    "read_table",
    "split_from_column",
    "thin",
]
