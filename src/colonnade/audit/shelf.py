"""What a matrix keeps on disk: trained models and finished cells, each whole or not at all."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from colonnade.audit.cell import Cell, Files, Saved, Study, Victim, study_digest, write_files
from colonnade.audit.result import AuditResult
from colonnade.errors import RunError


class Shelf:
    """The folder of a matrix: `models` and `cells`, each under a name that changes with everything that decides it."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder = folder
        self._settings, self._digest = study.settings, study_digest(study)

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
            shutil.rmtree(folder)
            return None

    def keep_cell(self, cell: Cell, result: AuditResult) -> None:
        """Keep what was found in a cell."""
        self._put(self._cell(cell), result.save)

    def _model(self, victim: Victim) -> Path:
        return self.folder / "models" / self.name_of(victim)

    def _cell(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.name(self._digest, self._settings)

    def _put(self, folder: Path, fill: Callable[[Path], object]) -> None:
        """Fill a folder under another name first, so that a half-filled one is never taken for a whole one."""
        temporary = folder.with_name(f".{secrets.token_hex(8)}")
        try:
            temporary.mkdir(parents=True)
            fill(temporary)
            temporary.rename(folder)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise RunError(f"cannot be written: {error.strerror}", where=str(folder)) from error
