"""What every attack recovers of foreign columns under every mitigation, beside the graph that is left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from colonnade.bench import discovery_leak
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.methods import Colonnade
from colonnade.bench.causal.sets import CausalSet, fresh, stored
from colonnade.bench.discovery_leak import MEASURED, MITIGATIONS, UNDEFENDED, Mitigation
from colonnade.bench.kept import code, file_name, finished
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.errors import DataError, RunError
from colonnade.line_file import plain
from colonnade.measure.interval import interval
from colonnade.progress import Progress

PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {"seeds": (0,), "parties": (3,), "mitigations": (UNDEFENDED, MITIGATIONS[2], MITIGATIONS[4])},
    "default": {"seeds": range(5), "parties": (3, 2), "mitigations": MITIGATIONS},
    "paper": {"seeds": range(10), "parties": (3, 2), "mitigations": MITIGATIONS},
}
VARIABLES, EDGES = 15, 60
_QUICK: dict[str, Any] = {"epochs": 60, "refit_epochs": 20}
_MEANT = (*MEASURED, "f1", "shd", "seconds")
_WITH_INTERVAL = ("correlation", "r2", "f1")


@BENCHES.register("vfedcd-leak")
def run(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """F1 of the graph against what attacks recover of foreign columns, undefended and under each mitigation."""
    chosen = PRESETS[preset]
    progress.message(
        f"{VARIABLES} variables, {EDGES} edges, 1,000 records, means over {len(chosen['seeds'])} sets; the first party "
        "attacks (the first two of three where parties collude); secure rows are gathered from plain runs, as the sum "
        "over all other parties: what a secure run reveals; r2 is the squared correlation, scale and sign free; "
        "baselines permute the records of the same guess; ica and gram without known records are judged by the best "
        "match over their components, and so are their baselines; subspace is an oracle, own_columns a control that "
        "sees no feature; correlation_elsewhere is that of guesses with columns they do not claim to be; seconds are "
        "those of the attack"
    )
    work = [
        WatchedSet(parties, mitigation, seed, preset)
        for parties in chosen["parties"]
        for mitigation in chosen["mitigations"]
        for seed in chosen["seeds"]
    ]
    progress.start(len(work), "vfedcd-leak")
    found: dict[int, list[Row]] = {}
    for done, (place, rows) in enumerate(finished(work, progress, folder, workers), start=1):
        found[place] = rows or []
        progress.advance(done, parties=work[place].parties)
    return mean_rows([row for place in sorted(found) for row in found[place]])


@dataclass(frozen=True)
class WatchedSet:
    """One discovery that is watched, and all attacks on it."""

    parties: int
    mitigation: Mitigation
    seed: int
    preset: str

    @property
    def title(self) -> str:
        """What people call it."""
        how = f"{self.mitigation.name} {self.mitigation.strength}" if self.mitigation.settings else "undefended"
        return f"{self.parties} parties, {how}, seed {self.seed}"

    @property
    def file_name(self) -> str:
        """A name that changes with everything that decides the rows."""
        sources = [*Colonnade().files(), *code("discover/noise.py", "attack/discovery", "bench/discovery_leak.py")]
        return file_name(self.title, [self, self._settings, VARIABLES, EDGES], sources)

    def run(self) -> list[Row]:
        """Discover, let every attack guess, and return a row for each.

        Raises:
            RunError: no graph was found.
        """
        try:
            rows = list(discovery_leak.case_rows(self._data(), self._settings, self.mitigation, self.seed))
        except DataError as error:
            raise RunError(f"no graph was found, {error}") from error
        return [plain(row) for row in rows]

    @property
    def _settings(self) -> dict[str, Any]:
        return _QUICK if self.preset == "smoke" else {}

    def _data(self) -> CausalSet:
        """Return a set that other results stand for; a smoke run needs no files."""
        if self.preset == "smoke":
            return fresh(Design(VARIABLES, EDGES), self.seed + 1, self.parties)
        return stored(VARIABLES, EDGES, self.seed, self.parties)


def mean_rows(rows: list[Row]) -> list[Row]:
    """Return one row for all seeds of a case: the means of what was measured, some with the interval of 95 %."""
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        cases.setdefault(tuple(value for key, value in row.items() if key not in _MEANT), []).append(row)
    return [_mean_row(same) for same in cases.values()]


def _mean_row(same: list[Row]) -> Row:
    values = {name: [row[name] for row in same] for name in _MEANT}
    known = {name: found for name, found in values.items() if None not in found}
    means = {name: round(fmean(known[name]), 4) if name in known else None for name in _MEANT}
    widths = {name: interval(known[name]) if name in known else None for name in _WITH_INTERVAL}
    intervals = {f"{name}_interval": None if width is None else round(width, 4) for name, width in widths.items()}
    return {**same[0], **means, **intervals, "seeds": len(same)}
