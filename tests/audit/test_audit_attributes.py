"""If these fail, a party learns too late, or wrongly, that its uploads tell what it named sensitive."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from audit_parts import PARTIES, SETTINGS, picture_federation, table

import colonnade as co
from colonnade.attack.attribute import make_attribute_attacker
from colonnade.audit.attribute_result import AttributeResult
from colonnade.audit.attribute_views import everybodys, together, views
from colonnade.audit.held_out import divide, held_out_of
from colonnade.errors import ConfigError, DataError, RunError
from colonnade.learn.model import VerticalModel
from colonnade.measure.classify import accuracy
from colonnade.progress import Progress

RECORDS = 700
QUICK = {"attackers": "linear", "seeds": 1, "progress": False}


def secret_table():
    """Sex follows glucose at the lab; what is owed follows glucose and claims; dose is a number."""
    frame, random = table(RECORDS), np.random.default_rng(1)
    sugar, claims = frame["glucose"] - 5, frame["claims"] - 2
    return frame.assign(
        sex=np.where(sugar + 0.3 * random.normal(size=RECORDS) > 0.3, "female", "male"),
        debt=np.where(sugar * 1.4 + claims > 0, "much", "little"),
        dose=(2 * sugar + 0.5 * random.normal(size=RECORDS)),
    )


def secret_model(defense="none", seed=0, secrets=None):
    hidden = {"lab": ["sex", "dose"], "insurer": ["debt"]} if secrets is None else secrets
    federation = co.Federation.from_frame(secret_table(), PARTIES, label=("clinic", "outcome"), secrets=hidden)
    return co.train(federation, defense, seed=seed, progress=False, **SETTINGS)


@pytest.fixture(scope="module")
def model():
    return secret_model()


@pytest.fixture(scope="module")
def result(model):
    return co.audit_attributes(model, attackers=["linear", "boosting"], seeds=3, progress=False, dataset="patients")


def row(frame, **keys):
    for name, value in keys.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1, frame
    return frame.iloc[0].to_dict()


def test_the_numbers_are_those_of_an_attack_done_by_hand(model):
    found = co.audit_attributes(model, attackers="linear", seeds=[4], progress=False).to_frame()
    auxiliary, targets = divide(held_out_of(model, None, None), 0.5, 10_000, seed=4)
    bottom, sexes = model.parts["lab"].bottom, secret_table()["sex"]
    known, wanted = (part.records["lab"] for part in (auxiliary, targets))
    y, truth = ((sexes.loc[part.ids] == "male").astype(int).to_numpy() for part in (known, wanted))
    mine = row(found, client="lab", secret="sex")
    guesses = make_attribute_attacker("linear", seed=4).fit(bottom.upload(known), y).predict(bottom.upload(wanted))
    assert mine["leak"] == accuracy(guesses, truth)
    raw = [bottom.preparation.transform(part) for part in (known, wanted)]
    ceiling = make_attribute_attacker("linear", seed=4).fit(raw[0], y).predict(raw[1])
    assert mine["ceiling"] == accuracy(ceiling, truth)
    assert mine["majority"] == np.mean(truth == round(y.mean()))
    assert mine["target"] == model.scores["accuracy"]


def test_every_client_secret_and_attacker_has_a_row_and_its_keys_are_the_agreed_ones(result):
    frame = result.to_frame()
    rows = {("lab", "sex"), ("lab", "dose"), ("insurer", "debt"), ("all", "sex"), ("all", "dose"), ("all", "debt")}
    assert {(one["client"], one["secret"]) for one in frame.to_dict("records")} == rows
    assert len(frame) == 2 * len(rows)
    measured = ["leak", "leak_f1", "majority", "majority_f1", "ceiling", "ceiling_f1", "target"]
    assert set(frame.columns) == {
        "dataset", "method", "client", "secret", "attacker", "seeds", *measured, *(f"{name}_ci" for name in measured),
    }  # fmt: skip
    assert set(frame["dataset"]) == {"patients"} and set(frame["method"]) == {"none"} and set(frame["seeds"]) == {3}


def test_a_leak_lies_between_floor_and_ceiling(result):
    worst = result.worst()
    sex = row(worst, client="lab", secret="sex")
    assert sex["attacker"] == "max"
    assert sex["majority"] + 0.1 < sex["leak"] <= sex["ceiling"] + 0.02
    dose = row(worst, client="lab", secret="dose")
    assert dose["majority"] == 0 and math.isnan(dose["leak_f1"])
    assert 0.3 < dose["leak"] <= dose["ceiling"] + 0.02


def test_all_uploads_together_tell_what_no_party_tells_alone(result):
    """The active party has them all: a party that looks at its own uploads alone would feel safe."""
    worst = result.worst()
    alone, pooled = (row(worst, client=client, secret="debt") for client in ("insurer", "all"))
    assert pooled["leak"] > alone["leak"] + 0.05
    assert pooled["ceiling"] > alone["ceiling"] + 0.05


def test_the_worst_case_takes_the_best_attacker_of_each_seed(result):
    worst = row(result.worst(), client="lab", secret="sex")
    mine = result.per_seed[(result.per_seed["client"] == "lab") & (result.per_seed["secret"] == "sex")]
    best = [group["leak"].max() for _, group in mine.groupby("seed")]
    assert worst["leak"] == pytest.approx(np.mean(best))
    assert worst["leak"] >= result.to_frame().query("client == 'lab' and secret == 'sex'")["leak"].max()


def test_under_much_noise_what_is_left_is_the_majority():
    noisy = secret_model({"name": "gaussian", "sigma": 1000.0})
    found = co.audit_attributes(noisy, attackers="linear", seeds=2, progress=False).to_frame()
    assert set(found["method"]) == {"gaussian"}
    sex = row(found, client="lab", secret="sex")
    assert sex["leak"] == pytest.approx(sex["majority"], abs=0.02)
    assert sex["ceiling"] > sex["majority"] + 0.1
    again = co.audit_attributes(noisy, attackers="linear", seeds=2, progress=False).to_frame()
    pd.testing.assert_frame_equal(found, again)


def test_given_secrets_stand_before_those_of_the_records_and_need_not_be_complete(model):
    known = secret_table()["sex"].eq("male").astype(int).to_frame()
    found = co.audit_attributes(model, secrets={"lab": known}, **QUICK).to_frame()
    assert set(found["secret"]) == {"sex"} and set(found["client"]) == {"lab", "all"}
    half = co.audit_attributes(model, secrets={"insurer": known.iloc[::2]}, **QUICK).to_frame()
    assert 0 < row(half, client="insurer")["leak_f1"] < 1, "whole numbers with gaps are classes still"


def test_a_loaded_model_and_one_partys_own_part_can_be_audited(model, tmp_path):
    loaded = co.load(model.save(tmp_path))
    whole = co.audit_attributes(model, **QUICK).to_frame()
    pd.testing.assert_frame_equal(co.audit_attributes(loaded, model.federation, **QUICK).to_frame(), whole)
    alone = VerticalModel(model.agreement, {"lab": model.parts["lab"]})
    mine = co.audit_attributes(
        alone, records={"lab": held_out_of(model, None, None).records["lab"]}, **QUICK
    ).to_frame()
    assert set(mine["client"]) == {"lab"}, "there is nobody to put together with"
    assert row(mine, secret="sex")["leak"] == row(whole, client="lab", secret="sex")["leak"]
    assert math.isnan(row(mine, secret="sex")["target"])


def test_intervals_are_over_models_where_there_are_several(model, result):
    """Audits of one model agree with each other more than trainings do: the interval would be too narrow."""
    assert math.isnan(result.to_frame()["target_ci"].iloc[0]), "one model has one score"
    other = co.audit_attributes(secret_model(seed=1), attackers=["linear", "boosting"], seeds=2, progress=False)
    both = AttributeResult(pd.concat([result.per_seed, other.per_seed.assign(dataset="patients")]))
    found = row(both.to_frame(), client="lab", secret="sex", attacker="linear")
    means = [row(one.to_frame(), client="lab", secret="sex", attacker="linear")["leak"] for one in (result, other)]
    assert found["seeds"] == 2
    assert found["leak"] == pytest.approx(np.mean(means))
    assert found["leak_ci"] == pytest.approx(12.706 * abs(means[0] - means[1]) / 2, rel=1e-3)
    assert found["target_ci"] > 0
    apart = AttributeResult(pd.concat([result.per_seed.assign(alpha=0.5), result.per_seed.assign(alpha=1.0)]))
    assert len(apart.to_frame()) == 2 * len(result.to_frame())


def test_a_result_is_kept_and_prints_on_one_screen(result, tmp_path):
    kept = AttributeResult.load(result.save(tmp_path))
    pd.testing.assert_frame_equal(kept.to_frame(), result.to_frame())
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "attributes.parquet"), result.to_frame())
    assert kept.settings == dict(result.settings)
    printed = repr(result)
    assert len(printed.splitlines()) <= 35
    assert "lab's uploads tell sex of" in printed and "blindly" in printed and "R²" in printed
    with pytest.raises(RunError, match="no result of an audit of secrets"):
        AttributeResult.load(tmp_path / "nowhere")
    with pytest.raises(RunError, match="cannot be written: File exists"):
        result.save(tmp_path / "attributes.json")
    (tmp_path / "attributes.json").write_text("{}")
    with pytest.raises(RunError, match="damaged"):
        AttributeResult.load(tmp_path)


def test_pictures_are_read_by_convolutions_too():
    federation = picture_federation(200)
    images = federation.records["left"].images
    bright = pd.DataFrame({"bright": images.mean((1, 2, 3)) > 0.5})
    model = co.train(
        federation, progress=False, **{**SETTINGS, "epochs": 1, "network": {"family": "resnet18", "cut": 1}}
    )
    found = co.audit_attributes(model, secrets={"left": bright}, attackers=("linear", "conv"), seeds=1, progress=False)
    assert {(one["client"], one["attacker"]) for one in found.to_frame().to_dict("records")} == {
        ("left", "linear"), ("left", "conv"), ("all", "linear"), ("all", "conv"),
    }  # fmt: skip
    assert "fewer than 3 seeds" in repr(found)


def test_uploads_are_put_together_as_maps_where_they_fit():
    maps, wide, vector = torch.zeros(5, 2, 4, 4), torch.zeros(5, 2, 4, 8), torch.zeros(5, 3)
    assert together([maps, maps]).shape == (5, 4, 4, 4)
    assert together([maps, wide]).shape == (5, 2 * 16 + 2 * 32)
    assert together([maps, vector]).shape == (5, 35)


def test_noise_of_one_party_does_not_uncover_another():
    """Were noise the same at all parties, whoever pools uploads would subtract it, and no defense would look good."""
    loud = secret_model({"name": "gaussian", "sigma": 100.0})
    held = held_out_of(loud, None, None)
    hidden = {party: records.secrets for party, records in held.records.items() if records.secrets is not None}
    pooled = next(view for view in views(loud, divide(held, 0.5, 1000, 0), hidden, 0) if view.client == "all")
    lab, insurer = pooled.uploads.targets.chunk(2, dim=1)
    assert abs(np.corrcoef(lab.flatten(), insurer.flatten())[0, 1]) < 0.1


def test_secrets_of_one_name_are_one_only_if_they_are_the_same():
    one, other = pd.DataFrame({"sex": [0, 1, 1]}), pd.DataFrame({"sex": [0, 1, 0]})
    assert list(everybodys({"lab": one, "bank": one})) == ["sex"]
    assert list(everybodys({"lab": one, "bank": other})) == ["sex of lab", "sex of bank"]


def rare_secrets():
    """One column that half of the lab's records have, one that hardly any has, one that hardly ever differs."""
    frame = secret_table()
    place = np.arange(RECORDS)
    rare = pd.Series(np.where(place % 40 == 0, place % 80 // 40, None), frame.index)
    constant = pd.Series(["no"] * RECORDS, frame.index)
    return frame[["sex"]].assign(rare=rare, constant=constant)


class Heard(Progress):
    """Remembers what was said."""

    def __init__(self):
        self.said = []

    def message(self, text):
        self.said.append(text)


def test_one_rare_secret_does_not_cost_the_audit_of_the_others(model, tmp_path):
    heard = Heard()
    found = co.audit_attributes(model, secrets={"lab": rare_secrets()}, **{**QUICK, "seeds": 3, "progress": heard})
    frame = found.to_frame()
    assert set(frame["secret"]) == {"sex"} and set(frame["client"]) == {"lab", "all"} and set(frame["seeds"]) == {3}
    rare, constant = found.notes
    assert rare.startswith("left out: lab: secret 'rare': it is known of")
    assert constant.startswith("left out: lab: secret 'constant': is the same in all")
    assert heard.said == [rare, constant], "each once, and not with every seed"
    assert AttributeResult.load(found.save(tmp_path)).notes == found.notes
    assert rare in repr(found)


def test_a_secret_that_one_draw_finds_constant_is_audited_with_the_other_seeds(model):
    """What one seed draws is chance: it is no reason to tell people that there is nothing to hide."""
    ids = held_out_of(model, None, None).records["lab"].ids
    drawn = divide(held_out_of(model, None, None), 0.5, 10_000, 0)[0].records["lab"].ids
    seldom = pd.DataFrame({"sex": secret_table()["sex"], "seldom": "no"}).loc[ids]
    seldom.loc[~seldom.index.isin(drawn), "seldom"] = "yes"
    found = co.audit_attributes(model, secrets={"lab": seldom}, attackers="linear", seeds=[0, 1, 2], progress=False)
    frame = found.to_frame()
    assert row(frame, client="lab", secret="sex")["seeds"] == 3
    assert row(frame, client="lab", secret="seldom")["seeds"] == 2
    (note,) = found.notes
    assert "with seed 0: lab: secret 'seldom': is the same in all" in note and "hold out more records" in note
    with pytest.raises(DataError, match=r"hold out more records \(split.test"):
        co.audit_attributes(model, secrets={"lab": seldom[["seldom"]]}, **QUICK)


def test_where_no_secret_is_left_one_error_tells_all_reasons(model):
    hopeless = rare_secrets()[["rare", "constant"]]
    with pytest.raises(DataError, match=r"'rare': it is known of.*'constant': is the same.*hold out more records"):
        co.audit_attributes(model, secrets={"lab": hopeless}, **QUICK)


def test_secrets_can_be_given_as_a_series_or_by_their_names(model):
    sexes = secret_table()[["sex"]]
    whole = co.audit_attributes(model, secrets={"lab": sexes}, **QUICK).to_frame()
    for given in (sexes["sex"], ["sex"], "sex"):
        found = co.audit_attributes(model, secrets={"lab": given}, **QUICK).to_frame()
        pd.testing.assert_frame_equal(found, whole)
    feature = co.audit_attributes(model, secrets={"lab": ["city"]}, **QUICK).to_frame()
    assert set(feature["secret"]) == {"city"}, "a column may be a feature and still be no business of the others"


def test_with_shared_labels_the_active_partys_uploads_are_audited_too():
    """All parties are shown them: its secret would be told without anybody having tried."""
    frame = secret_table().assign(old=lambda one: np.where(one["age"] > 50, "old", "young"))
    made = co.Federation.from_frame(frame, PARTIES, label=("clinic", "outcome"), secrets={"clinic": ["old"]})
    shared, server = (co.train(made, progress=False, labels=who, **SETTINGS) for who in ("shared", "server"))
    found = co.audit_attributes(shared, **QUICK).to_frame()
    assert set(found["client"]) == {"clinic", "all"}
    assert row(found, client="clinic")["leak"] > row(found, client="clinic")["majority"] + 0.2
    assert set(held_out_of(shared, None, None).records) == set(PARTIES)
    with pytest.raises(ConfigError, match=r"no audited party has a secret \(name sensitive columns of a passive party"):
        co.audit_attributes(server, **QUICK)
    alone = VerticalModel(shared.agreement, {"clinic": shared.parts["clinic"]})
    own = {"clinic": held_out_of(shared, None, None).records["clinic"]}
    assert set(co.audit_attributes(alone, records=own, **QUICK).to_frame()["client"]) == {"clinic"}
    with pytest.raises(ConfigError, match="'lab' is not audited: its part of the model is not here"):
        co.audit_attributes(alone, records=own, secrets={"lab": frame[["sex"]]}, **QUICK)


def test_what_can_not_be_audited_is_told(model):
    sexes = secret_table()[["sex"]]
    for wrong, error, said in (
        ({"secrets": {"clinic": sexes}}, ConfigError, "'clinic' is not audited"),
        ({"secrets": {"lap": sexes}}, ConfigError, "there is no party 'lap'.*did you mean 'lab'"),
        ({"secrets": {"lab": ["sax"]}}, ConfigError, "no column 'sax'.*one row per record; did you mean 'sex'"),
        ({"secrets": {"lab": {"sex": 1}}}, ConfigError, "dict is no frame .give a frame with these columns"),
        ({"secrets": sexes}, ConfigError, "DataFrame does not say whose"),
        ({"secrets": {}}, ConfigError, "no audited party has a secret"),
        ({"secrets": {"lab": sexes.assign(sex="male")}}, DataError, "secret 'sex': is the same in all"),
        ({"secrets": {"lab": sexes.reset_index(drop=True)}}, DataError, "lab: secrets: no record can be found"),
        ({"secrets": {"lab": sexes.iloc[:60]}}, DataError, "it is known of"),
        ({"attackers": "linaer"}, ConfigError, "did you mean 'linear'"),
        ({"attackers": []}, ConfigError, "no attacker was chosen"),
        ({"attackers": "conv"}, ConfigError, "conv can't read uploads"),
        ({"pairs": 5}, ConfigError, "pairs: 5 is not allowed"),
        ({"auxiliary": 2.0}, ConfigError, "no share of the records"),
    ):
        with pytest.raises(error, match=said):
            co.audit_attributes(model, **{**QUICK, **wrong})
    with pytest.raises(ConfigError, match="no audited party has a secret"):
        co.audit_attributes(secret_model(secrets={}), **QUICK)


@pytest.mark.slow
def test_adult_without_the_column_still_tells_sex(shared_data):
    """Whoever drops the sensitive column and feels safe: marital status, relationship and occupation tell it."""
    parties = {
        "employer": ["occupation", "hours_per_week", "capital_gain", "capital_loss"],
        "registry": ["marital_status", "relationship", "race", "native_country"],
    }
    data = co.load_dataset("adult", shared_data / "tabular")
    frame = data.table.assign(income=data.label, part=data.split)
    federation = co.Federation.from_frame(
        frame, parties, label=("bank", "income"), split="part", secrets={party: ["sex"] for party in parties}
    )
    model = co.train(federation, seed=0, progress=False, epochs=3)
    worst = co.audit_attributes(model, attackers=["linear", "boosting"], seeds=1, progress=False).worst()
    found = {one["client"]: one for one in worst.to_dict("records")}
    assert 0.65 < found["registry"]["majority"] < 0.69
    assert found["registry"]["leak"] > found["registry"]["majority"] + 0.08
    assert found["all"]["leak"] > found["registry"]["leak"] + 0.03
    assert found["all"]["leak"] < found["all"]["ceiling"] + 0.02
