"""Three parties and a coordinator that look for a causal graph: files on disk, one process each, mutual TLS."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
from town import Hosts

from colonnade.discover.graph import CausalGraph

COLUMNS = {"clinic": ["age", "pressure"], "lab": ["glucose"], "insurer": ["claims", "town"]}
COORDINATOR = "hub"


def causes(count: int, seed: int = 0) -> pd.DataFrame:
    """age -> pressure -> glucose -> claims, and town apart."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=count)
    pressure = np.tanh(2 * age) + rng.normal(0, 0.3, count)
    glucose = np.sin(2 * pressure) + rng.normal(0, 0.3, count)
    claims = rng.poisson(np.exp(np.clip(glucose, -2, 2)))
    columns = {"age": age, "pressure": pressure, "glucose": glucose, "claims": claims}
    return pd.DataFrame(columns, index=[f"p{i:04d}" for i in range(count)]).assign(
        town=rng.choice(["Bern", "Chur", "Thun"], count)
    )


class Village(Hosts):
    """A federation that discovers; `settings` are those of its discovery block."""

    command, run_name = "discover", "village-discover"

    def __init__(self, folder: Path, count: int = 120, heartbeat: float = 2.0, **settings: object) -> None:
        super().__init__(folder, [*COLUMNS, COORDINATOR])
        self.table = causes(count)
        short = {"epochs": 8, "refit_epochs": 3, "batch_size": 60, "validate_every": 2, "checkpoint_every": 1}
        self.federation: dict[str, object] = {
            "name": "village",
            "parties": {party: self.entry(party) for party in COLUMNS},
            "coordinator": {"name": COORDINATOR, **self.entry(COORDINATOR)},
            "discovery": {**short, "hidden": 3, "evidence": 0.05, **settings},
            "heartbeat": heartbeat,
        }
        self.own = {party: self.own_file(party) for party in self.parties}
        for party, columns in COLUMNS.items():
            self.own[party]["data"] = {"path": f"{party}.csv", "id_column": "id"}
            self.table[columns].to_csv(folder / f"{party}.csv", index_label="id")
        self.write_files()

    def write_files(self) -> None:
        self.write_yaml("federation.yaml", self.federation)
        for party, content in self.own.items():
            self.write_yaml(f"{party}.yaml", content)

    def files(self, *parties: str) -> list[str]:
        """The command line's words for some parties' files."""
        words = [str(self.folder / "federation.yaml")]
        for party in parties:
            words += ["--party", str(self.folder / f"{party}.yaml")]
        return words

    def graph(self, party: str) -> CausalGraph:
        return CausalGraph.load(self.run_folder(party) / "graph.json")

    def edges(self, party: str) -> set[tuple[str, str]]:
        return {(edge.cause, edge.effect) for edge in self.graph(party).edge_list()}

    def looks(self) -> int:
        """How often the coordinator has looked at the graph so far, repetitions after a resume too."""
        metrics = self.run_folder(COORDINATOR) / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def wait_for_looks(self, more: int, patience: float = 60.0) -> None:
        """Wait until the coordinator has looked so often again."""
        before, end = self.looks(), time.monotonic() + patience
        while self.looks() < before + more:
            assert time.monotonic() < end, f"nobody looks; the log:\n{self.log(COORDINATOR)}"
            time.sleep(0.005)
