"""What a matrix keeps on disk: trained models and finished cells, each whole or not at all."""

from __future__ import annotations

import errno
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from colonnade.audit.cell import Cell, Files, Saved, Study, Victim, study_digest, write_files
from colonnade.audit.plan import Plan, Planned
from colonnade.audit.result import AuditResult
from colonnade.errors import RunError

MODELS, CELLS = "models", "cells"
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}")
_ABANDONED = 24 * 60 * 60
"""A half-filled folder is this many seconds old before it is nobody's: other machines may write here too."""


class Shelf:
    """The folder of a matrix: `models` and `cells`, each under a name that changes with everything that decides it."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder = folder
        self._settings, self._digest = study.settings, study_digest(study)

    def begin(self, cells: Sequence[Cell]) -> None:
        """Say which cells are to come, and take away what killed processes left half-filled."""
        for inside in (MODELS, CELLS):
            for leftover in (self.folder / inside).glob(".*"):
                with suppress(OSError):  # another process may be quicker
                    if _TEMPORARY.fullmatch(leftover.name) and time.time() - leftover.stat().st_mtime > _ABANDONED:
                        shutil.rmtree(leftover)
        self._plan(cells).save(self.folder)

    def keep_result(self, result: AuditResult, cells: Sequence[Cell], told: Iterable[int]) -> None:
        """Keep the merged result, and of which of the cells it tells."""
        result.save(self.folder)
        self._plan(cells, told).save(self.folder)

    def name_of(self, victim: Victim) -> str:
        """Return the name that a victim's model is kept under."""
        return victim.name(self._digest)

    def has_model(self, victim: Victim) -> bool:
        """Return whether the model has been trained already."""
        return self._model(victim).is_dir()

    def model(self, victim: Victim) -> Saved:
        """Return the trained model."""
        return Saved(self._model(victim))

    def keep_model(self, victim: Victim, files: Files) -> None:
        """Keep a trained model."""
        self._put(self._model(victim), lambda folder: write_files(folder, files))

    def cell(self, cell: Cell) -> AuditResult | None:
        """Return what was found in a cell, None if it has not been computed; a damaged one is taken off the shelf."""
        folder = self._cell(cell)
        try:
            return AuditResult.load(folder) if folder.is_dir() else None
        except RunError:
            with suppress(FileNotFoundError):  # another process may be taking it off too
                shutil.rmtree(folder)
            return None

    def has_cell(self, cell: Cell) -> bool:
        """Return whether the cell has been computed already."""
        return self._cell(cell).is_dir()

    def keep_cell(self, cell: Cell, result: AuditResult) -> None:
        """Keep what was found in a cell."""
        self._put(self._cell(cell), result.save)

    def _plan(self, cells: Sequence[Cell], told: Iterable[int] = ()) -> Plan:
        planned = [Planned(self._cell(cell).name, cell.title, cell.seed) for cell in cells]
        return Plan(planned, frozenset(planned[place].name for place in told))

    def _model(self, victim: Victim) -> Path:
        return self.folder / MODELS / self.name_of(victim)

    def _cell(self, cell: Cell) -> Path:
        return self.folder / CELLS / cell.name(self._digest, self._settings)

    def _put(self, folder: Path, fill: Callable[[Path], object]) -> None:
        """Fill a folder under another name first, so that a half-filled one is never taken for a whole one.

        Where another process has put the same there meanwhile, that one stays.
        """
        temporary = folder.with_name(f".{secrets.token_hex(8)}")
        try:
            temporary.mkdir(parents=True)
            fill(temporary)
            temporary.rename(folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not folder.is_dir():
                raise RunError(f"cannot be written: {error.strerror}", where=str(folder)) from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # after a rename there is none
