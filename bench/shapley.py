"""Cost of a Shapley update of the weights, as a share of a round of split training in one process; and its error.

python bench/shapley.py            # eight parties; two sizes of network and batch, and a look at fewer records
python bench/shapley.py --quick
python bench/shapley.py --parties 4 --batch 1024
python bench/shapley.py --looked-at 16
python bench/shapley.py --out shapley.json
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import torch

import colonnade as co
from colonnade.bench.device import describe_device
from colonnade.bench.result import versions
from colonnade.federation.task import WeightSettings
from colonnade.learn import active
from colonnade.learn.weights import Weights
from colonnade.measure import shapley as measure
from colonnade.measure.interval import interval

COLUMNS = 6
"""Columns of each party."""
USUAL = active.LOOK_PASSES // 2**measure.EXACT_UP_TO
SIZES: list[tuple[int, list[int], int]] = [
    (256, [64, 32, 32], USUAL),
    (1024, [256, 128, 128], USUAL),
    (256, [64, 32, 32], USUAL // 4),
]
"""The default network at its default batch, one that has more to do, and a quicker look than is taken."""
NAMES = ("batch", "hidden", "looked_at")
"""What a size decides: records of a batch, hidden layers, records of the batch that are looked at."""
GOAL, ERROR_GOAL = 0.05, 0.02
NOTES = (
    "seconds: of the processor, medians of the quickest run, on one thread; shares: means over runs, ± the interval of "
    "95 %",
    "update_share: what one look at the weights takes, as a part of a round without it; every: rounds between two "
    "looks, unless somebody says otherwise; amortised_share: what looks take of all rounds then",
    f"the goal is {GOAL:g} of a round, and {ERROR_GOAL:g} for the largest difference of sampled and exact values of "
    "eight players, as a part of what they achieve together (sampled_error); in every other game three do harm",
)


class Clock:
    """Notes how long every look at the weights takes, and when each training step is answered.

    All parties live in one thread, so the processor's own time is that of a round, whoever else uses the machine.
    """

    def __init__(self) -> None:
        self.answers: list[float] = []
        self.looks: list[float] = []

    def begin(self, top, shapes, outputs):
        pass

    def watch(self, step, uploads, labels, honest):
        self.answers.append(time.process_time())
        return honest

    @contextmanager
    def watching_looks(self) -> Iterator[None]:
        plain = Weights.look

        def timed(weights, step, worth):
            started = time.process_time()
            found = plain(weights, step, worth)
            if step:  # a round goes from answer to answer, so none ends with the first
                self.looks.append(time.process_time() - started)
            return found

        Weights.look = timed
        try:
            yield
        finally:
            Weights.look = plain


def federation(parties: int, records: int) -> co.Federation:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(records, parties * COLUMNS)).astype(np.float32)
    frame = pd.DataFrame(values, columns=[f"c{number}" for number in range(values.shape[1])])
    frame["outcome"] = np.where(np.tanh(values @ rng.normal(size=values.shape[1])) > 0, "ill", "well")
    names = list(frame.columns[:-1])
    held = {f"party{number}": names[number * COLUMNS : (number + 1) * COLUMNS] for number in range(parties)}
    return co.Federation.from_frame(frame, held, label=("party0", "outcome"))


def one_run(arguments: argparse.Namespace) -> tuple[float, float]:
    """Return seconds of one round without the look, and of one look."""
    clock = Clock()
    active.LOOK_PASSES = arguments.looked_at * 2**measure.EXACT_UP_TO
    with clock.watching_looks():
        co.train(
            federation(arguments.parties, arguments.batches * arguments.batch),
            progress=False,
            curious=clock,
            epochs=arguments.epochs,
            batch_size=arguments.batch,
            network={"hidden": arguments.hidden},
            local_updates=arguments.local_updates,
            split={"train": 1.0, "validation": 0.0, "test": 0.0},
            weights={"strategy": "shapley", "every": 1},
            checkpoint_every=10**6,
        )
    # Medians of both: a round in which an epoch ends, or memory is fetched, is no usual one.
    return float(np.median(np.diff(clock.answers) - clock.looks)), float(np.median(clock.looks))


def measured(sizes: list[argparse.Namespace]) -> list[dict[str, Any]]:
    """Return a row for each size; they take turns, so that whatever else the machine does slows all of them."""
    turns = [[one_run(size) for size in sizes] for _ in range(sizes[0].rounds)]
    return [row(size, list(times)) for size, times in zip(sizes, zip(*turns, strict=True), strict=True)]


def row(arguments: argparse.Namespace, times: list[tuple[float, float]]) -> dict[str, Any]:
    round_seconds, look_seconds = (min(values) for values in zip(*times, strict=True))
    shares = [look / whole for whole, look in times]
    every = WeightSettings().every
    return {
        "parties": arguments.parties,
        "batch": arguments.batch,
        "looked_at": min(arguments.batch, arguments.looked_at * 2 ** max(measure.EXACT_UP_TO - arguments.parties, 0)),
        "hidden": "-".join(map(str, arguments.hidden)),
        "local_updates": arguments.local_updates,
        "runs": len(times),
        "round_seconds": round(round_seconds, 6),
        "update_seconds": round(look_seconds, 6),
        **with_interval(shares, "update_share"),
        "every": every,
        **with_interval([share / every for share in shares], "amortised_share"),
    }


def with_interval(values: list[float], name: str) -> dict[str, float | None]:
    half = interval(values)
    return {name: round(fmean(values), 4), f"{name}_ci": None if half is None else round(half, 4)}


def result(rows: list[dict[str, Any]], quick: bool) -> dict[str, Any]:
    """Return the rows as every bench has them; where the file lies is of this machine only."""
    given = sys.argv[1:]
    if "--out" in given:
        given[given.index("--out") + 1] = Path(given[given.index("--out") + 1]).name
    return {
        "bench": "shapley",
        "preset": "smoke" if quick else "default",
        "command": shlex.join(["python", "bench/shapley.py", *given]),
        "versions": versions(),
        "device": describe_device(),
        "notes": list(NOTES),
        "rows": rows,
    }


def sampling_error(games: int) -> float:
    """Return the largest difference, as a part of the total, of sampled and exact values at eight players.

    In every other game three players do harm.
    """
    players = [f"party{number}" for number in range(8)]
    worst, exact_up_to = 0.0, measure.EXACT_UP_TO
    for seed in range(games):
        rng = np.random.default_rng(seed)
        harm = np.where(np.arange(8) < 5, 1.0, -0.2 if seed % 2 else 1.0)
        strengths = dict(zip(players, harm * rng.exponential(size=8), strict=True))

        def worth(coalition, strengths=strengths):
            return float(np.tanh(sum(strengths[player] for player in coalition) / 3))

        exact = measure.shapley(worth, players).fractions()
        try:
            measure.EXACT_UP_TO = 0
            sampled = measure.shapley(worth, players, seed=seed).fractions()
        finally:
            measure.EXACT_UP_TO = exact_up_to
        worst = max(worst, *(abs(sampled[player] - exact[player]) for player in players))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=8)
    parser.add_argument("--batches", type=int, default=32, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, help="with --hidden and --looked-at: one size instead of three")
    parser.add_argument("--hidden", type=int, nargs="+")
    parser.add_argument("--local-updates", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each size")
    parser.add_argument("--quick", action="store_true", help="fewer batches, one run")
    parser.add_argument("--looked-at", type=int, help="records of a batch on which eight parties are weighed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="write the result as JSON here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.quick:
        arguments.batches, arguments.epochs, arguments.rounds = 16, 2, 1
    chosen = SIZES
    batch, hidden, looked_at = SIZES[0]
    if arguments.quick or arguments.batch or arguments.hidden or arguments.looked_at:
        chosen = [(arguments.batch or batch, arguments.hidden or hidden, arguments.looked_at or looked_at)]
    given = {name: value for name, value in vars(arguments).items() if name not in NAMES}
    rows = measured([argparse.Namespace(**given, **dict(zip(NAMES, size, strict=True))) for size in chosen])
    error = sampling_error(5 if arguments.quick else 40)
    told = result([*rows, {"parties": measure.EXACT_UP_TO, "sampled_error": round(error, 4)}], arguments.quick)
    if arguments.out:
        arguments.out.write_text(json.dumps(told, indent=2) + "\n")
    if arguments.json:
        print(json.dumps(told))
        return
    for row in rows:
        print(
            f"{row['parties']} parties, batch {row['batch']}, hidden {row['hidden']}, {row['local_updates']} local "
            f"updates: a round {1e3 * row['round_seconds']:.2f} ms, an update of the weights "
            f"{1e3 * row['update_seconds']:.2f} ms on {row['looked_at']} records = {row['update_share']:.1%} of a "
            f"round; every {row['every']} rounds {row['amortised_share']:.1%}"
        )
    print(f"goal: under {GOAL:.0%}")
    print(f"sampled against exact values at 8 players: at most {error:.4f} of the total apart; goal {ERROR_GOAL}")


if __name__ == "__main__":
    main()
