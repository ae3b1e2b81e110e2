"""Published methods, run for real: each as a process of its own, in its own environment, on one core.

Their packages need older versions of numpy and pandas than ours, so they never share an environment with Colonnade.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from colonnade.bench.causal.generator import Values
from colonnade.errors import ConfigError, RunError, nearest
from colonnade.measure.graph import Mask

PEERS = (
    "sdcd",
    "dagma_linear",
    "dagma_mlp",
    "notears_linear",
    "sortnregress",
    "r2_sortnregress",
    "pc",
    "ges",
)
CONVENTION = (
    "PC and GES leave some edges undirected: such an edge counts as rightly directed wherever the true graph joins the "
    "two variables, and as one wrong edge elsewhere, the reading most in their favour"
)
NO_TEARS = (
    "NO-TEARS runs with λ = .005, taken with the truth in view: of 0, .001, .005, .01 and .05 it came nearest to a "
    "known result on three sets of 10 variables; there 0 scores better (F1 .53 instead of .42), on all five the "
    "package's own .1 worse (.16); DAGMA's nonlinear variant cuts at .1 instead of its own .3; R²-sortnregress sorts "
    "downwards, which is the causal order in the synthetic sets"
)
LONGEST: float = 3600
"""Seconds after which a method is given up."""

Schedule = Literal["short", "full"]
"""`full`: the packages' own numbers of steps. `short`: fewer for NO-TEARS and nonlinear DAGMA, narrower for GES."""

_REPOSITORY = Path(__file__).resolve().parents[4]
_ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class PeerGraph:
    """What a method found: directed edges, edges whose direction it leaves open, and the seconds it took."""

    directed: Mask
    undirected: Mask
    seconds: float

    def oriented(self, truth: Mask) -> Mask:
        """Return one mask for scoring, by the `CONVENTION`."""
        either = truth | truth.T
        return self.directed | (self.undirected & truth) | np.triu(self.undirected & ~either)


def peers_ready() -> bool:
    """Whether the peers' environment is here."""
    return _python().is_file() and _script().is_file()


def require_peers() -> None:
    """Make sure that peers can be run.

    Raises:
        ConfigError: their environment is not here.
    """
    if not peers_ready():
        raise ConfigError(
            "the environment of the published methods is not here",
            where=str(_python().parents[1]),
            remedy="run 'make peers' in a checkout of the repository, or set COLONNADE_PEERS to the environment",
        )


def run_peer(
    method: str, values: Values, seed: int = 0, schedule: Schedule = "full", longest: float = LONGEST
) -> PeerGraph:
    """Run `method` on records (records × variables) in a process of its own.

    Raises:
        ConfigError: there is no such method, or no environment.
        RunError: it failed, found what is no graph, or took longer than `longest` seconds.
    """
    if method not in PEERS:
        raise ConfigError(f"unknown published method '{method}'", remedy=nearest(method, PEERS))
    require_peers()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "records.npz", Path(folder) / "graph.npz"
        np.savez(source, X=values)
        command = [_python(), _script(), method, source, target, "--seed", seed, "--schedule", schedule]
        _run([str(part) for part in command], method, longest)
        with np.load(target, allow_pickle=False) as found:
            graph = PeerGraph(found["directed"], found["undirected"], float(found["seconds"]))
    if graph.directed.diagonal().any():  # what NaN is compared with: weights grew without bound
        raise RunError("failed: variables that cause themselves", where=method)
    return graph


def _run(command: list[str], method: str, longest: float) -> None:
    surroundings = {**os.environ, **_ONE_CORE, "WANDB_MODE": "disabled"}
    try:
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=longest, check=False)
    except subprocess.TimeoutExpired:
        raise RunError(f"took longer than {longest:.0f} seconds", where=method) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RunError(f"failed: {lines[-1] if lines else f'exit status {done.returncode}'}", where=method)


def _python() -> Path:
    folder = Path(os.environ.get("COLONNADE_PEERS") or _REPOSITORY / ".venv-peers")
    return folder / "bin" / "python"


def _script() -> Path:
    return _REPOSITORY / "bench" / "peers" / "run_peer.py"


def peer_files() -> list[Path]:
    """Return the files that decide what a peer does: a kept row is worth nothing once they change."""
    return [_script(), _script().with_name("requirements.txt")]
