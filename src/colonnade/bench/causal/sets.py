"""The data sets of the causal benches: records, the true graph where one is known, and who holds which column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.bench.causal.generator import Design, Values, generate
from colonnade.bench.causal.networks import network_graph, read_network, sample_network
from colonnade.errors import ConfigError, DataError
from colonnade.federation.federation import Federation
from colonnade.measure.graph import Mask

Shares = int | Sequence[int]
"""How many parties share the columns as evenly as can be, or how many columns each of them holds, in order."""

_RECORDS = 1000
_ZERO_IS_MISSING = ("Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI")


@dataclass(frozen=True)
class CausalSet:
    """One data set, its columns split over parties.

    Attributes:
        name: what it is.
        frame: one column a variable.
        truth: the true graph, [cause, effect] in the order of the columns; None where nobody knows it.
        parties: each party's columns, in order.
        standardised: whether methods shall see columns of unit variance; False shows them as they were drawn.
        unit_variance: whether variables had unit variance already while they were drawn.
    """

    name: str
    frame: pd.DataFrame
    truth: Mask | None
    parties: dict[str, list[str]]
    standardised: bool = True
    unit_variance: bool = False

    @property
    def values(self) -> Values:
        """The records as numbers, for methods that know no names: categories as codes, standardised if asked for."""
        numbers = np.column_stack([_numbers(self.frame[column]) for column in self.frame])
        return np.asarray((numbers - numbers.mean(axis=0)) / numbers.std(axis=0)) if self.standardised else numbers

    @property
    def party_of(self) -> list[str]:
        """The party of each column."""
        return [party for party, columns in self.parties.items() for _ in columns]

    @property
    def columns(self) -> str:
        """How many columns each party holds, as people write it: 5/5/5."""
        return "/".join(str(len(columns)) for columns in self.parties.values())

    def federation(self) -> Federation:
        """Return the parties with their columns, aligned."""
        return Federation.from_frame(self.frame, self.parties)


def data_folder() -> Path:
    """Return the folder of causal data: in COLONNADE_DATA, or in `shared/data` beside the repository.

    Raises:
        ConfigError: it is not there.
    """
    beside = Path(__file__).resolve().parents[5] / "shared" / "data"
    folder = Path(os.environ.get("COLONNADE_DATA") or beside) / "causal"
    if not folder.is_dir():
        raise ConfigError("the causal data sets are not here", remedy="set COLONNADE_DATA to the folder above 'causal'")
    return folder


def stored(variables: int, edges: int, seed: int, parties: Shares = 3, standardised: bool = True) -> CausalSet:
    """Return the first 1000 records of a stored synthetic set, the ones that other results stand for."""
    file, key = data_folder() / "synthetic_sdcd_anm.npz", f"d{variables}_e{edges}_s{seed}"
    with np.load(file, allow_pickle=False) as arrays:
        if f"{key}_X" not in arrays:
            raise DataError(f"no set '{key}'", where=file.name, remedy="generate it, or choose a stored size and seed")
        values, truth = arrays[f"{key}_X"][:_RECORDS], arrays[f"{key}_B"] != 0
    return _make(key, _named(values), truth, parties, standardised=standardised)


def fresh(design: Design, seed: int, parties: Shares = 3, standardised: bool = True) -> CausalSet:
    """Return a freshly generated set."""
    values, truth = generate(design, seed)
    name = f"{design.noise} {design.variables}/{design.edges} seed {seed}"
    return _make(name, _named(values), truth, parties, standardised=standardised, unit_variance=design.unit_variance)


def sachs(parties: Shares = 3, log: bool = True, standardised: bool = True) -> CausalSet:
    """Return the 853 observational records of Sachs et al. with the consensus graph of 17 edges."""
    folder = data_folder()
    frame = pd.read_csv(folder / "sachs_obs_853x11.csv")
    truth = np.zeros((len(frame.columns),) * 2, dtype=np.bool_)
    place = {column: position for position, column in enumerate(frame.columns)}
    for cause, effect in pd.read_csv(folder / "sachs_edges_17.csv").itertuples(index=False):
        truth[place[cause], place[effect]] = True
    return _make("sachs", _logged(frame) if log else frame, truth, parties, standardised=standardised)


def syntren(number: int, parties: Shares = 3, log: bool = True, standardised: bool = True) -> CausalSet:
    """Return set 1 to 10 of the SynTReN gene networks: 500 records of 20 genes."""
    with np.load(data_folder() / "syntren_p20_10sets.npz", allow_pickle=False) as arrays:
        if f"X{number}" not in arrays:
            raise DataError(f"no SynTReN set {number}", remedy="choose 1 to 10")
        frame, truth = _named(arrays[f"X{number}"]), arrays[f"B{number}"] != 0
    return _make(f"syntren {number}", _logged(frame) if log else frame, truth, parties, standardised=standardised)


def pima(zeros: str = "missing") -> CausalSet:
    """Return the 768 Pima records, split as published between a public system and a clinic; no graph is known.

    Args:
        zeros: `missing` makes impossible zeros (an insulin of 0) missing values, `kept` leaves them.
    """
    frame = pd.read_csv(data_folder() / "pima_diabetes_768x9.csv")
    if zeros == "missing":
        for column in _ZERO_IS_MISSING:
            frame[column] = frame[column].astype(np.float64).mask(frame[column] == 0)
    system = ["Age", "Glucose", "BloodPressure", "BMI", "Outcome"]
    clinic = ["Pregnancies", "Insulin", "DiabetesPedigreeFunction", "SkinThickness"]
    return CausalSet("pima", frame[[*system, *clinic]], None, {"system": system, "clinic": clinic})


def network(name: str, records: int, seed: int, parties: Shares = 3) -> CausalSet:
    """Return records drawn from a discrete network of the bnlearn repository, such as `asia` or `alarm`."""
    nodes = read_network(data_folder() / "bnlearn" / f"{name}.bif.gz")
    return _make(name, sample_network(nodes, records, seed), network_graph(nodes), parties)


def split_columns(columns: Sequence[str], parties: Shares) -> dict[str, list[str]]:
    """Split columns over parties in order; where they do not go evenly, the first parties hold one more.

    >>> split_columns(["a", "b", "c"], 2)
    {'party1': ['a', 'b'], 'party2': ['c']}
    >>> split_columns(["a", "b", "c"], (1, 2))
    {'party1': ['a'], 'party2': ['b', 'c']}
    """
    if isinstance(parties, int):
        parties = [len(columns) // parties + (party < len(columns) % parties) for party in range(parties)]
    if sum(parties) != len(columns) or min(parties) < 1:
        raise ConfigError(f"{len(columns)} columns cannot be split as {list(parties)}", where="parties")
    ends = np.cumsum(parties)
    return {
        f"party{number}": list(columns[end - size : end])
        for number, (size, end) in enumerate(zip(parties, ends, strict=True), start=1)
    }


def _make(name: str, frame: pd.DataFrame, truth: Mask, parties: Shares, **scale: bool) -> CausalSet:
    return CausalSet(name, frame, truth, split_columns(list(frame.columns), parties), **scale)


def _named(values: npt.NDArray[Any]) -> pd.DataFrame:
    width = len(str(values.shape[1] - 1))
    return pd.DataFrame(values.astype(np.float64), columns=[f"x{i:0{width}}" for i in range(values.shape[1])])


def _logged(frame: pd.DataFrame) -> pd.DataFrame:
    if (frame <= 0).any(axis=None):
        raise DataError("has values that are not positive", where="log", remedy="use the raw values")
    return pd.DataFrame(np.log(frame))


def _numbers(column: pd.Series[Any]) -> Values:
    numbers = column.cat.codes if isinstance(column.dtype, pd.CategoricalDtype) else column
    return np.asarray(numbers, dtype=np.float64)
