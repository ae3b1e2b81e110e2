"""Labels that all parties may see: if these fail, sharing them changes what is learned, or happens unasked."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from torch.nn import functional

import colonnade as co
from colonnade.data.batches import Positions
from colonnade.defend.base import Defense
from colonnade.defend.nashcoder import NashCoder
from colonnade.errors import ConfigError
from colonnade.learn import join as learn_join
from colonnade.learn.join import TrainingPlace
from colonnade.learn.joint import JointRun
from colonnade.progress import Progress

QUICK = {"seed": 0, "epochs": 3, "batch_size": 32, "progress": False}
COLUMNS = {
    "clinic": ["age", "bmi"],
    "lab": ["glucose", "insulin"],
    "insurer": ["claims", "city"],
    "gym": ["visits"],
    "bank": ["income"],
}
NASHCODER = {"name": "nashcoder", "alpha": 0.5, "head_steps": 1}


def records(count=300):
    random = np.random.default_rng(0)
    names = [name for columns in COLUMNS.values() for name in columns]
    table = pd.DataFrame(random.normal(size=(count, len(names))), columns=names)
    table["city"] = random.choice(["north", "south"], count)
    table["sex"] = np.where(table["glucose"] + 0.5 * random.normal(size=count) > 0, "f", "m")
    risk = table[["age", "glucose", "insulin", "claims", "visits", "income"]].sum(axis=1)
    table["risk"] = risk + 0.3 * random.normal(size=count)
    table["outcome"] = np.where(table["risk"] > 0, "ill", "well")
    table["stage"] = pd.cut(table["risk"], 3, labels=["low", "middle", "high"]).astype(str)
    return table.set_axis([f"p{number:04d}" for number in range(count)], axis=0)


def federation(parties=3, label="outcome", owner="clinic"):
    """The first so many parties; an owner that is none of them holds the label and nothing else."""
    held = dict(list(COLUMNS.items())[:parties])
    secrets = {party: ["sex"] for party in held if party != owner}
    return co.Federation.from_frame(records(), held, label=(owner, label), secrets=secrets)


def overlapping():
    """Three parties of which the lab and the insurer lack some of the clinic's records."""
    table = records()
    frames = {
        "clinic": table[[*COLUMNS["clinic"], "outcome"]],
        "lab": table[[*COLUMNS["lab"], "sex"]].iloc[::2],
        "insurer": table[[*COLUMNS["insurer"], "sex"]].iloc[40:],
    }
    apart = co.Federation.from_frames(frames, label=("clinic", "outcome"), secrets={"lab": ["sex"], "insurer": ["sex"]})
    return co.align(apart, policy="impute")


def state(model):
    """Every weight of every party, with the party's name."""
    found = {}
    for party, part in model.parts.items():
        for name, network in (("bottom", part.bottom), ("top", part.top)):
            if network is not None:
                found |= {f"{party}/{name}/{key}": value for key, value in network.network.state_dict().items()}
    return found


def assert_same(model, other):
    ours, theirs = state(model), state(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


def both(made, defense="none", **settings):
    return (co.train(made, defense, labels=labels, **{**QUICK, **settings}) for labels in ("server", "shared"))


# -- one local update: sharing changes nothing but who computes --------------------------------------------------------


@pytest.mark.parametrize("defense", ["none", NASHCODER], ids=["none", "nashcoder"])
@pytest.mark.parametrize("owner", ["clinic", "registry"])
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_with_one_local_update_shared_labels_equal_labels_at_the_server(parties, owner, defense):
    assert_same(*both(federation(parties, owner=owner), defense))


@pytest.mark.parametrize("label", ["stage", "risk"])
def test_so_they_do_for_many_classes_and_for_a_quantity(label):
    assert_same(*both(federation(label=label), NASHCODER))


@pytest.mark.parametrize("defense", ["none", NASHCODER], ids=["none", "nashcoder"])
def test_so_they_do_where_parties_lack_records(defense):
    """What stands in for an upload that is not there must be the same at the server and at a party's copy."""
    assert_same(*both(overlapping(), defense, missing="impute"))


@pytest.mark.parametrize("weights", ["uniform", "shapley"])
def test_so_they_do_with_weighed_parties(weights):
    server, shared = both(overlapping(), missing="impute", weights={"strategy": weights, "every": 2})
    assert_same(server, shared)
    pd.testing.assert_frame_equal(server.history, shared.history)


def test_so_they_do_for_a_top_model_with_batch_norms():
    """Here a record's gradient hangs on all others, and on those the party lacks. Convolutions round as they like."""
    images = np.random.default_rng(0).random((60, 1, 8, 16), np.float32)
    made = co.Federation.from_images(images, np.arange(60) % 2, ["left", "right"])
    lacks = np.where(np.arange(60) % 3 == 0, -1, np.arange(60))
    made = made.aligned({**made.rows, "left": lacks})
    settings = {"network": {"family": "resnet18", "cut": 8}, "epochs": 1, "batch_size": 16, "missing": "impute"}
    server, shared = both(made, optimizer={"name": "sgd", "learning_rate": 0.01}, **settings)
    for name, tensor in state(shared).items():
        torch.testing.assert_close(tensor, state(server)[name], atol=1e-5, rtol=1e-4, msg=name)


def test_a_resumed_run_with_shared_labels_repeats_the_undisturbed_one(tmp_path, monkeypatch):
    settings = {**QUICK, "labels": "shared", "local_updates": 2, "checkpoint_every": 5}
    settings["weights"] = {"strategy": "shapley", "every": 3}
    undisturbed, protect = co.train(federation(), NASHCODER, **settings), NashCoder.protect

    def stumble(self, x, h, train):
        if train and self._updates == 27:  # the second local update of step 13
            raise RuntimeError("stumbled")
        return protect(self, x, h, train)

    with monkeypatch.context() as patch:
        patch.setattr(NashCoder, "protect", stumble)
        with pytest.raises(RuntimeError, match="stumbled"):
            co.train(federation(), NASHCODER, run=tmp_path, **settings)
    resumed = co.train(federation(), NASHCODER, run=tmp_path, resume=True, **settings)
    assert_same(resumed, undisturbed)
    assert resumed.parts["lab"].result == undisturbed.parts["lab"].result, "heads' losses in the party's own log"


# -- more local updates: the published algorithm -----------------------------------------------------------------------


@pytest.mark.parametrize("updates", [1, 3])
@pytest.mark.parametrize("weighed", [False, True])
def test_local_updates_follow_the_true_gradient_at_stale_uploads_of_the_others(updates, weighed):
    """Against a loop by hand: every party moves alone, the top model and everybody else's uploads stay as they were."""
    task = co.Task.model_validate(
        {
            "epochs": 2,
            "batch_size": 64,
            "labels": "shared",
            "local_updates": updates,
            "weights": {"strategy": "uniform" if weighed else "none"},
            "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.0},
        }
    )
    made = federation()
    model = co.train(made, task=task, seed=0, progress=False)
    by_hand = JointRun(made, task, seed=0)
    for epoch in range(2):
        for _, positions in by_hand.timetable.batches(epoch):
            round_by_hand(by_hand, positions, updates, 1 / 3 if weighed else 1.0)
    networks = [model.parts[party].bottom.network for party in model.parts], by_hand.network.bottoms
    for ours, theirs in [*zip(*networks, strict=True), (model.parts["clinic"].top.network, by_hand.network.top)]:
        for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("labels", ["server", "shared"])
def test_one_batch_of_all_records_is_a_full_round(labels, weighed):
    """The idealised form: in each round every party takes all its steps on all of its training records."""
    task = co.Task.model_validate(
        {
            "epochs": 4,
            "batch_size": 10**6,
            "labels": labels,
            "local_updates": 3,
            "weights": "uniform" if weighed else "none",
            "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.0},
        }
    )
    made = federation()
    model = co.train(made, task=task, seed=0, progress=False)
    by_hand = JointRun(made, task, seed=0)
    assert by_hand.timetable.steps == 4, "an epoch is a round"
    for _ in range(4):
        one_round = round_by_hand if labels == "shared" else stale_round_by_hand
        one_round(by_hand, by_hand.timetable.train, 3, 1 / 3 if weighed else 1.0)
    networks = [model.parts[party].bottom.network for party in model.parts], by_hand.network.bottoms
    for ours, theirs in [*zip(*networks, strict=True), (model.parts["clinic"].top.network, by_hand.network.top)]:
        for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def stale_round_by_hand(run: JointRun, positions: Positions, updates: int, weight: float) -> None:
    """As `round_by_hand`, but all of a party's steps follow the gradient for the upload that it sent."""
    bottoms, top, labels = run.network.bottoms, run.network.top, run.targets[positions]
    inputs = [x[positions] for x in run.inputs]
    stale = [bottom(x).detach().requires_grad_() for bottom, x in zip(bottoms, inputs, strict=True)]
    answers = torch.autograd.grad(functional.cross_entropy(top(stale), labels), stale)
    for bottom, x, answer in zip(bottoms, inputs, answers, strict=True):
        for _ in range(updates):
            descend(bottom, (bottom(x) * weight * answer).sum())
    for _ in range(updates):
        descend(top, functional.cross_entropy(top([upload.detach() for upload in stale]), labels))


def descend(network: torch.nn.Module, loss: torch.Tensor) -> None:
    slopes = torch.autograd.grad(loss, list(network.parameters()))
    with torch.no_grad():
        for parameter, slope in zip(network.parameters(), slopes, strict=True):
            parameter -= 0.1 * slope


def round_by_hand(run: JointRun, positions: Positions, updates: int, weight: float) -> None:
    bottoms, top = run.network.bottoms, run.network.top
    labels = run.targets[positions]
    inputs = [x[positions] for x in run.inputs]
    stale = [bottom(x).detach() for bottom, x in zip(bottoms, inputs, strict=True)]
    for place, (bottom, x) in enumerate(zip(bottoms, inputs, strict=True)):
        for _ in range(updates):
            joined = [bottom(x) if other == place else upload for other, upload in enumerate(stale)]
            descend(bottom, weight * functional.cross_entropy(top(joined), labels))
    for _ in range(updates):
        descend(top, functional.cross_entropy(top(stale), labels))


def test_the_true_gradient_is_not_the_stale_one():
    """From the second update on: if these agreed, the test above could not tell the two ways apart."""
    server, shared = both(federation(), local_updates=3)
    assert not torch.equal(*(model.parts["lab"].bottom.network[0].weight for model in (server, shared)))


# -- the weights of Eq. 5 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["server", "shared"])
def test_one_update_with_uniform_weights_is_split_training_at_one_kth_of_the_rate(labels):
    """Plain gradient descent: a gradient divided by K moves as far as a learning rate divided by K."""
    plain = {"name": "sgd", "momentum": 0.0, "learning_rate": 0.03}
    silent = {"name": "nashcoder", "alpha": 0.0, "sigma": 0.0, "head_steps": 1}
    settings = {**QUICK, "epochs": 1, "batch_size": 240}  # one step: afterwards the top models differ
    uniform = co.train(
        federation(), silent, labels=labels, weights={"strategy": "uniform"}, optimizer=plain, **settings
    )
    split = co.train(federation(), optimizer=plain | {"learning_rate": 0.01}, **settings)
    for party in COLUMNS.keys() & uniform.parts.keys():
        pairs = zip(*(model.parts[party].bottom.network.parameters() for model in (uniform, split)), strict=True)
        for found, expected in pairs:
            torch.testing.assert_close(found, expected, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("labels", ["server", "shared"])
@pytest.mark.parametrize("updates", [1, 3])
def test_a_nashcoder_that_weighs_nothing_and_adds_nothing_is_no_defense(labels, updates):
    settings = {**QUICK, "labels": labels, "local_updates": updates}
    silent = co.train(federation(), {"name": "nashcoder", "alpha": 0.0, "sigma": 0.0}, **settings)
    assert_same(silent, co.train(federation(), **settings))


# -- who may be shown labels -------------------------------------------------------------------------------------------


class Nosy:
    def begin(self, top, shapes, outputs):
        """See nothing."""

    def watch(self, step, uploads, labels, honest):
        return honest


def test_a_curious_party_is_refused_where_no_gradients_are_sent():
    with pytest.raises(ConfigError, match="no gradients are sent") as caught:
        co.train(federation(), labels="shared", curious=Nosy(), **QUICK)
    assert caught.value.remedy == "train with labels: server"


class Supervised(Defense):
    """A defense that wants labels."""

    name = "supervised"
    needs_labels = True


REFUSED = "'supervised' needs labels, which a passive party does not have"


def test_a_defense_that_needs_labels_is_allowed_where_they_are_shared():
    made = federation(2)
    with pytest.raises(ConfigError, match=REFUSED):
        co.train(made, {"lab": Supervised()}, **QUICK)
    assert co.train(made, {"lab": Supervised()}, labels="shared", **QUICK).scores


@pytest.fixture
def files(tmp_path):
    """Two parties' files with a task that shows labels to all."""
    made = {"name": "study", "active": "clinic", "label": "outcome", "task": {"labels": "shared", "epochs": 1}}
    made["parties"] = {party: {"address": f"127.0.0.1:{port}"} for party, port in (("clinic", 7101), ("lab", 7102))}
    (tmp_path / "federation.yaml").write_text(yaml.safe_dump(made))
    for party, columns in (("clinic", [*COLUMNS["clinic"], "outcome"]), ("lab", COLUMNS["lab"])):
        records(40)[columns].to_csv(tmp_path / f"{party}.csv", index_label="id")
    return tmp_path


def write_party(folder, party, **further):
    own = {"party": party, "data": {"path": f"{party}.csv", "id_column": "id"}, "runs": "runs", **further}
    (folder / f"{party}.yaml").write_text(yaml.safe_dump(own))
    return TrainingPlace.read(folder / "federation.yaml", folder / f"{party}.yaml")


def test_labels_are_shared_with_the_consent_of_the_party_that_holds_them_only(files):
    with pytest.raises(ConfigError, match="the task shows labels to all parties") as caught:
        write_party(files, "clinic")
    assert "share_labels: true" in caught.value.remedy
    assert caught.value.where.endswith("clinic.yaml: share_labels")
    with pytest.raises(ConfigError, match="shows labels"):
        write_party(files, "clinic", share_labels=False)
    assert write_party(files, "clinic", share_labels=True).is_active


def test_a_passive_party_needs_no_consent_and_can_not_give_it(files):
    assert write_party(files, "lab").name == "lab"
    write_party(files, "lab", share_labels=True)
    with pytest.raises(ConfigError, match="shows labels"):
        write_party(files, "clinic")


def test_a_defense_that_needs_labels_is_refused_before_a_party_talks_to_anybody(files, monkeypatch):
    monkeypatch.setattr(learn_join, "named_defense", lambda described: Supervised())
    with pytest.raises(ConfigError, match="is missing") as caught:
        learn_join.join(write_party(files, "lab"), Progress())
    assert caught.value.where.endswith("lab.yaml: credentials"), (
        "with shared labels, the next thing that is needed is a kit"
    )
    agreed = (files / "federation.yaml").read_text()
    (files / "federation.yaml").write_text(agreed.replace("labels: shared", "labels: server"))
    with pytest.raises(ConfigError, match=REFUSED):
        learn_join.join(write_party(files, "lab"), Progress())


# -- fewer rounds, on a real table -------------------------------------------------------------------------------------

ADULT = {
    "bank": ["age", "workclass", "fnlwgt", "education", "education_num"],
    "employer": ["occupation", "hours_per_week", "capital_gain", "capital_loss"],
    "registry": ["marital_status", "relationship", "race", "sex", "native_country"],
}


def trained_on_adult(made, folder, **settings):
    """Return accuracy, and the megabytes that all parties sent."""
    optimizer = {"learning_rate": 1e-3, "schedule": "cosine"}
    model = co.train(made, run=folder, optimizer=optimizer, checkpoint_every=10_000, progress=False, **settings)
    sent = [json.loads((folder / party / "result.json").read_text())["sent_bytes"] for party in ADULT]
    return model.scores["accuracy"], sum(sent) / 1e6


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["server", "shared"])
def test_four_local_updates_need_a_quarter_of_the_rounds_on_adult(shared_data, tmp_path, labels):
    """And as few rounds without them fall short: on four times as many, these settings would not tell them apart."""
    data = co.load_dataset("adult", shared_data / "tabular")
    frame = data.table.assign(income=data.label, part=data.split)
    made = co.Federation.from_frame(frame, ADULT, label=("bank", "income"), split="part")
    runs = {
        "all rounds": {"epochs": 4},
        "a quarter": {"epochs": 1},
        "a quarter, four local updates": {"epochs": 1, "local_updates": 4, "labels": labels},
    }
    accuracy, megabytes = {}, {}
    for name, settings in runs.items():
        found = [trained_on_adult(made, tmp_path / name / str(seed), seed=seed, **settings) for seed in range(3)]
        accuracy[name], megabytes[name] = np.mean(found, axis=0)
        sys.stdout.write(f"labels {labels}, {name}: accuracy {accuracy[name]:.4f}, {megabytes[name]:.1f} MB sent\n")
    every, few, local = runs
    assert accuracy[local] >= accuracy[every] - 0.005
    assert accuracy[few] < accuracy[every] - 0.02
    # Test records are uploaded once in every run; labels, the top model and all uploads travel where they are shared.
    assert megabytes[local] < megabytes[every] * (0.31 if labels == "server" else 0.5)
