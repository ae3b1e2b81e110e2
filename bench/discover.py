"""Time one discovery: in the clear, encrypted in one process, and encrypted between four processes under mutual TLS.

    python bench/discover.py --variables 15 --edges 60 --records 1000

Three parties with equal numbers of columns and a coordinator, the default recipe, a freshly generated data set. Prints
seconds, bytes and the graph's accuracy beside the plain run's, and where each party's time went.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "end_to_end"))
from town import Hosts

from colonnade.bench.causal.generator import Design, generate
from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.federation.discovery import DiscoverySettings
from colonnade.measure.graph import graph_scores
from colonnade.run import Run

PARTIES, COORDINATOR = ("clinic", "lab", "insurer"), "hub"


class Four(Hosts):
    """Three parties and a coordinator, one process each."""

    command, run_name = "discover", "bench-discover"

    def __init__(self, folder: Path, tables: dict[str, pd.DataFrame]) -> None:
        super().__init__(folder, [*tables, COORDINATOR])
        federation = {
            "name": "bench",
            "parties": {party: self.entry(party) for party in tables},
            "coordinator": {"name": COORDINATOR, **self.entry(COORDINATOR)},
            "heartbeat": 5.0,
        }
        self.write_yaml("federation.yaml", federation)
        for party in self.parties:
            own = self.own_file(party)
            if party in tables:
                own["data"] = {"path": f"{party}.csv", "id_column": "id"}
                tables[party].to_csv(folder / f"{party}.csv", index_label="id")
            self.write_yaml(f"{party}.yaml", own)

    def run(self) -> CausalGraph:
        self.start_all()
        assert set(self.wait(3 * 3600).values()) == {0}, [self.log(party) for party in self.parties]
        return CausalGraph.load(self.run_folder(COORDINATOR) / "graph.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=15)
    parser.add_argument("--edges", type=int, default=60)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    design = Design(arguments.variables, arguments.edges, arguments.records)
    values, truth = generate(design, arguments.seed)
    names = [f"x{place}" for place in range(arguments.variables)]
    frame = pd.DataFrame(values, [f"p{row:06d}" for row in range(len(values))], names)
    cuts = [round(part * arguments.variables / len(PARTIES)) for part in range(len(PARTIES) + 1)]
    tables = {party: frame.iloc[:, cuts[i] : cuts[i + 1]] for i, party in enumerate(PARTIES)}

    def tell(title: str, graph: CausalGraph, seconds: float) -> float:
        scores = graph_scores(graph.adjacency.loc[names, names].to_numpy() > 0, truth)
        found = f"SHD {scores['shd']:.0f}, F1 {scores['f1']:.3f}"
        print(f"{title:<26} {seconds:7.1f} s, {graph.cost['bytes'] / 1e9:.2f} GB sent, {found}", flush=True)
        return seconds

    def in_process(secure: bool) -> CausalGraph:
        return discover_tables(tables, DiscoverySettings(secure=secure), seed=arguments.seed, progress=False)

    print(f"{arguments.variables} variables, {arguments.edges} edges, {arguments.records} records, three parties")
    plain = None
    for title, secure in (("plain, one process", False), ("encrypted, one process", True)):
        started = time.perf_counter()
        graph = in_process(secure)
        taken = tell(title, graph, time.perf_counter() - started)
        plain = taken if plain is None else plain
        print(f"  {taken / plain:.1f} x the plain run")
    with tempfile.TemporaryDirectory() as folder:
        four = Four(Path(folder), tables)
        started = time.perf_counter()
        graph = four.run()
        taken = tell("encrypted, four processes", graph, time.perf_counter() - started)
        print(f"  {taken / plain:.1f} x the plain run; alignment and start included")
        for party in PARTIES:
            run = Run.open(four.run_folder(party))
            spent = (run.result or {})["last_attempt"]["seconds"]  # the only one
            phases = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in spent.items())
            print(f"  {party}: {run.ledger.sent_bytes / 1e9:.2f} GB sent; {phases}")


if __name__ == "__main__":
    main()
