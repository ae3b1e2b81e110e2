"""A small federation whose causes are known."""

from __future__ import annotations

import numpy as np
import pandas as pd

from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.federation.discovery import DiscoverySettings


def chain(records: int = 240, seed: int = 0) -> pd.DataFrame:
    """a -> b -> c -> d, and a -> e, nonlinear, with noise."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(5, records)) * 0.4
    a = rng.normal(size=records)
    b = np.tanh(2 * a) + noise[0]
    c = np.sin(2 * b) + noise[1]
    d = np.tanh(c - 1) * 2 + noise[2]
    e = np.cos(2 * a) + noise[3]
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e})


def divided(frame: pd.DataFrame, *groups: str) -> dict[str, pd.DataFrame]:
    """Split columns over parties: one group of letters each."""
    return {f"party{number}": frame[list(group)] for number, group in enumerate(groups)}


def find(tables: dict[str, pd.DataFrame], seed: int = 0, **settings: object) -> CausalGraph:
    """Discover with short settings, plain unless told otherwise."""
    # One local update per exchange: with more, a party's own columns are fresher than those of the others.
    short = {"secure": False, "epochs": 20, "refit_epochs": 5, "batch_size": 64, "minibatch": 64}
    short |= {"evidence": 0.0, "least_strength": 0.0}
    chosen = DiscoverySettings.model_validate({**short, **settings})
    return discover_tables(tables, chosen, seed=seed, progress=False)
