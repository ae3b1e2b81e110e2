"""Which methods a causal bench runs under each preset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from colonnade.bench.causal.methods import Colonnade, EmptyGraph, Method, Peer, RandomGraph
from colonnade.bench.causal.peers import CONVENTION, NO_TEARS, PEERS, peers_ready, require_peers
from colonnade.progress import Progress

_QUICK_PEERS = ("sortnregress", "r2_sortnregress")
_QUICK_SETTINGS: dict[str, Any] = {"epochs": 20, "refit_epochs": 10}

SEEDS: dict[str, Sequence[int]] = {"smoke": (0,), "default": range(5), "paper": range(5)}


def ours(preset: str, secure: bool) -> Colonnade:
    """Return our method; a smoke run stops long before it has learned anything."""
    return Colonnade(secure, _QUICK_SETTINGS if preset == "smoke" else {})


def others(preset: str, progress: Progress) -> list[Method]:
    """Return published methods and graphs that need no records, and note what has to be known about them.

    Raises:
        ConfigError: the peers' environment is not here; a smoke run leaves them out instead.
    """
    baselines: list[Method] = [RandomGraph(), EmptyGraph()]
    progress.message("rows without a seed are means over seeds, ± the interval of 95 %")
    if preset == "smoke":
        progress.message(f"a smoke run: our method with {_QUICK_SETTINGS} only, its scores mean nothing")
        if not peers_ready():
            progress.message("left out: the published methods, whose environment is not here ('make peers')")
            return baselines
        return [*(Peer(name, "short") for name in _QUICK_PEERS), *baselines]
    require_peers()
    progress.message(CONVENTION)
    progress.message(NO_TEARS)
    progress.message(
        "published methods see all columns in one place, standardised unless the row says otherwise; SDCD fixes "
        "its own seed; rows with published values only are of methods that were not run"
    )
    if preset == "default":
        progress.message(
            "shorter schedules than their own: DAGMA's nonlinear variant 1,500 / 3,000 steps with a learning rate of "
            ".002, NO-TEARS 20 rounds, GES at most six parents a variable beyond 15 variables"
        )
    return [*(Peer(name, "short" if preset == "default" else "full") for name in PEERS), *baselines]
