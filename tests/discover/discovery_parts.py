"""A small federation whose causes are known."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from colonnade.discover.agreement import DiscoveryAgreement
from colonnade.discover.coordinator import Coordinator, CoordinatorSeat
from colonnade.discover.discover import discover_tables
from colonnade.discover.graph import CausalGraph
from colonnade.discover.party import Party, PartySeat
from colonnade.discover.secure_exchange import SecureExchange
from colonnade.discover.variables import prepare_columns
from colonnade.federation.discovery import DiscoverySettings
from colonnade.secure.ring import WEIGHT_SCALE, decode
from colonnade.secure.shares import add
from colonnade.wire.together import run_together

SHORT = {
    "secure": False,
    "epochs": 20,
    "refit_epochs": 5,
    "batch_size": 64,
    "minibatch": 64,  # one update per exchange: with more, own columns are fresher than those of the others
    "learning_rate": 0.2,
    "evidence": 0.0,
    "least_strength": 0.0,
}


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
    chosen = DiscoverySettings.model_validate({**SHORT, **settings})
    return discover_tables(tables, chosen, seed=seed, progress=False)


def weights_after(tables: dict[str, pd.DataFrame], **settings: object) -> np.ndarray:
    """Return all encoder weights (columns of all, hidden units of all) at the end of a run, whoever holds them."""
    chosen = DiscoverySettings.model_validate({**SHORT, **settings})
    agreed = DiscoveryAgreement("local", tuple(tables), "coordinator", chosen, seed=0)
    lives: dict[str, Party] = {}

    def live(channel, party):
        lives[party] = Party(channel, agreed, PartySeat(party, prepare_columns(tables[party], where=party), b"secret"))
        return lives[party].run()

    roles = {party: partial(live, party=party) for party in tables}
    roles["coordinator"] = lambda channel: Coordinator(channel, agreed, CoordinatorSeat()).run()
    run_together(roles)
    return np.block([[between(lives[source], lives[target]) for target in tables] for source in tables])


def between(source: Party, target: Party) -> np.ndarray:
    """Return the weights from one party's columns to another's variables."""
    if source is target:
        return source.weights
    name, other = source.seat.party, target.seat.party
    if isinstance(source.exchange, SecureExchange):
        return decode(add(source.exchange.as_source[other], target.exchange.as_target[name]), WEIGHT_SCALE)
    return source.exchange.weights[other]


def assert_same_but_for_rounding(secure, plain):
    """Strengths are lengths of weights, which agree to about 2^-12; the metric has 13 bits, in units of 16."""
    np.testing.assert_allclose(secure.strengths.to_numpy(), plain.strengths.to_numpy(), rtol=4e-3, atol=2.0**-12)
