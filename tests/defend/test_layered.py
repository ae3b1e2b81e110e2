"""Layers of defenses: if these fail, a party believes in two protections and has one, or claims what is not true."""

from __future__ import annotations

import copy
import inspect
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from learned_parts import copied, dense_bottom, one_step, seeded, set_up, vectors
from torch import nn

import colonnade as co
from colonnade.data.secrets import Secret
from colonnade.defend import DEFENSES, Defense, Layered, PrivacySpend, make_defense
from colonnade.defend.accounting import composed_epsilon
from colonnade.errors import ConfigError
from colonnade.federation.files import PartyFile
from colonnade.learn.equilibrium import best_response_gaps, trajectory
from colonnade.learn.join import defense_of
from colonnade.measure.dependence import distance_correlation
from colonnade.nets import upload_shape

COUNT = 32
NARROW = {"name": "bottleneck", "channels": 3, "sigma": 0.5, "adversary": 0.0}
HIDDEN = {"name": "nashcoder", "alpha": 0.5, "sigma": 0.5}
BOTH = {"name": "layered", "layers": [NARROW, HIDDEN]}


def sex(count=COUNT):
    return Secret("sex", np.arange(count) % 2, 2)


def at_work(defense, bottom=None, seed=0):
    if defense.needs_secrets:
        defense.seed(seed)
        defense.confide([sex()])
    return set_up(defense, bottom or dense_bottom(), vectors(COUNT), seed=seed)


class Named(Defense):
    """A layer of another package: changes records in a way that the order shows."""

    name = "named"

    def __init__(self, change=None):
        super().__init__()
        self.change = change

    def disguise(self, x):
        return self.change(x) if self.change else x


# -- each method against its obvious version ---------------------------------------------------------------------------


@pytest.mark.parametrize("train", [True, False])
def test_the_upload_of_one_layer_is_the_representation_of_the_next(train):
    layered = Layered([{"name": "gaussian", "sigma": 0.5}, "quantise"])
    noise, rounded = make_defense("gaussian", sigma=0.5), make_defense("quantise")
    layered.seed(4)
    noise.generator = rounded.generator = seeded(4)
    x, h = vectors(8), vectors(8, 10)
    for _ in range(2):
        expected = rounded.protect(x, noise.protect(x, h, train), train)
        assert torch.equal(layered.protect(x, h, train), expected)


def test_what_layers_append_stands_behind_the_bottom_in_their_order():
    layered = Layered([NARROW, {"name": "hashvfl", "bits": 2}])
    narrow, coded = make_defense("bottleneck", channels=3, adversary=0.0), make_defense("hashvfl", bits=2)
    layered.seed(4)
    narrow.generator = coded.generator = seeded(4)
    found = layered.extend(dense_bottom(), (6,))
    expected = coded.extend(narrow.extend(dense_bottom(), (6,)), (6,))
    assert str(found) == str(expected) and upload_shape(found, (6,)) == (2,)
    for ours, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["gaussian", "nashcoder", "bottleneck", "nopeek", "disco", "d3sfl", "prifu"])
def test_a_stack_of_one_is_that_defense_bit_for_bit(name):
    stacked, alone = at_work(Layered([name])), at_work(make_defense(name))
    for _ in range(3):
        assert torch.equal(one_step(stacked)[0], one_step(alone)[0])
    ours, theirs = stacked.network.state_dict(), alone.network.state_dict()
    assert [key for key in theirs if not torch.equal(ours[key], theirs[key])] == []
    assert stacked.defense.meters() == alone.defense.meters()


def test_a_layers_own_loss_joins_at_its_own_upload():
    """Noise before it, pruning behind it: all of it in one formula, and autograd."""
    defense = Layered(
        [{"name": "gaussian", "sigma": 0.5}, {"name": "nopeek", "weight": 0.3}, {"name": "prune", "rate": 0.5}]
    )
    made, data = at_work(defense), vectors(COUNT)
    grad = torch.randn(COUNT, 10, generator=seeded(9))
    upload = made.upload(torch.arange(COUNT), train=True)
    made.defense.backward(data, made._pending.h, made._pending.upload, grad)
    found = copied({name: weight.grad for name, weight in made.network.named_parameters()})

    bottom = dense_bottom()
    noisy = bottom(data) + 0.5 * torch.randn(COUNT, 10, generator=seeded(0))
    sent = noisy * (noisy.abs() >= noisy.abs().sort(1).values[:, 5:6])
    assert torch.equal(upload, sent)
    (0.7 * (sent * grad).sum() + 0.3 * distance_correlation(data, noisy)).backward()
    for name, weight in bottom.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, atol=1e-5, rtol=1e-5)


class Scaling(Defense):
    """A layer that trains a factor of its own while it protects."""

    name = "scaling"

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))

    def protect(self, x, h, train):
        return self.factor * h


@pytest.mark.parametrize("order", ["before", "behind"])
def test_layers_without_a_way_back_of_their_own_pass_the_gradient_on_and_learn(order):
    scaling, game = Scaling(), make_defense("nopeek", weight=0.3)
    made = at_work(Layered([scaling, game] if order == "before" else [game, scaling]))
    upload, grad = one_step(made, rate=0.0)
    h, other = dense_bottom()(vectors(COUNT)), torch.tensor(2.0, requires_grad=True)
    seen = other * h if order == "before" else h
    (0.7 * (other * h * grad).sum() + 0.3 * distance_correlation(vectors(COUNT), seen)).backward()
    # What comes behind the game learns the task alone; what comes before it learns both.
    expected = other.grad if order == "before" else (h * grad).sum()
    assert torch.equal(upload, (2 * h).detach())
    torch.testing.assert_close(scaling.factor.grad, expected.detach(), atol=1e-5, rtol=1e-4)


def test_without_any_own_way_the_gradient_is_autograds():
    made = at_work(Layered(["gaussian", {"name": "prune", "rate": 0.5}]))
    upload, grad = one_step(made, rate=0.0)
    bottom = dense_bottom()
    (bottom(vectors(COUNT)) * (upload != 0) * grad).sum().backward()
    for ours, theirs in zip(made.network.parameters(), bottom.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_uploads_that_stay_at_home_are_each_layers_own():
    """Local updates would compress what nobody sees, or be counted as released."""
    layered, h = Layered(["quantise", "dp_laplace"]), vectors(COUNT, 10)
    made = at_work(layered)
    plain = make_defense("dp_laplace")
    plain.bound, plain.generator = made.defense.layers[1].bound, copy.deepcopy(layered.generator)
    assert torch.equal(layered.rehearse(vectors(COUNT), h), plain.rehearse(vectors(COUNT), h))
    assert layered.spend().releases == 0


def test_a_way_back_without_an_upload_is_an_error_and_no_older_one_is_used():
    made = at_work(Layered(["nopeek"]))
    one_step(made)
    h = made.network(made.features)
    with pytest.raises(RuntimeError, match="needs a training upload"):
        made.defense.backward(made.features, h, h, torch.zeros_like(h))
    made.upload(torch.arange(4), train=True)
    made.defense.finish(made.network, made.features)
    copy.deepcopy(made.defense)  # a best response copies it


def test_disguises_come_one_over_the_other():
    layered = Layered([Named(lambda x: x + 1), "none", Named(lambda x: 2 * x)])
    assert layered.disguise(torch.ones(2)).tolist() == [4.0, 4.0]


def test_the_public_operator_is_all_operators_one_after_the_other():
    pruned, signs = make_defense("prune", rate=0.5).operator(), make_defense("hashvfl").operator()
    h = vectors(8, 10)
    operator = Layered([{"name": "prune", "rate": 0.5}, "hashvfl"]).operator()
    assert torch.equal(operator(h), signs(pruned(h)))
    assert Layered(["prune", "disco"]).operator() is None, "nothing is public about one of them"


def test_the_public_operator_does_not_add_the_same_noise_twice():
    """An adaptive attacker would train on noise of deviation 2, where the defense has the root of 2."""
    operator = Layered([{**NARROW, "sigma": 1.0}, {**HIDDEN, "sigma": 1.0}]).operator()
    for _ in range(2):
        h = torch.zeros(200, 50)
        assert operator(h).std().item() == pytest.approx(math.sqrt(2), rel=0.03)
    assert not torch.equal(operator(h), operator(h))


def test_noises_of_two_layers_are_two_noises():
    made, h = at_work(Layered(["gaussian", "gaussian"])), torch.zeros(200, 50)
    assert made.defense.protect(h, h, train=True).std().item() == pytest.approx(math.sqrt(2), rel=0.03)


def test_one_stream_serves_all_layers():
    """Early stopping keeps `generator` while it takes weights back: streams beside it would send noise twice."""
    made, rows = at_work(Layered([NARROW, "quantise"])), torch.arange(COUNT)
    one_step(made)
    stream, state = made.defense.generator.get_state(), copied(made.defense)
    expected = made.upload(rows, train=False)
    made.defense.load_state_dict(state)
    assert torch.equal(made.upload(rows, train=False), expected), "the state has all of it"
    made.defense.generator.set_state(stream)
    assert torch.equal(made.upload(rows, train=False), expected), "and so has the stream"
    made.defense.seed(7)
    assert not torch.equal(made.upload(rows, train=False), expected)


def test_meters_are_all_there_and_tell_whose_they_are():
    made = at_work(Layered(["quantise", {"name": "top_k", "kept": 0.5}, "nashcoder"]))
    one_step(made)
    rounded, kept = made.defense.layers[0].meters(), made.defense.layers[1].meters()
    meters = made.defense.meters()
    assert set(meters) == {"quantise_message_bytes", "top_k_message_bytes", "head_loss_sex", "cost_sex"}
    assert meters["quantise_message_bytes"] == rounded["message_bytes"]
    assert meters["top_k_message_bytes"] == kept["message_bytes"]
    made = at_work(Layered([{"name": "quantise", "levels": 8}, {"name": "quantise", "levels": 4}]))
    one_step(made)
    assert set(made.defense.meters()) == {"quantise_0_message_bytes", "quantise_1_message_bytes"}


def test_it_needs_what_its_layers_need_and_describes_itself_by_them():
    assert Layered(["gaussian", "nashcoder"]).needs_secrets and not Layered(["gaussian"]).needs_secrets
    assert not Layered.needs_secrets and not Layered(["nashcoder"]).needs_labels
    assert Layered(["none", {**NARROW, "memoise": True}]).memoise and not Layered([NARROW]).memoise
    described = Layered([NARROW, "gaussian", make_defense("prune", rate=0.5)]).describe()
    assert described["layers"][1:] == [{"name": "gaussian", "sigma": 1.0}, {"name": "prune", "rate": 0.5}]
    again = json.loads(json.dumps(described))
    assert make_defense(again.pop("name"), **again).describe() == described
    assert list(inspect.signature(Layered).parameters) == ["layers"] and DEFENSES["layered"] is Layered


def test_secrets_are_shown_only_to_layers_that_hide_them():
    class Nosy(Defense):
        def confide(self, secrets):
            raise AssertionError("it never asked")

    made, secret = Layered([Nosy(), "nashcoder"]), sex()
    made.confide([secret])
    assert made.layers[1]._secrets == [secret]


# -- claims ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [["dp_laplace"], ["prune", "dp_laplace"], ["dp_laplace", "quantise", "nashcoder"]])
def test_a_claim_holds_through_layers_that_read_nothing_but_the_upload(layers):
    made = at_work(Layered(layers))
    for _ in range(2):
        one_step(made)
    made.upload(torch.arange(4), train=False)
    assert made.defense.spend() == PrivacySpend("laplace", 1.0, 3)
    assert made.defense.meters()["epsilon_spent"] == composed_epsilon(PrivacySpend("laplace", 1.0, 3))


def test_of_two_claims_that_hold_the_least_is_told():
    made = at_work(Layered([{"name": "dp_laplace", "epsilon": 5.0}, {"name": "dp_laplace", "epsilon": 2.0}]))
    one_step(made)
    assert made.defense.spend() == PrivacySpend("laplace", 0.5, 1)
    assert Layered(["gaussian", "prune"]).spend() is None


@pytest.mark.parametrize(
    "behind",
    [{"name": "soteria"}, {**NARROW, "memoise": True}, {"name": "invl_enp"}, Named()],
    ids=["soteria", "memoised noise", "invl_enp", "of another package"],
)
def test_a_claim_that_a_later_layer_makes_untrue_is_refused(behind):
    """Noise that depends on the record, or a mask that does, tells more than was accounted for."""
    with pytest.raises(ConfigError, match="'dp_laplace' before it could claim no privacy") as caught:
        Layered(["dp_laplace", behind])
    assert caught.value.remedy == "put 'dp_laplace' last"
    Layered([behind, "dp_laplace"])
    Layered([{"name": "dp_laplace", "mode": "paper"}, behind])  # claims nothing


@pytest.mark.parametrize("knowing", ["dp_laplace", {**NARROW, "memoise": True}], ids=str)
def test_a_disguised_record_can_not_be_known_again(knowing):
    """Its releases would be counted as those of two records; or it would get two noises."""
    with pytest.raises(ConfigError, match="knows a record by its numbers"):
        at_work(Layered([Named(lambda x: -x), knowing]))
    at_work(Layered([Named(), knowing]))


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "what", "where"),
    [
        ([], "no layers", "layered.layers"),
        (None, "no layers", "layered.layers"),
        ("gaussian", "no layers", "layered.layers"),
        ({"name": "gaussian"}, "no layers", "layered.layers"),
        (["gaussian", {"sigma": 1.0}], "a layer has no name", "layered.layers.1"),
        (["gaussian", {"name": 3}], "a layer has no name", "layered.layers.1"),
        ([None], "a layer has no name", "layered.layers.0"),
        (["gausian"], "unknown defense 'gausian'", "layered.layers.0.name"),
        ([{"name": "prune"}, {"name": "gausian"}], "unknown defense 'gausian'", "layered.layers.1.name"),
        ([{"name": "gaussian", "sigma": -1}], "-1 is not allowed", "layered.layers.0.sigma"),
        (["none", {"name": "gaussian", "alpha": 1}], "unknown parameter 'alpha'", "layered.layers.1"),
        ([{"name": "gaussian", 3: 1}], "unknown parameter '3'", "layered.layers.0"),
        ([BOTH], "a layer has layers itself", "layered.layers.0"),
        (["none", "causshield"], "'causshield' starts from the record", "layered.layers.1"),
        (["none", "invl_dnp"], "'invl_dnp' starts from the record", "layered.layers.1"),
    ],
)
def test_bad_layers_are_told_with_their_place(layers, what, where):
    with pytest.raises(ConfigError, match=what) as caught:
        make_defense("layered", layers=layers)
    assert caught.value.where == where and caught.value.remedy


def test_two_games_are_refused_by_name():
    with pytest.raises(ConfigError, match="'bottleneck' and 'nashcoder' each have a way back") as caught:
        Layered(["gaussian", "bottleneck", "nashcoder"])
    assert "adversary: 0" in caught.value.remedy
    with pytest.raises(ConfigError, match="'nopeek' and 'disco'"):
        Layered(["nopeek", "disco"])
    Layered([NARROW, "nashcoder"])


@pytest.mark.parametrize(
    ("layers", "remedy"),
    [
        (["soteria", "hashvfl"], "put 'hashvfl' before 'soteria'"),
        (["soteria", "nashcoder"], "put 'nashcoder' before 'soteria'"),
        (["disco", "hashvfl"], "put 'hashvfl' before 'disco'"),
        (["invl_dnp", "hashvfl"], "leave one of them out"),
    ],
)
def test_a_bottom_that_grows_behind_a_layer_built_for_it_is_refused(layers, remedy):
    """The layer would read another shape, or send records round what comes behind it."""
    with pytest.raises(ConfigError, match="was built for the shorter one") as caught:
        at_work(Layered(layers))
    assert caught.value.remedy == remedy
    if remedy.startswith("put"):
        assert torch.isfinite(one_step(at_work(Layered(layers[::-1])))[0]).all()


def test_a_norm_behind_a_decoder_is_no_other_shape():
    made = at_work(Layered(["disco", "fedpass"]))
    assert torch.isfinite(one_step(made)[0]).all()


# -- in a federation ---------------------------------------------------------------------------------------------------

PARTIES = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"]}
SPLIT = {"train": 0.5, "validation": 0.1, "test": 0.4}
QUICK = {"seed": 0, "epochs": 3, "batch_size": 32, "split": SPLIT, "progress": False}


def frame(count=300):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(count, 4)), columns=["age", "bmi", "glucose", "insulin"])
    table["sex"] = np.where(table["glucose"] > 0, "f", "m")
    table["outcome"] = np.where(table["age"] + table["insulin"] > 0, "ill", "well")
    return table


def federation(secrets=True):
    hidden = {"lab": ["sex"]} if secrets else None
    return co.Federation.from_frame(frame(), PARTIES, label=("clinic", "outcome"), secrets=hidden)


@pytest.fixture(scope="module")
def model():
    return co.train(federation(), BOTH, **QUICK)


def test_both_protections_are_at_work(model):
    lab = model.parts["lab"]
    assert model.uploads(frame())["lab"].shape == (300, 3), "narrow, as the first layer makes it"
    history = lab.result["history"]
    assert [row["epoch"] for row in history] == [0, 1, 2]
    assert all(0 < row["head_loss_sex"] < 2 and "cost_sex" in row for row in history), "the second met the secret"
    assert [layer.name for layer in lab.bottom.defense.layers] == ["bottleneck", "nashcoder"]
    once, again = (model.uploads(frame())["lab"] for _ in range(2))
    assert (once - again).std().item() == pytest.approx(math.sqrt(2) * math.hypot(0.5, 0.5), rel=0.1), "both noises"


def test_a_saved_model_predicts_under_both(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = co.load(tmp_path / "model")
    assert loaded.parts["lab"].bottom.defense.describe() == model.parts["lab"].bottom.defense.describe()
    assert loaded.uploads(frame())["lab"].shape == (300, 3)
    assert loaded.predict(frame()).labels.shape == model.predict(frame()).labels.shape
    for ours, theirs in zip(
        loaded.parts["lab"].bottom.network.parameters(), model.parts["lab"].bottom.network.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)


class StopAt:
    """A curious party that stumbles: stands for a crash of the whole process."""

    def begin(self, top, shapes, outputs):
        pass

    def watch(self, step, uploads, labels, honest):
        if step == 9:
            raise RuntimeError("stumbled")
        return honest


def test_a_resumed_run_repeats_the_undisturbed_one(tmp_path):
    settings = {**QUICK, "checkpoint_every": 4, "patience": 2, "local_updates": 2}
    undisturbed = co.train(federation(), BOTH, **settings)
    with pytest.raises(RuntimeError, match="stumbled"):
        co.train(federation(), BOTH, run=tmp_path, curious=StopAt(), **settings)
    resumed = co.train(federation(), BOTH, run=tmp_path, resume=True, **settings)
    ours, theirs = (one.parts["lab"].bottom for one in (undisturbed, resumed))
    for first, second in ((ours.network, theirs.network), (ours.defense, theirs.defense)):
        first, second = first.state_dict(), second.state_dict()
        assert first.keys() == second.keys()
        assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert undisturbed.scores == resumed.scores


def test_fresh_attackers_can_be_let_at_it(model):
    open_model = co.train(federation(), **QUICK)
    told = [co.audit_attributes(one, attackers="linear", seeds=1, progress=False) for one in (open_model, model)]
    leaks = [result.worst().iloc[0]["leak"] for result in told]
    assert leaks[1] < leaks[0] - 0.2, "the secret is a column's sign, and an open upload shows it"
    rows = [co.audit(one, attacks=["ridge"], seeds=1, progress=False).frame.iloc[0] for one in (open_model, model)]
    assert rows[1]["defense"] == "layered" and math.isnan(rows[1]["strength"])
    assert rows[1]["skill"] < rows[0]["skill"] - 0.2


def test_its_secret_counts_in_the_equilibrium(model):
    """A party's cost would be left out of what all want together, and its gap be that of another game."""
    gaps = best_response_gaps(model, steps=2).set_index("party")
    assert gaps.loc["lab", "alpha"] == 0.5 and math.isfinite(gaps.loc["lab", "c"])
    assert gaps.loc["clinic", "alpha"] == 0 and math.isnan(gaps.loc["clinic", "c"])
    path = trajectory(model)
    expected = path["u"] - 0.5 * path["c_lab_sex"]
    np.testing.assert_allclose(path["F"], expected)
    assert model.parts["lab"].bottom.defense.layers[1].head_steps == 3, "the model stays as it is"


def test_a_party_that_names_no_secret_is_told_where_to_name_one():
    with pytest.raises(ConfigError, match="hides sensitive columns, and none is named") as caught:
        co.train(federation(secrets=False), BOTH, **QUICK)
    assert caught.value.where == "lab"


def test_pictures_go_through_layers_too():
    """The first layer disguises each picture, and the second must find its secret all the same."""
    random, count = np.random.default_rng(0), 60
    images, labels = random.integers(0, 256, (count, 1, 28, 28), dtype=np.uint8), np.arange(count) % 2
    secrets = {"left": pd.DataFrame({"sex": np.arange(count) // 2 % 2})}
    made = co.Federation.from_images(images, labels, ["left", "right"], secrets=secrets)
    narrow = {"name": "keystone", "veil": 4}
    chosen = {"left": {"name": "layered", "layers": [narrow, HIDDEN]}, "right": narrow}
    trained = co.train(made, chosen, epochs=1, batch_size=20, progress=False, network="mnist_net")
    (line,) = trained.parts["left"].result["history"]
    assert {"capacity_bits", "head_loss_sex"} <= set(line)


@pytest.mark.parametrize("behind", ["bottleneck", "hashvfl"])
def test_nothing_lengthens_the_network_behind_keystone(behind):
    """Its capacity would be that of numbers which are never sent."""
    network = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU())
    stacked = make_defense("layered", layers=["keystone", behind])
    with pytest.raises(ConfigError, match="'keystone' was built for the shorter one"):
        stacked.extend(network, (5,))


# -- in a party file ---------------------------------------------------------------------------------------------------


def party(**defense):
    return PartyFile.model_validate({"party": "lab", "defense": {"name": "layered", **defense}})


def test_a_party_file_lists_layers_and_finds_their_files_beside_it(tmp_path):
    (tmp_path / "graph.json").write_text("{}")
    made = defense_of(party(layers=[{"name": "causshield", "graph": "graph.json"}, "gaussian"]), tmp_path / "lab.yaml")
    assert made.layers[0].graph == str(tmp_path / "graph.json")
    assert (
        defense_of(party(layers=[NARROW, HIDDEN]), tmp_path / "lab.yaml").describe()
        == Layered([NARROW, HIDDEN]).describe()
    )


@pytest.mark.parametrize(
    ("defense", "field"),
    [
        ({}, "defense"),
        ({"layers": []}, "defense.layers"),
        ({"layers": [{"name": "gausian"}]}, "defense.layers.0.name"),
        ({"layers": ["none", {"sigma": 1}]}, "defense.layers.1"),
        ({"layers": ["none", {"name": "gaussian", "sigma": -1}]}, "defense.layers.1.sigma"),
        ({"layers": [{"name": "causshield", "graph": "graph.json"}]}, "defense.layers.0.graph"),
    ],
    ids=str,
)
def test_what_is_wrong_in_a_party_file_is_told_in_its_words(tmp_path, defense, field):
    with pytest.raises(ConfigError) as caught:
        defense_of(party(**defense), tmp_path / "lab.yaml")
    assert caught.value.where == f"{tmp_path / 'lab.yaml'}: {field}"
