"""If these fail, a hidden common cause that the data show is kept from its party, or is told to everybody."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.discover.curious import Curious
from colonnade.discover.decoders import Decoders
from colonnade.discover.residuals import Residuals, beside, standardised
from colonnade.discover.variables import prepare_columns

QUICK = {"epochs": 60, "refit_epochs": 30}
PARTIES = {"clinic": ["age", "bmi"], "lab": ["sugar", "salt"]}


def people(hidden: float, count: int = 500) -> pd.DataFrame:
    """Age and BMI share a cause that nobody measured, as strong as `hidden`; sugar follows age, salt nothing."""
    rng = np.random.default_rng(0)
    shared = hidden * rng.normal(size=count)
    age, bmi = (shared + rng.normal(size=count) for _ in range(2))
    sugar = np.tanh(age) + 0.3 * rng.normal(size=count)
    return pd.DataFrame({"age": age, "bmi": bmi, "sugar": sugar, "salt": rng.normal(size=count)})


def discover(frame, **options):
    """Sugar stands in for age, so BMI may not be joined to it either."""
    apart = {"forbidden": [["age", "bmi"], ["bmi", "age"], ["sugar", "bmi"], ["bmi", "sugar"]]}
    return co.discover(
        co.Federation.from_frame(frame, PARTIES), False, knowledge=apart, progress=False, **QUICK, **options
    )


def residual_notes(graph):
    return [note for note in graph.notes if note.startswith(("residuals", "what is left", "the spread"))]


def test_a_hidden_cause_of_variables_that_may_not_be_joined_is_told():
    (note,) = residual_notes(discover(people(hidden=1.0)))
    assert note.startswith("residuals of age and bmi at clinic are correlated (+0.")


def test_people_without_a_hidden_cause_are_not_warned():
    assert residual_notes(discover(people(hidden=0.0))) == []


def test_a_note_is_its_partys_own(tmp_path):
    """Which of a party's columns are correlated is nobody else's business; the coordinator keeps no such note."""
    discover(people(hidden=1.0), run=tmp_path / "run")
    kept = {name: co.CausalGraph.load(tmp_path / "run" / name / "graph.json") for name in (*PARTIES, "coordinator")}
    assert {name: len(residual_notes(graph)) for name, graph in kept.items()} == {
        "clinic": 1,
        "lab": 0,
        "coordinator": 0,
    }


def test_looking_changes_no_number():
    """Residuals are taken from what a party sees anyway: no message more, and the same graph."""

    class Counting(Curious):
        seen = 0

        def saw(self, step, rows, features, apart):
            self.seen += 1

    curious = Counting()
    frame = people(hidden=1.0)
    alone, watched = discover(frame), discover(frame, curious={"clinic": curious})
    assert curious.seen == 90 + 2, "every exchange, and two weighings"
    pd.testing.assert_frame_equal(alone.strengths, watched.strengths, check_exact=True)
    assert alone.cost["bytes"] == watched.cost["bytes"] and alone.notes == watched.notes


@pytest.mark.parametrize("variance", ["head", "scalar"])
def test_residuals_are_those_of_the_decoders_own_distributions(variance):
    """Against means and variances worked out from the decoders' weights, kind by kind."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({
        "number": rng.normal(3, 2, 200), "flag": rng.integers(0, 2, 200), "count": rng.poisson(3, 200),
        "town": rng.choice(["Bern", "Chur", "Thun"], 200), "other": rng.normal(size=200),
    })  # fmt: skip
    table.loc[3, "number"] = np.nan
    columns = prepare_columns(table, missing="impute")
    decoders = Decoders(columns.variables, 4, variance=variance, rng=rng)
    z = rng.normal(size=(200, 20))
    found = standardised(decoders, columns.variables, z, columns.target, columns.observed)
    expected = np.full((200, 5), np.nan)
    weights = decoders.state()
    for place, kind, own in ((0, "continuous", 0), (1, "binary", 0), (2, "count", 0), (4, "continuous", 1)):
        active = 1 / (1 + np.exp(-(z[:, 4 * place : 4 * place + 4] + weights["bias.1"][place])))
        outputs = active @ weights[f"{kind}.weight"][own] + weights[f"{kind}.bias"][own]
        mean = outputs[:, 0]
        if kind == "continuous":
            raw = weights["continuous.log_variance"][own] if variance == "scalar" else outputs[:, 1]
            spread = (np.exp(raw) if variance == "scalar" else np.log1p(np.exp(raw))) + 1e-3
        else:
            mean = 1 / (1 + np.exp(-mean)) if kind == "binary" else np.exp(mean)
            spread = mean * (1 - mean) if kind == "binary" else mean
        expected[:, place] = (columns.target[:, place] - mean) / np.sqrt(spread)
    expected[3, 0] = np.nan
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert np.isnan(found[:, 3]).all(), "the residual of a category is no number"


def test_what_is_linear_in_the_hidden_units_is_taken_out_and_nothing_else():
    rng = np.random.default_rng(2)
    known, noise = rng.normal(size=(300, 3)), rng.normal(size=300)
    left = beside(4.0 + known @ [1.0, -2.0, 0.5] + noise, known)
    assert np.abs(np.column_stack([np.ones(300), known]).T @ left).max() < 1e-9
    assert np.corrcoef(left, noise)[0, 1] > 0.98
    holes = np.where(np.arange(300) % 7, noise, np.nan)
    np.testing.assert_array_equal(np.isnan(beside(holes, known)), np.isnan(holes))
    assert np.isnan(beside(np.full(300, np.nan), known)).all()


def test_another_curious_one_may_look_on():
    heard = []

    class Listening(Curious):
        def answered(self, step, rows, update):
            heard.append("answered")

        def judged(self, step, incoming, restrict):
            heard.append("judged")

    residuals = Residuals(Listening())
    residuals.answered(0, np.arange(2), np.zeros((2, 1)))
    residuals.judged(0, {}, restrict=False)
    assert heard == ["answered", "judged"]
