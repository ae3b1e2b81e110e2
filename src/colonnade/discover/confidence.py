"""How sure an edge is: the share of repeated runs that find it again.

Every repeat is a whole run. It takes as long again, and each party and the coordinator see as much again as in the
first one: noise that is accounted for has to be accounted for in every repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.discover.graph import CausalGraph
from colonnade.errors import ConfigError, DataError, RunError, nearest

How = Literal["bootstrap", "seeds"]
Positions = npt.NDArray[np.int64]
RunOnce = Callable[[int, Positions], CausalGraph]
"""Runs a discovery with this seed on the records at these positions."""

UNSURE = 0.5
"""Edges that fewer of the repeats find are counted in the notes."""
_BOOTSTRAP = 0xB007


def with_confidence(
    run_once: RunOnce, records: int, repeats: int, seed: int = 0, how: How = "bootstrap"
) -> CausalGraph:
    """Find the graph on all records, then again in each repeat; return it with the share of repeats per edge.

    Adjacency, strengths, contributions and sortability are those of the run on all records. Costs are those of all runs
    together. A repeat that fails, because its weights diverge for instance, is left out and named in the notes.

    Args:
        run_once: runs the discovery with a seed on the records at some positions; called first with `seed` and all
            records, then with `seed` + 1, `seed` + 2, …
        records: how many records all parties have in common.
        repeats: how many runs besides the first; 0 gives that one as it is.
        seed: of the first run; what a repeat draws comes from it, too, so that all parties draw alike.
        how: `bootstrap` draws as many records as there are, with replacement: how far the graph depends on who happens
            to be in the data. `seeds` takes all records: how far it depends on first weights and the order of records.

    Raises:
        ConfigError: `repeats` or `how` cannot be used.
        DataError: no repeat came to its end.
        RunError: the same.
    """
    _check(records, repeats, how)
    graph = run_once(seed, np.arange(records))
    if not repeats:
        return graph
    found: list[CausalGraph] = []
    failure: DataError | RunError | None = None
    for run_seed, rows in draws(records, repeats, seed, how):
        try:
            found.append(run_once(run_seed, rows))
        except (DataError, RunError) as error:
            failure = error
    if failure and not found:
        raise failure
    share = pd.DataFrame(sum(_mask(again, graph) for again in found) / len(found), graph.variables, graph.variables)
    return CausalGraph(
        graph.adjacency,
        graph.party_of,
        confidence=share,
        strengths=graph.strengths,
        notes=[*graph.notes, *_notes(graph, share, len(found), how), *_failures(repeats - len(found), failure)],
        cost=_total([graph, *found]) | {"repeats": len(found)},
        contributions=graph.contributions,
        varsortability=graph.varsortability,
        r2_sortability=graph.r2_sortability,
        reveal=graph.reveal,
    )


def draws(records: int, repeats: int, seed: int, how: How = "bootstrap") -> Iterator[tuple[int, Positions]]:
    """Yield seed and records of each repeat: the same wherever it is computed, so no party has to tell another.

    In a bootstrap about 37 % of the records are left out and others come several times. Copies of one record may fall
    on both sides where a run holds records out: a likelihood on its held-out records then looks better than it is, and
    must be compared with that of other repeats only.
    """
    for repeat in range(1, repeats + 1):
        rows = np.arange(records)
        if how == "bootstrap":
            rows = np.sort(np.random.default_rng([_BOOTSTRAP, seed, repeat]).integers(0, records, records))
        yield seed + repeat, rows


def _check(records: int, repeats: int, how: str) -> None:
    if how not in get_args(How):
        raise ConfigError(f"no way to repeat '{how}'", where="confidence", remedy=nearest(how, get_args(How)))
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 0:
        what = f"{repeats!r} is no number of repeats"
        raise ConfigError(what, where="confidence", remedy="give a whole number, 0 for none")
    if records < 1:
        raise DataError("there are no records", where="confidence")


def _mask(again: CausalGraph, graph: CausalGraph) -> npt.NDArray[np.float64]:
    names = list(graph.variables)
    mask: npt.NDArray[np.float64] = (again.adjacency.loc[names, names].to_numpy() != 0).astype(np.float64)
    return mask


def _notes(graph: CausalGraph, share: pd.DataFrame, repeats: int, how: How) -> list[str]:
    way = "resampled records" if how == "bootstrap" else "the same records with other seeds"
    notes = [f"confidence: the share of {repeats} runs on {way} that found the edge"]
    # A number only: notes are for every party, and an edge between two others may not be known to a third.
    unsure = int((share.to_numpy()[graph.adjacency.to_numpy() != 0] < UNSURE).sum())
    if unsure:
        edges = len(graph.edge_list())
        notes.append(f"fewer than half of these runs found {unsure} of the {edges} edges: see `confidence`")
    return notes


def _failures(failed: int, failure: DataError | RunError | None) -> list[str]:
    return [f"{failed} repeated runs failed and do not count, the last because {failure.what}"] if failure else []


def _total(graphs: Sequence[CausalGraph]) -> dict[str, int | float]:
    names = dict.fromkeys(name for graph in graphs for name in graph.cost)
    return {name: sum(graph.cost.get(name, 0) for graph in graphs) for name in names}
