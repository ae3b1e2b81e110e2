"""Whether a graph is the same when it is found again: after a change of the records too small to see, and encrypted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from colonnade.bench.causal import sets
from colonnade.bench.causal.generator import Design
from colonnade.bench.causal.methods import Colonnade, edges_of
from colonnade.bench.causal.presets import SEEDS, ours
from colonnade.bench.kept import file_name, finished
from colonnade.bench.registry import BENCHES, Row
from colonnade.bench.workers import ALONE, Workers
from colonnade.measure.graph import Mask, graph_scores
from colonnade.progress import Progress

_FRESH_SEED = 2000  # far from every seed that a choice was made on
_DISTURBANCES = (0.0, 1e-13, 1e-7, 1e-3)
_MEANT = ("edges", "found_edges", "changed_edges", "shd", "f1")
_SIZES = {"smoke": [(5, 8)], "default": [(10, 40), (15, 60)], "paper": [(10, 40), (15, 60), (25, 100)]}


@BENCHES.register("vfedcd-stability")
def stability(preset: str, progress: Progress, *, folder: Path | None = None, workers: Workers = ALONE) -> list[Row]:
    """How many edges change when records change in the last digits, and when the same run is encrypted."""
    progress.message(
        "disturbance: standard deviation of the noise on every value, in those of its column; "
        "changed_edges: edges that are in one of the two graphs only, against the undisturbed run in the clear; "
        "same_graph: whether there are none, of rows without a seed the share of sets"
    )
    work = [
        _Again(variables, edges, seed, ours(preset, secure=True))
        for variables, edges in _SIZES[preset]
        for seed in SEEDS[preset]
    ]
    progress.start(len(work), "vfedcd-stability")
    found: dict[int, list[Row]] = {}
    for done, (place, rows) in enumerate(finished(work, progress, folder, workers), start=1):
        found[place] = rows or []
        progress.advance(done)
    rows = [row for place in sorted(found) for row in found[place]]
    return [*_means(rows), *rows]


def _means(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield one row for each size and way of finding a graph again: how many sets gave the same one."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["attributes"], row["secure"], row["disturbance"]), []).append(row)
    for group in groups.values():
        means = {name: round(fmean(row[name] for row in group), 4) for name in (*_MEANT, "same_graph")}
        yield {**group[0], "seed": None, "seeds": len(group), **means}


@dataclass(frozen=True)
class _Again:
    """One data set, and the graphs that are found in it again and again."""

    variables: int
    edges: int
    seed: int
    method: Colonnade

    @property
    def title(self) -> str:
        return f"stability {self.variables} {self.edges} {self.seed}"

    @property
    def file_name(self) -> str:
        return file_name(self.title, [repr(self), _DISTURBANCES], [Path(__file__), *self.method.files()])

    def run(self) -> list[Row]:
        """Return a row for each disturbance, and for the undisturbed records under encryption."""
        return list(self._rows())

    def _rows(self) -> Iterator[Row]:
        data = sets.fresh(Design(self.variables, self.edges), _FRESH_SEED + self.seed)
        assert data.truth is not None
        first = self._graph(data, secure=False)
        for secure, disturbance in (*((False, each) for each in _DISTURBANCES), (True, 0.0)):
            again = first if not secure and not disturbance else self._graph(disturbed(data, disturbance), secure)
            scores: Mapping[str, Any] = graph_scores(again, data.truth, data.party_of)
            yield {
                "method": self.method.name,
                "secure": secure,
                "parties": len(data.parties),
                "attributes": self.variables,
                "edges": int(data.truth.sum()),
                "records": len(data.frame),
                "seed": self.seed,
                "disturbance": disturbance,
                "found_edges": int(again.sum()),
                "changed_edges": int((again != first).sum()),
                "same_graph": bool((again == first).all()),
                "shd": int(scores["shd"]),
                "f1": round(float(scores["f1"]), 4),
            }

    def _graph(self, data: sets.CausalSet, secure: bool) -> Mask:
        return edges_of(replace(self.method, secure=secure).discover(data, self.seed), data)


def disturbed(data: sets.CausalSet, disturbance: float) -> sets.CausalSet:
    """Return the set with Gaussian noise on every value; none at all where the disturbance is 0."""
    frame = data.frame
    noise = np.random.default_rng(0).normal(size=frame.shape)
    return replace(data, frame=frame + disturbance * frame.std().to_numpy() * noise) if disturbance else data
