"""Files that grow line by line and survive a kill: metrics and the ledger are kept in them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from colonnade.errors import RunError

_BLOCK = 1 << 16


class LineFile:
    """A file of lines that only grows.

    Every line goes to the operating system in one write, so that a killed process loses nothing it had appended.
    A last line without its end (the machine stopped in the middle) is left out when reading and cut off at the next
    `append`; reading alone never changes the file, because another process may still be writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None

    def append(self, line: bytes) -> None:
        """Add `line`, which has no line end of its own."""
        try:
            if self._file is None:
                self._file = self._open_to_append()
            _write_all(self._file, line + b"\n")
        except OSError as error:
            if self._file is not None:  # the next append must cut off what this one may have left
                self._file.close()
                self._file = None
            raise RunError(f"cannot be written: {error.strerror}", where=str(self.path)) from error

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the complete lines, without their ends."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line[:-1]

    def last(self) -> bytes | None:
        """Return the last complete line without reading the ones before it."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            end = _complete_end(file)
            if end == 0:
                return None
            start = _after_newline(file, end - 1)
            file.seek(start)
            return file.read(end - 1 - start)

    def torn(self) -> bytes:
        """Return what stands after the last line end: nothing in a healthy file."""
        if not self.path.exists():
            return b""
        with self.path.open("rb") as file:
            file.seek(_complete_end(file))
            return file.read()

    def flush(self) -> None:
        """Make sure that all lines are on the disk, also if the power fails."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush and release the file; a later `append` opens it again."""
        if self._file is not None:
            self.flush()
            self._file.close()
            self._file = None

    def _open_to_append(self) -> FileIO:
        file = FileIO(self.path, "a+")
        end = _complete_end(file)
        if end != file.seek(0, os.SEEK_END):
            file.truncate(end)
        return file


def _write_all(file: FileIO, data: bytes) -> None:
    written = file.write(data) or 0
    while written < len(data):  # a nearly full disk takes a part; the next write then says why
        written += file.write(data[written:]) or 0


def _complete_end(file: BinaryIO | FileIO) -> int:
    return _after_newline(file, file.seek(0, os.SEEK_END))


def _after_newline(file: BinaryIO | FileIO, end: int) -> int:
    """Return the position after the last line end before `end`, 0 if there is none."""
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def json_line(values: Mapping[str, Any]) -> bytes:
    """Return `values` as one line of strict JSON, without a line end."""
    return json.dumps(plain(values), separators=(",", ":")).encode()


def plain(value: Any) -> Any:
    """Return `value` as strict JSON holds it: array scalars as numbers, NaN and infinity as None, others as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if not isinstance(value, str | int | float | None):
        value = value.item() if hasattr(value, "item") else str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
