"""Where scores are written down as they come: attacks, the trivial guesses beside them, columns, pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from colonnade.audit.result import AuditResult, Pictures
from colonnade.audit.rows import Row, baseline_keys
from colonnade.audit.score import column_scores, scores, trivial_scores, why_no_lpips
from colonnade.audit.truth import Truth
from colonnade.measure.reconstruct import Floats

SHOWN = 8
"""Of so many records pictures are kept."""


class Book:
    """The rows of one result.

    Args:
        accuracy: of the honest model; None where it is not known here.
        threshold: the error below which a record counts as found.
    """

    def __init__(self, accuracy: float | None, threshold: float) -> None:
        # What a defense costs is only known beside an undefended model: a matrix fills it in.
        self._utility = {"accuracy": math.nan if accuracy is None else accuracy, "accuracy_cost": math.nan}
        self._threshold = threshold
        self._rows: list[Row] = []
        self._columns: list[Row] = []
        self._pictures: list[Pictures] = []

    def add_attack(self, keys: Row, seeds: Row, truth: Truth, guesses: Floats, *, pictures: bool = False) -> None:
        """Score an attack's guesses for one party."""
        self._add(keys, seeds, truth, guesses)
        self._columns += [{**keys, **seeds, **row} for row in column_scores(truth, guesses)]
        if pictures and truth.image:
            originals, guessed = (part[:SHOWN].astype(np.float32) for part in (truth.records, guesses))
            self._pictures.append(Pictures(keys, originals, guessed))

    def add_baselines(self, keys: Row, seeds: Row, truth: Truth) -> None:
        """Score what can be guessed about one party without any attack."""
        for name, found in trivial_scores(truth, seeds["seed"], self._threshold).items():
            self._rows.append({**keys, **baseline_keys(name), **seeds, **found, **self._utility})

    def result(self, settings: Mapping[str, Any]) -> AuditResult:
        """Return everything that was written down."""
        pictures = any(not math.isnan(row["ssim"]) for row in self._rows)
        missing = why_no_lpips() if pictures else None
        notes = [] if missing is None else [missing]
        return AuditResult.from_rows(self._rows, self._columns, self._pictures, {**settings, "notes": notes})

    def _add(self, keys: Row, seeds: Row, truth: Truth, guesses: Floats) -> None:
        self._rows.append({**keys, **seeds, **scores(truth, guesses, self._threshold), **self._utility})
