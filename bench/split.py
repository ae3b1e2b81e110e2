"""Time per epoch of split training, in process and over TLS loopback, as ratios to the joint run of the same network.

python bench/split.py            # tables: three parties, a small network and a middling one
python bench/split.py --quick
python bench/split.py --batch 512 --hidden 128 64 64
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

import colonnade as co
from colonnade.learn.joint import JointRun
from colonnade.run import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "end_to_end"))

PARTIES = {"clinic": 30, "lab": 30, "insurer": 30}
SIZES: list[tuple[int, list[int]]] = [(256, [64, 32, 32]), (1024, [256, 128, 128])]
"""Batch and hidden layers: one where a step takes a millisecond and every message counts, one where it works."""


def table(records: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(records, sum(PARTIES.values()))).astype(np.float32)
    frame = pd.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])])
    frame["outcome"] = np.where(values @ rng.normal(size=values.shape[1]) > 0, "ill", "well")
    return frame


def columns() -> dict[str, list[str]]:
    held, start = {}, 0
    for party, count in PARTIES.items():
        held[party], start = [f"c{i}" for i in range(start, start + count)], start + count
    return held


def settings(arguments: argparse.Namespace) -> dict[str, object]:
    return {
        "epochs": arguments.epochs,
        "batch_size": arguments.batch,
        "network": {"hidden": arguments.hidden},
        "split": {"train": 1.0, "validation": 0.0, "test": 0.0},
        "checkpoint_every": 10**6,
    }


def joint(frame: pd.DataFrame, arguments: argparse.Namespace) -> float:
    federation = co.Federation.from_frame(frame, columns(), label=("clinic", "outcome"))
    run = JointRun(federation, co.Task.model_validate(settings(arguments)))
    started = time.perf_counter()
    run.run()
    return (time.perf_counter() - started) / arguments.epochs


class Clock:
    """Notes when the first training step is answered; the time before it is preparation, not training."""

    def __init__(self) -> None:
        self.first: float | None = None

    def begin(self, top, shapes, outputs):
        pass

    def watch(self, step, uploads, labels, honest):
        self.first = self.first or time.perf_counter()
        return honest


def in_process(frame: pd.DataFrame, arguments: argparse.Namespace) -> float:
    federation = co.Federation.from_frame(frame, columns(), label=("clinic", "outcome"))
    clock = Clock()
    co.train(federation, progress=False, curious=clock, **settings(arguments))
    return (time.perf_counter() - (clock.first or 0.0)) / arguments.epochs


def over_tls(frame: pd.DataFrame, arguments: argparse.Namespace) -> float:
    from town import Town

    with tempfile.TemporaryDirectory() as folder:
        town = Town(Path(folder), 3, threads=1)  # three processes share the cores that the joint run has alone
        for party, held in columns().items():
            kept = held + (["outcome"] if party == "clinic" else [])
            frame[kept].to_csv(town.folder / f"{party}.csv", index_label="id")
        path = town.folder / "federation.yaml"
        file = yaml.safe_load(path.read_text())
        # One party is imputed nothing and all hold all records: alignment is not what is timed here.
        path.write_text(yaml.safe_dump({**file, "task": settings(arguments)}, sort_keys=False))
        town.start_all()
        codes = town.wait(1200)
        assert set(codes.values()) == {0}, [town.log(party) for party in town.parties]
        seconds = Run.open(town.run_folder("clinic")).metrics()["seconds"].to_numpy()
        return float((seconds[-1] - seconds[0]) / (len(seconds) - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=16_384)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, help="with --hidden: one size instead of two")
    parser.add_argument("--hidden", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-tls", action="store_true")
    parser.add_argument("--quick", action="store_true", help="fewer records, one round")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.records, arguments.epochs, arguments.rounds = 4096, 3, 1
    small = SIZES[0]
    chosen = SIZES
    if arguments.quick or arguments.batch or arguments.hidden:
        chosen = [(arguments.batch or small[0], arguments.hidden or small[1])]
    rows = []
    for arguments.batch, arguments.hidden in chosen:
        rows += measured(arguments)
    if arguments.json:
        print(json.dumps(rows))
    else:
        print("goals: in process <= 1.3 x joint, over TLS <= 2 x")


def measured(arguments: argparse.Namespace) -> list[dict[str, object]]:
    frame = table(arguments.records)
    measures = {"joint": joint, "in process": in_process} | ({} if arguments.no_tls else {"over TLS": over_tls})
    times: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(arguments.rounds):
        for name, measure in measures.items():
            times[name].append(measure(frame, arguments))
    best = {name: min(values) for name, values in times.items()}
    rows = [
        {
            "batch": arguments.batch,
            "hidden": arguments.hidden,
            "way": name,
            "seconds_per_epoch": value,
            "ratio": value / best["joint"],
        }
        for name, value in best.items()
    ]
    if arguments.json:
        return rows
    steps = -(-arguments.records // arguments.batch)
    print(
        f"{arguments.records} records, {len(PARTIES)} parties, batch {arguments.batch} ({steps} steps an epoch), "
        f"hidden {arguments.hidden}; best of {arguments.rounds}"
    )
    for row in rows:
        print(
            f"  {row['way']:<11} {row['seconds_per_epoch']:8.3f} s an epoch   {row['ratio']:5.2f} x joint", flush=True
        )
    return rows


if __name__ == "__main__":
    main()
