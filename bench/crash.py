"""Kill parties at random steps, resume, and compare the final weights with those of an undisturbed run, bit for bit.

    python bench/crash.py --kills 200

Prints how long the survivors took to end, in heartbeats, and whether each named the dead party. Every victim has sent
at least one message, so the others have met it; one that dies before is waited for as long as --wait says.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "end_to_end"))
from town import Town

HEARTBEAT = 2.0


def undisturbed(folder: Path) -> tuple[dict[str, bytes], dict[str, int]]:
    town = Town(folder, 3, heartbeat=HEARTBEAT)
    town.start_all()
    assert set(town.wait().values()) == {0}
    return town.weights(), {party: town.sent_messages(party) for party in town.parties}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--kills-per-run", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    kills, runs, equal, named, ends = 0, 0, 0, 0, []
    with tempfile.TemporaryDirectory() as root:
        weights, messages = undisturbed(Path(root) / "undisturbed")
        while kills < arguments.kills:
            town = Town(Path(root) / f"run{runs}", 3, heartbeat=HEARTBEAT)
            for _ in range(min(arguments.kills_per_run, arguments.kills - kills)):
                victim = rng.choice(town.parties)
                town.start_all("--resume")
                if not town.kill_after(victim, 1 + rng.randrange(messages[victim] // 3)):
                    break  # this run was done before the kill
                killed = time.monotonic()
                codes = town.wait(60)
                ends.append((time.monotonic() - killed) / HEARTBEAT)
                survivors = [party for party in town.parties if party != victim and codes[party] != 0]
                named += all(f"error: {victim}: " in town.log(party).splitlines()[-1] for party in survivors)
                if ends[-1] > 2:
                    print(f"{victim} killed, {ends[-1]:.2f} heartbeats:", *(town.log(party) for party in survivors))
                kills += 1
            town.wait()
            town.start_all("--resume")
            assert set(town.wait().values()) == {0}, [town.log(party) for party in town.parties]
            equal += town.weights() == weights
            runs += 1
            print(f"{kills} kills, {equal} of {runs} runs end with the undisturbed weights", flush=True)
    print(f"kills {kills}; runs with equal weights {equal} of {runs}; dead party named after {named} of {kills} kills")
    print(f"survivors ended after {statistics.median(ends):.2f} heartbeats (median), {max(ends):.2f} (longest)")
    print(f"within two heartbeats after {sum(end <= 2 for end in ends)} of {kills} kills")


if __name__ == "__main__":
    main()
