"""The paper's case study: a public health system and a clinic, each with its columns about the same 768 Pima women.

Nobody knows the true graph. What can be said is how far a graph agrees with what was stated before anybody looked, how
far chance would, and which of its edges another sample of the same women would show again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from colonnade.bench.causal import sets
from colonnade.bench.causal.methods import Colonnade
from colonnade.bench.causal.presets import ours
from colonnade.bench.causal.published import Published
from colonnade.bench.causal.table import Job
from colonnade.bench.registry import BENCHES, Row
from colonnade.progress import Progress
from colonnade.run import write_atomically

if TYPE_CHECKING:
    from colonnade.discover.graph import CausalGraph

DIABETES, PEDIGREE = "Outcome", "DiabetesPedigreeFunction"
SEED = 0
LIKELY = 0.5
"""Edges that so many of the repeated runs find are shown, also where the run on all records does not have them."""

Edge = tuple[str, str]
"""Cause, effect."""

EXPECTED: dict[Edge, str] = {
    ("Pregnancies", DIABETES): "appendix I: pregnancies are a cause of diabetes, as a reproductive risk factor",
    (PEDIGREE, DIABETES): "appendix I: the pedigree is a cause of diabetes, as a genetic risk factor",
    (DIABETES, "Glucose"): "appendix I: blood glucose is an effect of diabetes, as islet cells fail",
    (DIABETES, "Insulin"): "appendix I: insulin is an effect of diabetes, as islet cells fail",
}
"""The four edges of the published picture, which the paper holds to be clinical knowledge."""

_COLUMNS = (
    "Age", "Glucose", "BloodPressure", "BMI", DIABETES, "Pregnancies", "Insulin", PEDIGREE, "SkinThickness",
)  # fmt: skip

FORBIDDEN: dict[Edge, str] = {
    **{(cause, "Age"): "nothing that is measured makes a woman older" for cause in _COLUMNS if cause != "Age"},
    **{(cause, PEDIGREE): "it is computed from relatives" for cause in _COLUMNS if cause != PEDIGREE},
    **{(effect, cause): f"{source}; not the other way round" for (cause, effect), source in EXPECTED.items()},
}
"""What contradicts the paper's statements, and what time alone forbids."""

TIERS = (("Age", PEDIGREE, "Pregnancies", "SkinThickness"), ("BMI", "BloodPressure", "Glucose", "Insulin"), (DIABETES,))
"""What is published beside the data: a later group never causes an earlier one. It contradicts the paper, by which
diabetes causes glucose and insulin; so no graph can agree with both."""

REPEATS: dict[str, dict[bool, int]] = {
    "smoke": {False: 2, True: 0},
    "default": {False: 20, True: 5},
    "paper": {False: 100, True: 20},
}
"""Runs on resampled records, in the clear and encrypted, beside the one on all records."""


@dataclass(frozen=True)
class Variant:
    """One way to look at the data.

    Attributes:
        zeros: whether an impossible 0, such as an insulin of 0, is a missing value or kept as a number, as is often
            done.
        secure: whether the search ran under encryption.
    """

    zeros: Literal["missing", "kept"]
    secure: bool

    @property
    def name(self) -> str:
        """What people call it."""
        return f"pima zeros {self.zeros}"


VARIANTS = [Variant(zeros, secure) for zeros in ("missing", "kept") for secure in (False, True)]


@BENCHES.register("vfedcd-diabetes")
def run(preset: str, progress: Progress, *, folder: Path | None = None) -> list[Row]:
    """Appendix I: the graph of the Pima records, beside clinical knowledge stated beforehand, and its stability."""
    progress.message(
        "two parties, as in the paper, which names three columns of each: age, glucose and diagnosis are the system's, "
        "pregnancies, insulin and pedigree the clinic's; where the others are is our choice, and so is the file: what "
        "the paper cites is another data set of this name, without such columns"
    )
    progress.message(
        f"stated beforehand: {len(EXPECTED)} expected edges (the published picture), {len(FORBIDDEN)} forbidden ones "
        "(their reverses, causes of age, causes of the pedigree); tiers_broken counts edges against the tiers "
        "published beside the data, which contradict the paper; random is the mean over all random graphs with as many "
        "edges; confidence is the share of runs on resampled records that found an edge, and at least half of them "
        "found the stable_edges"
    )
    progress.start(len(VARIANTS), "vfedcd-diabetes")
    summaries, edges = [], []
    for done, variant in enumerate(VARIANTS, start=1):
        graph = found_graph(variant, preset, folder)
        summaries += list(summary_rows(graph, variant))
        edges += list(edge_rows(graph, variant))
        progress.advance(done, edges=len(graph.edge_list()))
    return [*summaries, *edges]


def found_graph(variant: Variant, preset: str, folder: Path | None) -> CausalGraph:
    """Return the graph that is kept in the folder, or find it and keep it there, with its pictures beside it."""
    from colonnade.discover.graph import CausalGraph

    method = ours(preset, variant.secure)
    settings = {**method.settings, "missing": "impute", "confidence": REPEATS[preset][variant.secure]}
    if folder is None:
        return _discover(variant, settings)
    load = partial(sets.pima, zeros=variant.zeros)
    path = folder / Job(variant.name, load, Colonnade(variant.secure, settings), SEED, Published()).file_name
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        graph = _discover(variant, settings)
        write_atomically(path.with_suffix(".dot"), graph.to_dot().encode())
        write_atomically(path.with_suffix(".txt"), picture(graph).encode())
        graph.save(path)
    return CausalGraph.load(path)


def _discover(variant: Variant, settings: Mapping[str, Any]) -> CausalGraph:
    from colonnade.discover.discover import discover

    federation = sets.pima(variant.zeros).federation()
    return discover(federation, variant.secure, seed=SEED, progress=False, **settings)


def summary_rows(graph: CausalGraph, variant: Variant) -> Iterator[Row]:
    """Yield how far the graph agrees with what was stated, then how far chance would."""
    found = {(edge.cause, edge.effect) for edge in graph.edge_list()}
    sure = [edge.confidence >= LIKELY for edge in graph.edge_list()] if graph.confidence is not None else None
    yield {
        **_about(graph, variant),
        "edges": len(found),
        "stable_edges": None if sure is None else sum(sure),
        **{name: len(found & stated) for name, stated in _counted().items()},
        "seconds": round(graph.cost["seconds"], 1),
        "bytes": graph.cost["bytes"],
    }
    # A random graph joins each pair alike and points either way alike.
    chance = len(found) / (len(graph.variables) * (len(graph.variables) - 1))
    expected = {name: round(chance * len(stated), 3) for name, stated in _counted().items()}
    yield {**_about(graph, variant), "method": "random", "edges": len(found), **expected}


def edge_rows(graph: CausalGraph, variant: Variant) -> Iterator[Row]:
    """Yield every edge that was found, that repeated runs find often, or that was expected; the strongest first."""
    strengths = {(edge.cause, edge.effect): round(edge.strength, 4) for edge in graph.edge_list()}
    shares = _shares(graph)
    often = [edge for edge, share in shares.items() if share >= LIKELY]
    for cause, effect in dict.fromkeys([*strengths, *often, *EXPECTED]):
        edge = (cause, effect)
        yield {
            **_about(graph, variant),
            "cause": cause,
            "effect": effect,
            "kind": "intra" if graph.party_of[cause] == graph.party_of[effect] else "inter",
            "stated": "expected" if edge in EXPECTED else "forbidden" if edge in FORBIDDEN else None,
            "strength": strengths.get(edge),
            "confidence": shares.get(edge),
            "confidence_reversed": shares.get((effect, cause)),
            "source": (EXPECTED | FORBIDDEN).get(edge),
        }


def _shares(graph: CausalGraph) -> dict[Edge, float]:
    """The confidence of every possible edge; empty where no run was repeated."""
    if graph.confidence is None:
        return {}
    shares = graph.confidence.to_numpy()
    return {
        (cause, effect): round(float(shares[row, column]), 3)
        for row, cause in enumerate(graph.variables)
        for column, effect in enumerate(graph.variables)
    }


def picture(graph: CausalGraph) -> str:
    """Return the graph as lines of text: every variable before its effects, each with strength and confidence."""
    lines, edges = [], graph.edge_list()
    for cause in graph.order:
        effects = [edge for edge in edges if edge.cause == cause]
        if effects:
            lines.append(f"{cause} ({graph.party_of[cause]})")
        for edge in effects:
            sure = "" if graph.confidence is None else f", in {100 * edge.confidence:.0f} % of repeated runs"
            lines.append(f"  -> {edge.effect} ({edge.effect_party}): {edge.strength:.3f}{sure}")
    joined = {name for edge in edges for name in (edge.cause, edge.effect)}
    alone = [name for name in graph.variables if name not in joined]
    return "\n".join([*lines, f"without an edge: {', '.join(alone) or 'none'}", ""])


def _counted() -> dict[str, set[Edge]]:
    rank = {name: place for place, tier in enumerate(TIERS) for name in tier}
    return {
        "expected_found": set(EXPECTED),
        "expected_reversed": {(effect, cause) for cause, effect in EXPECTED},
        "forbidden_found": set(FORBIDDEN),
        "tiers_broken": {(cause, effect) for cause in rank for effect in rank if rank[cause] > rank[effect]},
    }


def _about(graph: CausalGraph, variant: Variant) -> Row:
    return {
        "method": "colonnade",
        "zeros": variant.zeros,
        "secure": variant.secure,
        "parties": len(graph.parties),
        "repeats": graph.cost.get("repeats", 0),
    }
