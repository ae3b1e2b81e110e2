"""Surrogates of tables: what causes the label stays, columns stay whole, and swaps come from alike records."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from colonnade.data.records import Records
from colonnade.data.table_preparation import TablePreparation
from colonnade.defend.causshield.tabular import BINS, TableSurrogates, column_groups, label_causes, table_surrogates
from colonnade.discover.graph import CausalGraph
from colonnade.errors import ConfigError


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    age = random.normal(50, 10, 300)
    age[::7] = np.nan
    return pd.DataFrame(
        {
            "town": random.choice(["Bern", "Chur", "Basel"], 300),
            "age": age,
            "bmi": random.normal(25, 3, 300),
            "smoker": random.choice(["yes", "no"], 300),
        }
    )


@pytest.fixture(scope="module")
def prepared(table):
    records = Records.from_frame(table)
    preparation = TablePreparation().fit(records)
    return preparation, torch.from_numpy(preparation.transform(records))


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def values(data, names, *wanted):
    return data[:, [names.index(name) for name in wanted]]


def test_causes_stay_and_everything_else_is_drawn_anew(prepared):
    """The label's causes would be washed out, or the rest kept."""
    preparation, data = prepared
    surrogates = table_surrogates(preparation, data.shape[1], ["age", "smoker", "a column of somebody else"], None)
    surrogates.fit(data, stream())
    drawn = surrogates.draw(data[:100], stream())
    names = preparation.feature_names
    for kept in ("age", "age is missing", "smoker=yes", "smoker=no"):
        assert torch.equal(values(drawn, names, kept), values(data[:100], names, kept))
    assert (values(drawn, names, "bmi") != values(data[:100], names, "bmi")).float().mean() > 0.9
    assert set(values(drawn, names, "bmi").flatten().tolist()) <= set(values(data, names, "bmi").flatten().tolist())


@pytest.mark.parametrize("graph", [None, ["bmi"]])
def test_the_outputs_of_a_column_travel_together(prepared, graph):
    """A record would live in two towns, or be missing and 50 years old."""
    preparation, data = prepared
    surrogates = table_surrogates(preparation, data.shape[1], graph, None)
    surrogates.fit(data, stream())
    drawn = surrogates.draw(data, stream())
    for group in column_groups(preparation):
        seen = {tuple(row) for row in data[:, group].tolist()}
        assert {tuple(row) for row in drawn[:, group].tolist()} <= seen
    towns = values(drawn, preparation.feature_names, "town=Basel", "town=Bern", "town=Chur")
    assert (towns.sum(1) == 1).all()
    # Columns are drawn for themselves: with all of them from one record, the surrogate would be that record.
    rows = {tuple(row) for row in data.tolist()}
    assert sum(tuple(row) in rows for row in drawn.tolist()) < 150


def test_without_a_graph_swaps_stay_within_a_decile_of_the_first_component():
    """Surrogates of a healthy record would look ill. Slow: the component by SVD, deciles by numpy."""
    generator = stream(3)
    main = torch.randn(400, 1, generator=generator)
    data = main @ torch.tensor([[2.0, -1.0, 1.5]]) + 0.1 * torch.randn(400, 3, generator=generator)
    surrogates = TableSurrogates([[0], [1], [2]], None)
    surrogates.fit(data, stream())
    drawn = surrogates.draw(data, stream())
    direction = torch.linalg.svd(data - data.mean(0)).Vh[0]
    scores = ((data - data.mean(0)) @ direction).numpy()
    deciles = np.digitize(scores, np.quantile(scores, np.linspace(0, 1, BINS + 1)[1:-1]))
    home = [{value: deciles[row] for row, value in enumerate(data[:, column].tolist())} for column in range(3)]
    strangers = sum(
        abs(home[column][drawn[row, column].item()] - deciles[row]) > 0 for row in range(400) for column in range(3)
    )
    assert strangers <= 12  # a record on the edge of a decile may fall to either side
    swapped = (drawn != data).float().mean().item()
    assert 0.4 < swapped < 0.5


def test_without_a_graph_a_new_record_finds_a_donor():
    """A record far from all others would stop the run."""
    data = torch.zeros(30, 2)  # every record alike: one decile holds them all, the others none
    surrogates = TableSurrogates([[0], [1]], None)
    surrogates.fit(data, stream())
    far = torch.tensor([[100.0, -100.0], [-100.0, 100.0]])
    assert torch.isfinite(surrogates.draw(far, stream())).all()


def test_causes_are_all_ancestors_of_the_label(tmp_path):
    """A cause behind another cause would be taken for noise."""
    names = ["age", "bmi", "glucose", "outcome", "treatment"]
    strength = pd.DataFrame(0.0, index=names, columns=names)
    for cause, effect in [("age", "glucose"), ("glucose", "outcome"), ("outcome", "treatment"), ("age", "bmi")]:
        strength.loc[cause, effect] = 0.5
    CausalGraph(strength, dict.fromkeys(names, "clinic")).save(tmp_path / "graph.json")
    assert label_causes(str(tmp_path / "graph.json"), "outcome") == {"age", "glucose"}
    assert label_causes({"outcome": ["glucose"], "glucose": ["age"], "bmi": ["age"]}, "outcome") == {"age", "glucose"}
    assert label_causes({"outcome": ["glucose", "age"]}, None) == {"age", "glucose"}
    assert label_causes(["age"], None) == {"age"}


def test_bad_graphs_are_told(prepared, tmp_path):
    """A typing error would leave every column unprotected, in silence."""
    preparation, data = prepared
    with pytest.raises(ConfigError, match=r"cannot be read"):
        label_causes(str(tmp_path / "nowhere.json"), "outcome")
    (tmp_path / "other.json").write_text(json.dumps({"format": "recipe", "version": 1}))
    with pytest.raises(ConfigError, match=r"is no causal graph"):
        label_causes(str(tmp_path / "other.json"), "outcome")
    with pytest.raises(ConfigError, match=r"no variable 'outcom'.*did you mean 'outcome'"):
        label_causes({"outcome": ["age"]}, "outcom")
    with pytest.raises(ConfigError, match=r"which variable is the label"):
        label_causes({"outcome": ["age"], "bmi": ["age"]}, None)
    with pytest.raises(ConfigError, match=r"nothing is left to change"):
        table_surrogates(preparation, data.shape[1], ["town", "age", "bmi", "smoker"], None)


@pytest.mark.parametrize("graph", [["smokr", "a column of somebody else"], {"outcome": ["smokr"]}])
def test_causes_that_are_nobodys_column_are_told(prepared, graph):
    """A typing error would have every column replaced: uploads of no use, and no word about it."""
    preparation, data = prepared
    with pytest.raises(ConfigError, match=r"^causshield\.graph: no column of this party causes the label") as error:
        table_surrogates(preparation, data.shape[1], graph, None)
    assert error.value.remedy == "did you mean 'smoker'? Otherwise leave the graph out, or use another defense"


@pytest.mark.parametrize("graph", [[], ["income"], {"outcome": ["income"], "bmi": ["outcome"]}])
def test_a_party_without_a_cause_is_told_what_to_do(prepared, graph):
    """By a graph of the whole federation that is right, a party may hold effects alone."""
    preparation, data = prepared
    with pytest.raises(ConfigError, match="no column of this party causes the label") as error:
        table_surrogates(preparation, data.shape[1], graph, "outcome")
    assert error.value.remedy == "leave the graph out, or use another defense"
