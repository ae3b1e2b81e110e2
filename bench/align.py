"""Alignment beside bare openmined-psi, in one run on one machine.

python bench/align.py --records 100000     two parties with 100,000 ids each, half of them common
python bench/align.py --quick              the same with 5,000

Both sides find the same intersection. Bare openmined-psi runs client and server one after the other on one core;
Colonnade runs both parties as threads over in-process channels. So wall time shows what a user waits, and CPU time
compares the work.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import private_set_intersection.python as psi

from colonnade.align import align_together


def bare_psi(ids: dict[str, list[str]]) -> int:
    """Run the library's own protocol: the client learns the intersection, the server learns nothing."""
    mine, theirs = ids["clinic"], ids["lab"]
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(1e-9, len(mine), theirs, psi.DataStructure.RAW)
    response = server.ProcessRequest(client.CreateRequest(mine))
    return len(client.GetIntersection(setup, response))


def colonnade(ids: dict[str, list[str]]) -> int:
    aligned = align_together(ids, active="clinic")
    return aligned["lab"].records


def timed(work: Callable[[Any], int], ids: Any) -> tuple[int, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = work(ids)
    return found, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="ids at each of the two parties")
    parser.add_argument("--quick", action="store_true", help="5,000 ids")
    arguments = parser.parse_args()
    records = 5_000 if arguments.quick else arguments.records
    ids = {
        "clinic": [f"patient-{number}" for number in range(records)],
        "lab": [f"patient-{number}" for number in range(records // 2, records // 2 + records)],
    }
    rows = {"bare openmined-psi": timed(bare_psi, ids), "colonnade align": timed(colonnade, ids)}
    expected = records - records // 2
    print(f"{records:,} x {records:,} ids, {expected:,} common, {os.cpu_count()} cores")
    for name, (found, wall, cpu) in rows.items():
        print(f"{name:<20} {wall:8.2f} s wall {cpu:8.2f} s CPU   {found:,} found")
        if found != expected:
            raise SystemExit(f"{name} found {found:,} records instead of {expected:,}")
    (_, bare_wall, bare_cpu), (_, our_wall, our_cpu) = rows.values()
    print(f"{'ratio':<20} {our_wall / bare_wall:8.2f}        {our_cpu / bare_cpu:8.2f}")


if __name__ == "__main__":
    main()
