"""Which records are trained on, validated on and tested on: decided by each id alone."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.ids import record_names
from colonnade.errors import ConfigError, DataError

TRAIN, VALIDATION, TEST = 0, 1, 2

_PARTS = {"train": TRAIN, "validation": VALIDATION, "valid": VALIDATION, "val": VALIDATION, "test": TEST}


def assign_split(ids: pd.Index, train: float, validation: float, test: float, seed: int) -> npt.NDArray[np.uint8]:
    """Return 0 (train), 1 (validation) or 2 (test) for each id.

    The part is a keyed hash of the id: the same id always falls in the same part, whatever the order and whichever
    other records there are, so that new records never move an old one from test into training.
    """
    shares = np.array([train, validation, test])
    if (shares < 0).any() or abs(shares.sum() - 1.0) > 1e-9:
        raise ConfigError(f"shares {train}, {validation}, {test} must be positive and add up to 1", where="split")
    bounds = np.cumsum(shares[:2])
    if test == 0:
        bounds[1] = 1.0  # rounding must not make a test part that nobody asked for
    return np.searchsorted(bounds, id_shares(ids, seed, "split"), side="right").astype(np.uint8)


def split_from_column(
    column: pd.Series,
    *,
    validation: float = 0.1,
    seed: int = 0,
    ids: pd.Index | None = None,
    where: str | None = None,
) -> npt.NDArray[np.uint8]:
    """Read the parts from a column that says train, validation (or valid, val) or test, in any case.

    Args:
        column: one word a record.
        validation: the share of train taken for validation, by id, when the column has no validation part.
        seed: keys the choice of that share.
        ids: the records' ids; None takes the column's index.
        where: the file named in errors.
    """
    named = column.index if ids is None else ids
    where = f"column '{column.name}'" if where is None else f"{where}: column '{column.name}'"
    words = column.astype("string").str.strip().str.lower()
    parts = words.map(_PARTS)
    unknown = named[parts.isna().to_numpy()]
    if unknown.size:
        what = f"there is no known part for {record_names(unknown)}"
        raise DataError(what, where=where, remedy="write train, validation or test")
    split: npt.NDArray[np.uint8] = np.asarray(parts, dtype=np.uint8)
    if not (split == TRAIN).any():
        raise DataError("no record is in the train part", where=where)
    if validation > 0 and not (split == VALIDATION).any():
        moved = id_shares(named, seed, "validation") < validation
        split[(split == TRAIN) & moved] = VALIDATION
    return split


def id_shares(ids: pd.Index, seed: int, purpose: str) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each id, evenly spread; choices with different purposes are independent.

    An integer id and the same id written as text get the same number. The hash does not depend on the machine or
    on library versions: a model's test records stay test records for good.
    """
    key = str(int(seed)).encode()
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        raise ConfigError("the seed has too many digits", where="seed")
    base = hashlib.blake2b(key=key, person=purpose.encode(), digest_size=8)
    hashes = bytearray()
    for value in ids.tolist():
        one = base.copy()
        one.update(str(value).encode("utf-8", "surrogatepass"))
        hashes += one.digest()
    # The top 53 bits are what a float64 holds exactly.
    return (np.frombuffer(bytes(hashes), dtype="<u8") >> np.uint64(11)) / np.float64(2**53)
