"""Records from files: tables (CSV, Parquet), arrays of images (npz), folders of images."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.ids import check_ids
from colonnade.data.read_images import read_image_archive, read_image_folder
from colonnade.data.records import Records
from colonnade.errors import DataError, nearest

# At most 18 digits, so that every match fits in an int64.
_CANONICAL_INTEGER = r"0|-?[1-9][0-9]{0,17}"


def read_table(path: str | Path, id_column: str | None = None) -> pd.DataFrame:
    """Read a table from `.csv`, `.csv.gz` or `.parquet`.

    Args:
        path: the file.
        id_column: kept intact: in a CSV file it is text unless every value is an integer as one would write it, so
            that `007` stays `007`, and an id `NA` is not taken for a missing value.
    """
    file = Path(path)
    if not file.is_file():
        what = "this is a folder, not a file" if file.is_dir() else "there is no such file"
        raise DataError(what, where=str(file), remedy="check the path; in a party file it is relative to that file")
    name = file.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        frame = _read_csv(file, id_column)
    elif name.endswith((".parquet", ".pq")):
        frame = _read_parquet(file)
    else:
        raise DataError("unknown kind of table", where=str(file), remedy="give .csv, .csv.gz or .parquet")
    if not len(frame):
        raise DataError("the table has no records", where=str(file), remedy="export it again, with records")
    return frame


def read_table_by_id(path: str | Path, id_column: str | None) -> pd.DataFrame:
    """Read a table whose rows are named by one of its columns; without an `id_column` they are numbered."""
    frame = read_table(path, id_column)
    if not id_column:
        return frame
    if id_column not in frame.columns:
        remedy = nearest(id_column, map(str, frame.columns))
        raise DataError(f"no column '{id_column}'", where=str(path), remedy=remedy)
    return frame.set_index(id_column)


def read_records(
    path: str | Path,
    id_column: str,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    secrets: Sequence[str] = (),
) -> Records:
    """Read a party's records from a table, an `.npz` file with images, or a folder of images named by id.

    Args:
        path: a table (see `read_table`); an `.npz` with `images` (or `x`) and `ids`; or a folder of `<id>.png`.
        id_column: the table's id column; in an `.npz`, the array with the ids if it is not called `ids`.
        columns: the party's columns; None takes all but id and label. Tables only.
        label: the label's column, or array of the `.npz`.
        secrets: sensitive columns, or arrays of the `.npz`.
    """
    file = Path(path)
    if not (file.is_dir() or file.suffix.lower() == ".npz"):
        frame = read_table(file, id_column)
        return Records.from_frame(
            frame, id_column=id_column, columns=columns, label=label, secrets=secrets, where=str(file)
        )
    if columns is not None:
        raise DataError("images have no columns", where=str(file), remedy="leave columns out")
    if file.is_dir():
        if label is not None:
            raise DataError("a folder of images has no label", where=str(file), remedy="give the label in a table")
        if secrets:
            raise DataError("a folder of images has no secrets", where=str(file), remedy="give an .npz with them")
        ids, images = read_image_folder(file)
        return Records(check_ids(ids_from_text(ids), str(file)), images=images)
    wanted = [*secrets, *([label] if label is not None else [])]
    keys, images, columns_found = read_image_archive(file, id_column, wanted)
    return Records(
        check_ids(pd.Index(keys), str(file)),
        images=images,
        label=None if label is None else columns_found[label],
        secrets=columns_found[list(secrets)] if secrets else None,
    )


def ids_from_text(text: pd.Series) -> pd.Index:
    """Return ids read as text as integers if every one is an integer as one would write it, else as they are."""
    filled = text.where(text != "", None)
    if filled.notna().all() and filled.str.fullmatch(_CANONICAL_INTEGER).all():
        filled = filled.astype(np.int64)
    ids: pd.Index = pd.Index(filled)
    return ids


def _read_csv(file: Path, id_column: str | None) -> pd.DataFrame:
    try:
        header = pd.read_csv(file, header=None, nrows=1, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        names = [str(name) for name in header.iloc[0]]
        _check_separator(names, file)
        _check_columns(names, file)
        with warnings.catch_warnings():
            # Rows longer than the header: pandas would cut them or take the first column for an index.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(file, encoding="utf-8-sig", index_col=False, low_memory=False)
            if id_column in names:
                frame[id_column] = _read_csv_ids(file, id_column)
    except UnicodeDecodeError:
        raise DataError("this is no UTF-8 text", where=str(file), remedy="save it as UTF-8") from None
    except pd.errors.EmptyDataError:
        raise DataError("the file is empty", where=str(file), remedy="export it again") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"this is no table: {_first_line(error)}", where=str(file)) from None
    return frame


def _read_csv_ids(file: Path, id_column: str) -> npt.NDArray[np.generic]:
    """Read one column a second time, as text: pandas has no way to switch missing words off for one column only."""
    column = pd.read_csv(file, usecols=[id_column], dtype=str, keep_default_na=False, encoding="utf-8-sig")
    return np.asarray(ids_from_text(column[id_column].str.strip()))


def _read_parquet(file: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # One file, not a data set: folder names such as `year=2020` must not become columns.
        table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"this is no Parquet file: {_first_line(error)}", where=str(file)) from None
    _check_columns(table.column_names, file)
    frame: pd.DataFrame = table.to_pandas()
    return _with_index(frame)


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Make columns of what the index names, but for columns that are there already."""
    names = list(frame.index.names)
    new = [name is not None and name not in frame.columns and name not in names[:n] for n, name in enumerate(names)]
    frame = frame.reset_index(level=[number for number, wanted in enumerate(new) if wanted]) if any(new) else frame
    return frame if set(frame.index.names) == {None} else frame.reset_index(drop=True)


def _check_separator(names: Sequence[str], file: Path) -> None:
    """Where a comma separates decimals, spreadsheets write something else between columns."""
    for separator, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(names) == 1 and separator in names[0]:
            remedy = "save it with commas, and with points in numbers; or as Parquet"
            raise DataError(f"columns are separated by {called}, not by commas", where=str(file), remedy=remedy)


def _check_columns(names: Sequence[str], file: Path) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise DataError(f"column names occur twice: {', '.join(twice)}", where=str(file), remedy="rename one of each")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
