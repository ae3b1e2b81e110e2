"""Finding the files of a data set, and errors that name the file."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.errors import DataError


def find(folder: Path, *names: str) -> Path | None:
    """Return the first of `names` that exists under `folder`."""
    return next((folder / name for name in names if (folder / name).exists()), None)


def need(folder: Path, *names: str) -> Path:
    """Return the first of `names` that exists under `folder`; if none does, say which were looked for and where."""
    found = find(folder, *names)
    if found is None:
        others = f" (nor {', '.join(repr(name) for name in names[1:])})" if names[1:] else ""
        raise DataError(f"there is no '{names[0]}'{others}", where=str(folder))
    return found


def home_of(folder: Path, *subfolders: str) -> Path:
    """Return the subfolder that an archive unpacks to, or `folder` itself if the user named the inner one."""
    return find(folder, *subfolders) or folder


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what a reader raises on a damaged or differently built file into a `DataError` that names the file."""
    try:
        yield
    except (OSError, EOFError, ValueError, TypeError, LookupError, zipfile.BadZipFile, zlib.error) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"the file cannot be read: {lines[0]}", where=str(path)) from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a plain or gzip file."""
    with reading(path):
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                return stream.read()
        return path.read_bytes()


def read_lines(path: Path) -> list[str]:
    """Return the non-empty lines of a text file."""
    with reading(path):
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def check_files(paths: Iterable[Path]) -> None:
    """Raise a `DataError` that counts and names files that a list promises but the folder lacks."""
    if missing := [path for path in paths if not path.is_file()]:
        raise DataError(
            f"{len(missing)} listed files are missing, the first is '{missing[0].name}'", where=str(missing[0].parent)
        )
