"""CSV and Parquet files as data frames, with the columns checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from colonnade.data.datasets.files import reading
from colonnade.errors import DataError


def read_table(path: Path, needs: Sequence[str] = (), **csv_options: Any) -> pd.DataFrame:
    """Read a Parquet or CSV file and make sure that it has the columns in `needs`.

    Only the empty field is a missing value unless `na_values` says otherwise: published tables use words such as
    'None' with a meaning of their own.
    """
    with reading(path):
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            options: dict[str, Any] = {"keep_default_na": False, "na_values": [""]} | csv_options
            frame = pd.read_csv(path, **options)
    if missing := [name for name in needs if name not in frame.columns]:
        raise DataError(f"the file has no column {', '.join(repr(name) for name in missing)}", where=str(path))
    return frame


def check_width(frame: pd.DataFrame, width: int, path: Path) -> pd.DataFrame:
    """Return `frame` if it has `width` columns, which is all that a file without a header lets one check."""
    if frame.shape[1] != width:
        raise DataError(f"the file has {frame.shape[1]} columns instead of {width}", where=str(path))
    return frame
