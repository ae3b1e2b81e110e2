"""If these fail, a run is called an equilibrium that is none, or a party's own gain is hidden from it."""

import copy
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import colonnade as co
from colonnade.data.split import TRAIN, assign_split
from colonnade.errors import ConfigError
from colonnade.learn.equilibrium import best_response_gaps, trajectory
from colonnade.run import Run


@pytest.fixture(scope="module")
def line():
    """Two parties with one column each, and a target that is nearly a sum of both."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(300, 2)), columns=["age", "glucose"])
    table["outcome"] = 2 * table.age - table.glucose + rng.normal(size=300)
    return co.Federation.from_frame(table, {"clinic": ["age"], "lab": ["glucose"]}, label=("clinic", "outcome"))


@pytest.fixture(scope="module")
def linear(line):
    """A model that computes a1 (w1 x1 + b1) + a2 (w2 x2 + b2) + a0: biases keep both ReLUs on their straight half."""
    model = co.train(
        line,
        epochs=1,
        batch_size=1000,
        progress=False,
        network={"family": "mlp", "hidden": [1], "cut": 2},
        optimizer={"name": "sgd", "learning_rate": 0.2, "momentum": 0.5},
        weights={"strategy": "uniform"},
    )
    for party, weight in (("clinic", 0.5), ("lab", 1.5)):
        dense = model.parts[party].bottom.network[0]
        with torch.no_grad():
            dense.weight.fill_(weight)
            dense.bias.fill_(12.0)
    last = model.parts["clinic"].top.network.body[0]
    with torch.no_grad():
        last.weight.copy_(torch.tensor([[0.8, -0.6]]))
        last.bias.fill_(-2.0)
    return model


def training_records(model, federation):
    settings = model.agreement.task.split
    ids = federation.records["clinic"].ids
    return np.flatnonzero(assign_split(ids, settings.train, settings.validation, settings.test, 0) == TRAIN)


def by_least_squares(model, federation, party):
    """The party's value before, and after its best line through what the others leave over."""
    prepared = {}
    for name in ("clinic", "lab"):
        prepared[name] = model.parts[name].bottom.preparation.transform(federation.records[name])[:, 0].astype(float)
    target = model.parts["clinic"].top.label.transform(federation.records["clinic"].label).astype(float)
    train = training_records(model, federation)
    uploads = {"clinic": 0.5 * prepared["clinic"] + 12, "lab": 1.5 * prepared["lab"] + 12}
    slope, other = {"clinic": (0.8, "lab"), "lab": (-0.6, "clinic")}[party]
    rest = target - (-2.0 + {"lab": -0.6, "clinic": 0.8}[other] * uploads[other])
    before = np.mean((slope * uploads[party] - rest)[train] ** 2)
    design = np.stack([prepared[party], np.ones(300)], axis=1)[train]
    line = np.linalg.lstsq(design, rest[train], rcond=None)[0]
    return before / 2, np.mean((design @ line - rest[train]) ** 2) / 2


@pytest.mark.parametrize("party", ["clinic", "lab"])
def test_the_gap_is_what_least_squares_would_gain(linear, line, party):
    found = best_response_gaps(linear, steps=300).set_index("party").loc[party]
    before, after = by_least_squares(linear, line, party)
    assert found["q"] == 0.5 and found["alpha"] == 0 and math.isnan(found["c"])
    assert found["V"] == pytest.approx(before, rel=1e-4)
    assert found["V_after"] == pytest.approx(after, rel=1e-3)
    assert found["gap"] == pytest.approx(before - after, rel=1e-3)
    assert found["F"] == found["u"] == pytest.approx(-2 * before, rel=1e-4)
    assert found["validation_gap"] > 0


def test_nobody_gains_where_all_columns_together_have_their_best_plane(linear, line):
    """A convex game in which all want the same has its equilibrium at the common optimum."""
    model, train = copy.deepcopy(linear), training_records(linear, line)
    target = model.parts["clinic"].top.label.transform(line.records["clinic"].label).astype(float)
    columns = [model.parts[name].bottom.preparation.transform(line.records[name])[:, 0] for name in ("clinic", "lab")]
    design = np.stack([*columns, np.ones(300)], axis=1)
    plane = np.linalg.lstsq(design[train], target[train], rcond=None)[0]
    for party, weight in (("clinic", plane[0] / 0.8), ("lab", plane[1] / -0.6)):
        with torch.no_grad():
            model.parts[party].bottom.network[0].weight.fill_(weight)
    shift = 12 * (0.8 - 0.6) - 2.0 - plane[2]  # what both biases and the last one give too much
    with torch.no_grad():
        model.parts["clinic"].bottom.network[0].bias.sub_(shift / 0.8)
    fresh, settled = (best_response_gaps(one, line, steps=100)["gap"] for one in (linear, model))
    assert fresh.min() > 0.1
    assert settled.abs().max() < 1e-4


@pytest.fixture(scope="module")
def hiding():
    """The lab knows the answer and a secret beside it."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(900, 4))
    table = pd.DataFrame(values, columns=["age", "glucose", "insulin", "height"])
    table["outcome"] = np.where(0.3 * values[:, 0] + values[:, 1] > 0, "ill", "well")
    table["sex"] = np.where(values[:, 3] + 0.3 * rng.normal(size=900) > 0, "male", "female")
    parties = {"clinic": ["age"], "lab": ["glucose", "insulin", "height"]}
    return co.Federation.from_frame(table, parties, label=("clinic", "outcome"), secrets={"lab": ["sex"]})


def hidden(federation, epochs, cost="neg_ce"):
    return co.train(
        federation,
        {"name": "nashcoder", "alpha": 0.5, "cost": cost, "sigma": 0.5, "head_rate": 1e-2},
        epochs=epochs,
        batch_size=64,
        progress=False,
        optimizer={"learning_rate": 3e-3, "schedule": "cosine"},
        weights={"strategy": "shapley", "every": 2},
    )


@pytest.fixture(scope="module")
def trained(hiding):
    return hidden(hiding, 25)


def test_a_converged_run_leaves_less_to_gain_than_a_fresh_one(hiding, trained):
    fresh, converged = (best_response_gaps(model).set_index("party") for model in (hidden(hiding, 1), trained))
    for kind in ("gap", "validation_gap"):
        assert fresh.loc["lab", kind] > 0.05
        assert abs(converged.loc["lab", kind]) < fresh.loc["lab", kind] / 5
        assert abs(converged.loc["clinic", kind]) < fresh.loc["clinic", kind]


def test_values_fit_together(trained):
    found = best_response_gaps(trained, steps=5).set_index("party")
    for kind in ("", "validation_"):
        lab, clinic = found.loc["lab"], found.loc["clinic"]
        assert lab[f"{kind}V"] == pytest.approx(0.5 * lab[f"{kind}c"] - lab["q"] * lab[f"{kind}u"])
        assert clinic[f"{kind}V"] == pytest.approx(-clinic["q"] * clinic[f"{kind}u"])
        assert lab[f"{kind}F"] == clinic[f"{kind}F"] == pytest.approx(lab[f"{kind}u"] - 0.5 * lab[f"{kind}c"])
        # Definition of the decomposition: what all want is the sum of what each wants (Eq. 2).
        assert -found[f"{kind}V"].sum() == pytest.approx(lab[f"{kind}F"])
        assert (found[f"{kind}gap"] == found[f"{kind}V"] - found[f"{kind}V_after"]).all()


def test_weights_are_those_of_the_epoch_whose_networks_are_measured(hiding):
    """With patience a model has the networks of its best epoch; with another epoch's weights V would be nobody's."""
    model = co.train(
        hiding,
        epochs=60,
        batch_size=64,
        progress=False,
        patience=3,
        split={"train": 0.5, "validation": 0.4, "test": 0.1},
        optimizer={"learning_rate": 0.01},
        weights={"strategy": "shapley", "every": 1},
    )
    best = model.parts["clinic"].result["best_epoch"]
    assert best < len(model.history) - 1, "else the last epoch was the best"
    found = best_response_gaps(model, federation=hiding, steps=1).set_index("party")
    for party in ("clinic", "lab"):
        assert found.loc[party, "q"] == model.history[f"weight_{party}"].iloc[best]
        assert found.loc[party, "q"] != model.history[f"weight_{party}"].iloc[-1]


def test_a_cost_is_that_of_a_head_that_knows_what_can_be_known(hiding, trained):
    """An undertrained or overfitted head would call a leak safe."""
    plain = co.train(
        hiding, {"name": "nashcoder", "alpha": 0.0, "cost": "neg_ce", "sigma": 0.0}, epochs=3, batch_size=64,
        progress=False,
    )  # fmt: skip
    leaking = best_response_gaps(plain, steps=1).set_index("party").loc["lab"]
    safe = best_response_gaps(trained, steps=1).set_index("party").loc["lab"]
    assert -leaking["c"] < 0.4, "the secret is nearly a column of the lab's"
    assert 0.55 < -safe["c"] < 0.75, "a head that knows nothing pays 0.69"


def test_the_model_stays_as_it_is(trained):
    before = {party: snapshot(part) for party, part in trained.parts.items()}
    first, again = best_response_gaps(trained, steps=3), best_response_gaps(trained, steps=3)
    pd.testing.assert_frame_equal(first, again)
    for party, part in trained.parts.items():
        after = snapshot(part)
        assert before[party].keys() == after.keys()
        assert all(torch.equal(before[party][name], after[name]) for name in after)


def snapshot(part):
    found = {**part.bottom.network.state_dict(), **part.bottom.defense.state_dict()}
    found |= part.top.network.state_dict(prefix="top.") if part.top else {}
    return {name: tensor.clone() for name, tensor in found.items()}


def test_a_loaded_model_is_measured_with_the_records_it_is_given(hiding, trained, tmp_path):
    trained.save(tmp_path / "model")
    loaded = co.load(tmp_path / "model")
    with pytest.raises(ConfigError, match="records"):
        best_response_gaps(loaded)
    found, expected = best_response_gaps(loaded, hiding, steps=1), best_response_gaps(trained, steps=1)
    pd.testing.assert_frame_equal(found.drop(columns=changing(found)), expected.drop(columns=changing(found)))


@pytest.mark.parametrize("steps", [-1, 2.5, True])
def test_steps_are_a_number_of_steps(trained, steps):
    with pytest.raises(ConfigError, match="is not allowed") as caught:
        best_response_gaps(trained, steps=steps)
    assert (caught.value.where, caught.value.remedy) == ("steps", "give a whole number of at least 0")


def changing(frame):
    """Columns that depend on the heads, which a loaded model has lost, through the one step."""
    return [name for name in frame if name.endswith(("V_after", "gap"))]


def test_records_that_a_party_lacks_count_with_its_mean_upload():
    rng = np.random.default_rng(0)
    ids = np.arange(200)
    clinic = pd.DataFrame({"id": ids, "age": rng.normal(size=200)})
    clinic["outcome"] = np.where(clinic.age + rng.normal(size=200) > 0, "ill", "well")
    lab = pd.DataFrame({"id": ids[:150], "glucose": rng.normal(size=150)})
    federation = co.Federation.from_frames({"clinic": clinic, "lab": lab}, label=("clinic", "outcome"), id_column="id")
    rows = {"clinic": np.arange(200), "lab": np.where(ids < 150, ids, -1)}
    model = co.train(federation.aligned(rows), epochs=3, batch_size=32, progress=False, missing="impute")
    found = best_response_gaps(model, steps=5)
    assert np.isfinite(found[["u", "V", "V_after", "validation_gap"]].to_numpy()).all()
    assert found["u"].iloc[0] == pytest.approx(-model.history["train_loss"].iloc[-1], abs=0.1)


def test_the_trajectory_joins_what_each_party_logged(trained):
    frame = trajectory(trained)
    history, own = trained.history, pd.DataFrame(trained.parts["lab"].result["history"])
    assert list(frame["epoch"]) == list(range(25))
    np.testing.assert_array_equal(frame["u"], -history["train_loss"])
    np.testing.assert_array_equal(frame["q_lab"], history["weight_lab"])
    np.testing.assert_array_equal(frame["privacy_lab_sex"], own["head_loss_sex"])
    np.testing.assert_allclose(frame["F"], frame["u"] + 0.5 * own["head_loss_sex"])
    weights = history[["weight_clinic", "weight_lab"]].to_numpy()
    distances = [math.dist(weights[row], weights[row - 1]) for row in range(1, 25)]
    np.testing.assert_allclose(frame["q_distance"], [math.nan, *distances])


def test_what_was_not_logged_is_not_guessed(hiding):
    """The mean of capped losses is not the cap of their mean: without the cost in the log there is no F."""
    model = hidden(hiding, 2, cost="capped_ce")
    logged = "cost_sex" in model.parts["lab"].result["history"][0]
    assert trajectory(model)["F"].notna().all() == logged
    del model.parts["lab"]
    assert trajectory(model)["F"].isna().all()


@pytest.fixture(scope="module")
def everybody_hides(hiding):
    """The clinic, which is active, has a secret of its own."""
    clinic = hiding.records["clinic"]
    tall = pd.DataFrame({"tall": np.where(clinic.table["age"] > 0, "yes", "no")}, index=clinic.ids)
    return replace(hiding, records={**hiding.records, "clinic": replace(clinic, secrets=tall)})


HIDE = {"name": "nashcoder", "alpha": 0.5, "sigma": 0.5}


@pytest.mark.parametrize("labels", ["server", "shared"])
def test_what_the_active_party_hides_counts_too(everybody_hides, labels, tmp_path):
    """F told that all did well while the price of the active party's secret was left out, and nobody could see it."""
    chosen, settings = {"clinic": HIDE, "lab": HIDE}, {"epochs": 3, "batch_size": 64, "labels": labels}
    model = co.train(everybody_hides, chosen, progress=False, run=tmp_path, **settings)
    frame, history = trajectory(model), model.history
    np.testing.assert_array_equal(frame["privacy_clinic_tall"], history["head_loss_tall"])
    np.testing.assert_array_equal(frame["c_clinic_tall"], history["cost_tall"])
    np.testing.assert_allclose(frame["F"], frame["u"] - 0.5 * (frame["c_clinic_tall"] + frame["c_lab_sex"]))
    logged = Run.open(tmp_path / "clinic").metrics()
    np.testing.assert_array_equal(logged["head_loss_tall"].dropna(), history["head_loss_tall"])
    np.testing.assert_array_equal(logged["train_loss"].dropna(), history["train_loss"])


@pytest.mark.parametrize("party", ["clinic", "lab"])
def test_losses_that_are_no_heads_make_no_cost_known(everybody_hides, party):
    """A model that logged nothing of its heads was given an F in which hiding cost nothing."""
    model = co.train(everybody_hides, {"clinic": HIDE, "lab": HIDE}, epochs=1, batch_size=64, progress=False)
    result = model.parts[party].result
    result["history"] = [
        {name: value for name, value in row.items() if "tall" not in name and "sex" not in name} | {"psi": 1.0}
        for row in result["history"]
    ]
    assert trajectory(model)["F"].isna().all()


def test_without_secrets_and_weights_the_common_value_is_that_of_the_task(line):
    frame = trajectory(co.train(line, epochs=2, progress=False))
    assert list(frame) == ["epoch", "u", "F"]
    assert (frame["u"] == frame["F"]).all()


def game_with_known_constants(alpha, rho=0.5):
    """Two parties, one column each; u is minus a squared error, c_k = w_k², q_k = 1/2: all in closed form.

    The constants are read as in the page on the paper: L of F, L_0 of how the optimum moves with α, L_c of how a best
    response does, L_q of how it moves with the other party; each the largest value on the way from 0 to α.
    """
    among = np.array([[1, rho], [rho, 1]])
    wanted = np.array([2 - rho, 2 * rho - 1])  # y = 2 x1 - x2 + noise

    def best(penalty):
        return np.linalg.solve(among + penalty * np.eye(2), wanted)

    def common(w):
        return 2 * wanted @ w - w @ among @ w - alpha * w @ w  # F but for a constant

    way = np.linspace(0, alpha, 201)
    optimum, equilibrium = best(alpha), best(2 * alpha)
    slope = max(np.linalg.norm(2 * wanted - 2 * among @ best(p) - 2 * alpha * best(p)) for p in 2 * way)
    l_0 = max(np.linalg.norm(np.linalg.solve(among + p * np.eye(2), best(p))) for p in way)
    l_c = max(2 * abs(wanted[k] - rho * best(2 * p)[1 - k]) / (1 + 2 * p) ** 2 for p in way for k in (0, 1))
    bound = alpha * slope * (l_0 + 2 * l_c / (1 - rho))
    return common(optimum) - common(equilibrium), bound, common(optimum)


@pytest.mark.parametrize(
    ("alpha", "gap", "bound", "nothing"),
    [(0.05, 0.015, 0.23, 2.8), (0.2, 0.087, 3.6, 2.3), (1.0, 0.157, 91, 1.2), (2.0, 0.131, 363, 0.77)],
)
def test_theorem_4_2_where_all_its_constants_are_known(alpha, gap, bound, nothing):
    """The page on the paper shows these numbers: the bound holds, and says less than that nobody should upload."""
    found = game_with_known_constants(alpha)
    assert found == pytest.approx((gap, bound, nothing), rel=0.02)
    assert 0 < found[0] < found[1]
