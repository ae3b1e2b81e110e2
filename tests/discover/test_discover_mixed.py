"""If these fail, tables as people have them, with text, counts and yes or no beside numbers, find no sound graph."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from discovery_parts import assert_same_but_for_rounding

import colonnade as co
from colonnade.discover.variables import prepare_columns
from colonnade.measure.graph import graph_scores

PARTIES = {"clinic": ["dose", "sick"], "lab": ["marker", "visits"], "register": ["town", "income"]}
ORDER = ["town", "income", "dose", "marker", "sick", "visits"]
EDGES = [
    ("town", "income"),
    ("income", "dose"),
    ("dose", "marker"),
    ("marker", "sick"),
    ("town", "visits"),
    ("sick", "visits"),
]
TRUTH = pd.DataFrame([[(cause, effect) in EDGES for effect in ORDER] for cause in ORDER], ORDER, ORDER)
QUICK = {"epochs": 100, "refit_epochs": 60, "learning_rate": 0.8}


def people(records=600, seed=0):
    """One column of each kind as a cause of another kind, over three parties."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bern", "Chur", "Sion"], records, p=[0.4, 0.3, 0.3])
    income = np.select([town == "Bern", town == "Chur"], [1.5, -1.0], -0.5) + 0.6 * rng.normal(size=records)
    dose = np.sin(1.5 * income) + 0.3 * rng.normal(size=records)
    marker = 1.5 * np.tanh(2 * dose) + 0.5 * dose**2 + 0.3 * rng.normal(size=records)
    sick = rng.uniform(size=records) < 1 / (1 + np.exp(-4 * marker))
    visits = rng.poisson(np.exp(0.2 + sick + 0.9 * (town == "Sion")))
    return pd.DataFrame(
        {"dose": dose, "sick": sick, "marker": marker, "visits": visits, "town": town, "income": income}
    )


def discover(frame, secure=False, **settings):
    return co.discover(co.Federation.from_frame(frame, PARTIES), secure, progress=False, **settings)


def mask(graph):
    return graph.adjacency.loc[ORDER, ORDER].to_numpy() > 0


def test_the_columns_are_of_four_kinds():
    kinds = {variable.name: variable.kind for variable in prepare_columns(people()).variables}
    assert kinds["town"] == "categorical" and kinds["sick"] == "binary" and kinds["visits"] == "count"
    assert {kinds[name] for name in ("dose", "marker", "income")} == {"continuous"}


@pytest.mark.parametrize("seed", [0, 1])
def test_whoever_knows_the_order_gets_the_edges(seed):
    """True edges, whatever kinds they join, and few others: all 15 pairs in this order would have an F1 of .57."""
    graph = discover(people(seed=seed), seed=seed, knowledge={"tiers": [[name] for name in ORDER]}, **QUICK)
    scores = graph_scores(mask(graph), TRUTH.to_numpy())
    assert scores["recall"] >= 0.8 and scores["f1"] >= 0.75


def test_without_an_order_the_right_pairs_are_found():
    """Directions between columns of different kinds are weakly identified; which pairs are joined is not."""
    scores = graph_scores(mask(discover(people(), **QUICK)), TRUTH.to_numpy())
    assert scores["skeleton_f1"] >= 0.75 and scores["f1"] > 0.4, "the latter is what a random order of all pairs gets"


def test_columns_that_have_nothing_to_do_with_each_other_stay_apart():
    rng = np.random.default_rng(0)
    shuffled = people().apply(lambda column: rng.permutation(column.to_numpy()))
    assert mask(discover(shuffled, **QUICK)).sum() == 0


def test_encryption_changes_nothing_but_the_last_digits():
    """Groups of columns, missing values and all likelihoods, under encryption."""
    frame = people(200)
    frame = frame.mask(np.random.default_rng(1).uniform(size=frame.shape) < 0.05)
    short = {"epochs": 20, "refit_epochs": 4, "hidden": 2, "validate_every": 4, "learning_rate": 1.0}
    short |= {"missing": "impute", "evidence": 0.0, "least_strength": 0.0, "least_worth": 0.0}
    plain, secure = discover(frame, **short), discover(frame, True, **short)
    assert_same_but_for_rounding(secure, plain)
    assert plain.strengths.to_numpy().max() > 0.01, "there must be something to compare"
    # An edge that is worth nothing may be rounded away.
    sure = plain.strengths.to_numpy() > 1e-3
    np.testing.assert_array_equal(secure.adjacency.to_numpy()[sure] > 0, plain.adjacency.to_numpy()[sure] > 0)
