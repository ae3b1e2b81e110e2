"""Checkpoints without pickle: one safetensors file per step and party, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from colonnade.errors import RunError

Array = npt.NDArray[Any]

KEPT = 3  # parties are at most one step apart, so two would do; three forgives a torn disk
_NAME = re.compile(r"step-(\d{9})\.safetensors")


def write_arrays(path: Path, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
    """Write `arrays` and JSON `meta` to `path` atomically and durably."""
    temporary = path.with_suffix(".partial")
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        save_file(contiguous, temporary, {"colonnade": json.dumps(meta)})
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (SafetensorError, OSError) as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunError(f"cannot be written: {error}", where=str(path), remedy="is the disk full?") from error


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read what `write_arrays` wrote."""
    try:
        with safe_open(path, framework="np") as file:
            meta = json.loads((file.metadata() or {})["colonnade"])
            return {name: file.get_tensor(name) for name in file.keys()}, meta  # noqa: SIM118 - no mapping
    except FileNotFoundError as error:
        raise RunError("file is missing", where=str(path), remedy="give the folder of a finished run") from error
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise RunError(
            f"file is damaged: {error}", where=str(path), remedy="restore it or start the run anew"
        ) from error


def named(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Put `prefix/` before every name."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `named` put under `prefix`."""
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


class Checkpoints:
    """The checkpoints of one party in one run; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def steps(self) -> list[int]:
        """Return the steps held, oldest first; a file that can't be read does not count."""
        return sorted(step for step, path in self._files() if _readable(path))

    def save(self, step: int, arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        """Keep the state that `step` starts from, and forget the oldest."""
        if self.folder is None:
            return
        write_arrays(self.folder / f"step-{step:09d}.safetensors", arrays, {**meta, "step": step})
        for _, path in sorted(self._files())[:-KEPT]:
            path.unlink()

    def load(self, step: int) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the state that `step` starts from."""
        paths = dict(self._files())
        if step not in paths:
            raise RunError(f"no checkpoint for step {step}", where=str(self.folder), remedy="start the run anew")
        return read_arrays(paths[step])

    def forget(self, after: int) -> None:
        """Remove checkpoints of steps later than `after`: the run will come by there again."""
        for step, path in self._files():
            if step > after:
                path.unlink()

    def _files(self) -> list[tuple[int, Path]]:
        if self.folder is None:
            return []
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return [(int(match[1]), path) for match, path in found if match]


def _readable(path: Path) -> bool:
    try:
        with safe_open(path, framework="np") as file:
            return "colonnade" in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False
