"""Data for causal discovery, with the true graph: Sachs, SynTReN, synthetic additive noise."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.datasets.dataset import Dataset
from colonnade.data.datasets.files import find, home_of, need, reading
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.npz import Arrays, read_arrays
from colonnade.data.datasets.tables import check_width, read_table
from colonnade.errors import ConfigError, DataError

PROTEINS = ("Raf", "Mek", "Plcg", "PIP2", "PIP3", "Erk", "Akt", "PKA", "PKC", "P38", "Jnk")
ANTIBODIES = ("praf", "pmek", "plcg", "PIP2", "PIP3", "p44/42", "pakts473", "PKA", "PKC", "P38", "pjnk")
"""The same columns as the original spreadsheets name them."""

CONSENSUS = {
    "Raf": ("Mek",),
    "Mek": ("Erk",),
    "Plcg": ("PIP2", "PIP3"),
    "PIP3": ("PIP2",),
    "Erk": ("Akt",),
    "PKA": ("Raf", "Mek", "Erk", "Akt", "P38", "Jnk"),
    "PKC": ("Raf", "Mek", "PKA", "P38", "Jnk"),
}
"""Effects by cause: the 17 edges against which methods are usually scored."""


@dataset("sachs", Source("Sachs et al., Science 2005; prepared files in bnlearn and GraN-DAG", "MIT or CC0"))
def sachs(folder: Path, conditions: str = "observational", edges: str | None = None) -> Dataset:
    """Eleven proteins in single cells, 853 records, 17 true edges (sachs.data.txt, data1.npy, or .csv).

    `conditions` is observational or all (7,466 records, interventions pooled in); `edges` names a CSV file (cause,
    effect) with another graph than the consensus of 17 edges.
    """
    if conditions not in ("observational", "all"):
        raise ConfigError(f"there are no conditions '{conditions}'", remedy="known: all, observational")
    if conditions == "all":
        table = _proteins(need(folder, "sachs_full_7466x11.csv.gz", "sachs_full_7466x11.csv"))
    else:
        table = _proteins(
            need(folder, "sachs.data.txt", "continuous/data1.npy", "data1.npy", "sachs_obs_853x11.csv", "sachs.csv")
        )
    consensus = [(cause, effect) for cause, effects in CONSENSUS.items() for effect in effects]
    return Dataset(
        ids=table.index,
        table=table,
        graph=_graph(consensus if edges is None else _edges(need(folder, edges)), PROTEINS),
    )


@dataset("syntren", Source("the GraN-DAG repository, 'syntren_p20.zip' (SynTReN generator)", "MIT"))
def syntren(folder: Path, number: int = 1) -> Dataset:
    """Simulated gene expression, 20 genes, 500 records, ten sets by number (data1.npy, DAG1.npy, or .npz)."""
    if packed := find(folder, "syntren_p20_10sets.npz"):
        return _pair(read_arrays(packed), f"X{number}", f"B{number}", packed, "G")
    home = home_of(folder, "syntren_p20")
    arrays = {name: _array(need(home, f"{name}{number}.npy")) for name in ("data", "DAG")}
    return _pair(arrays, "data", "DAG", home, "G")


@dataset("synthetic_anm", Source("a file made with the generator of the sdcd package, not published", "own data"))
def synthetic_anm(folder: Path, nodes: int = 10, edges: int = 30, seed: int = 0) -> Dataset:
    """Nonlinear additive noise on random graphs, 2,000 records (synthetic_sdcd_anm.npz), by nodes, edges, seed."""
    path = need(folder, "synthetic_sdcd_anm.npz")
    name = f"d{nodes}_e{edges}_s{seed}"
    return _pair(read_arrays(path), f"{name}_X", f"{name}_B", path, "V")


def _proteins(path: Path) -> pd.DataFrame:
    if path.suffix == ".npy":
        frame = check_width(pd.DataFrame(_array(path)), len(PROTEINS), path).set_axis(list(PROTEINS), axis=1)
    else:
        # bnlearn separates by tabs, others by commas
        frame = read_table(path, sep="\t" if path.suffix == ".txt" else ",")
        frame = frame.rename(columns=dict(zip(ANTIBODIES, PROTEINS, strict=True)))
    if missing := [name for name in PROTEINS if name not in frame]:
        raise DataError(f"the file has no column {', '.join(missing)}", where=str(path))
    return frame[list(PROTEINS)].astype(np.float64).rename_axis(index="id")


def _edges(path: Path) -> list[tuple[str, str]]:
    table = read_table(path, ["cause", "effect"])
    if unknown := (set(table["cause"]) | set(table["effect"])) - set(PROTEINS):
        raise DataError(f"'{min(unknown)}' is no column of the data", where=str(path))
    return list(zip(table["cause"], table["effect"], strict=True))


def _graph(pairs: Iterable[tuple[str, str]], names: Iterable[str]) -> pd.DataFrame:
    columns = pd.Index(list(names))
    graph = pd.DataFrame(0, index=columns, columns=columns, dtype=np.int8)
    for cause, effect in pairs:
        graph.loc[cause, effect] = 1
    return graph


def _pair(arrays: Arrays, data: str, truth: str, path: Path, prefix: str) -> Dataset:
    """Return records `arrays[data]` with the adjacency `arrays[truth]`, [i, j] = 1 for an edge i -> j."""
    if missing := [name for name in (data, truth) if name not in arrays]:
        raise DataError(f"the file has no array '{missing[0]}'", where=str(path), remedy=f"known: {_known(arrays)}")
    values, adjacency = arrays[data], arrays[truth]
    if values.ndim != 2 or adjacency.shape != (values.shape[1], values.shape[1]):
        raise DataError(f"records {values.shape} and graph {adjacency.shape} do not fit", where=str(path))
    columns = pd.Index([f"{prefix}{number}" for number in range(1, values.shape[1] + 1)])
    table = pd.DataFrame(values, columns=columns).rename_axis(index="id")
    graph = pd.DataFrame((adjacency != 0).astype(np.int8), index=columns, columns=columns)
    return Dataset(ids=table.index, table=table, graph=graph)


def _known(arrays: Arrays) -> str:
    names = sorted(arrays)
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def _array(path: Path) -> npt.NDArray[Any]:
    with reading(path):
        return np.asarray(np.load(path, allow_pickle=False))
