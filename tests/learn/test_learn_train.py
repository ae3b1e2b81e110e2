"""Training, predicting, keeping and resuming in one process: what a data scientist does on the first day."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

import colonnade as co
from colonnade.data import LabelPreparation
from colonnade.defend import Defense
from colonnade.errors import ConfigError, DataError, RunError
from colonnade.learn.agreement import Agreement
from colonnade.learn.part import Part
from colonnade.learn.role import Role
from colonnade.learn.scores import scores

PARTIES = {"clinic": ["age", "city"], "lab": ["glucose", "insulin"], "insurer": ["claims"]}
QUICK = {"epochs": 4, "batch_size": 32}


def frame(records: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, records),
            "city": rng.choice(["north", "south", None], records),
            "glucose": rng.normal(5, 1, records),
            "insulin": np.where(rng.random(records) < 0.1, np.nan, rng.normal(10, 3, records)),
            "claims": rng.poisson(2, records).astype(float),
        },
        index=[f"p{i}" for i in range(records)],
    )
    risk = (table["age"] - 50) / 10 + (table["glucose"] - 5) + (table["claims"] - 2)
    return table.assign(outcome=np.where(risk + rng.normal(0, 0.5, records) > 0, "ill", "well"))


@pytest.fixture
def federation() -> co.Federation:
    return co.Federation.from_frame(frame(), PARTIES, label=("clinic", "outcome"))


def weights(model: co.VerticalModel) -> torch.Tensor:
    tensors = []
    for part in model.parts.values():
        for held in (part.bottom, part.top):
            if held:
                tensors += [tensor.flatten().double() for tensor in held.network.state_dict().values()]
    return torch.cat(tensors)


def test_a_model_learns_and_beats_the_commonest_class(federation):
    model = co.train(federation, epochs=20, batch_size=32, progress=False)
    new = frame(300, seed=1)
    assert model.score(new) > new["outcome"].value_counts(normalize=True).iloc[0] + 0.15
    assert set(model.predict(new).labels) <= {"ill", "well"}
    probabilities = model.predict_proba(new)
    assert list(probabilities.columns) == model.classes == ["ill", "well"]
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert "test" in repr(model)
    assert all(f"contribution: {share:.1%}" in repr(model) for share in model.contributions.values())
    assert list(model.contributions) == ["clinic", "lab", "insurer"]
    assert len(model.history) == 20


def test_a_label_to_score_by_may_be_a_series_or_an_array_of_the_labels_own_type(federation):
    """A score of zero for labels that are merely written as text says that a good model is worthless."""
    numbered = frame().assign(outcome=lambda table: (table["outcome"] == "ill").astype(int))
    model = co.train(co.Federation.from_frame(numbered, PARTIES, label=("clinic", "outcome")), progress=False, **QUICK)
    new = numbered.head(50)
    truth = new["outcome"]
    expected = (model.predict(new).labels == truth).mean()
    assert 0 < expected < 1
    assert model.score(new) == model.score(new, truth.iloc[::-1]) == model.score(new, truth.to_numpy()) == expected
    assert model.score(new, truth.astype(float)) == expected
    with pytest.raises(DataError, match="labels that no training record had: '0', '1'"):
        model.score(new, truth.astype(str))
    with pytest.raises(DataError, match="no label for record p3"):
        model.score(new, truth.astype(float).where(truth.index != "p3"))
    with pytest.raises(DataError, match=r"labels of shape \(49,\) for 50 records"):
        model.score(new, truth.to_numpy()[1:])
    with pytest.raises(DataError, match="no label for 50 of 50 records"):
        model.score(new, truth.reset_index(drop=True))


def test_records_that_the_labels_owner_lacks_are_not_scored(federation):
    """They have an answer and no truth: neither right nor wrong."""
    model, new = co.train(federation, progress=False, **QUICK), frame(60, seed=1)
    frames = {party: new[columns] for party, columns in PARTIES.items()}
    frames["clinic"] = new[[*PARTIES["clinic"], "outcome"]].head(40)
    guessed = model.predict(frames, missing="impute").labels.head(40)
    assert model.score(frames, missing="impute") == (guessed == new["outcome"].head(40)).mean()
    with pytest.raises(DataError, match="no label for 20 of 60 records"):
        model.score({party: new[columns] for party, columns in PARTIES.items()}, frames["clinic"]["outcome"])


def test_a_setting_of_a_block_is_looked_for_in_that_block(federation):
    with pytest.raises(ConfigError, match=r"optimizer.lr: unknown setting .*learning_rate"):
        co.train(federation, optimizer={"lr": 0.1}, progress=False)


def test_no_party_is_called_name(federation):
    """Defenses of each party, `{"name": ..., "lab": ...}`, would be taken for one defense."""
    with pytest.raises(ConfigError, match="parties: no party can be called 'name'"):
        co.Federation({"name": federation.records["clinic"], "lab": federation.records["lab"]}, "name")


def test_auc_tells_confident_answers_apart():
    """What softmax makes of margins above 17 is 1 for all of them: the best model would look like a worse one."""
    margins = torch.tensor([-1.0, 18.0, 20.0, 25.0, 60.0, 70.0])
    label = LabelPreparation().fit(pd.Series([0, 1]))
    outputs = torch.stack([torch.zeros(6), margins], dim=1)
    assert scores(outputs, torch.tensor([0, 0, 0, 1, 1, 1]), label)["auc"] == 1.0


def test_the_same_seed_gives_the_same_model_and_another_seed_another(federation):
    first, again, other = (co.train(federation, seed=seed, progress=False, **QUICK) for seed in (1, 1, 2))
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


def test_a_saved_model_answers_as_before(federation, tmp_path):
    model = co.train(federation, {"name": "gaussian", "sigma": 0.1}, progress=False, **QUICK)
    model.save(tmp_path / "model")
    loaded = co.load(tmp_path / "model")
    new = frame(50, seed=2)
    first, second = (co.load(tmp_path / "model").uploads(new) for _ in range(2))
    assert torch.equal(first["clinic"], second["clinic"])
    assert not torch.equal(first["lab"], second["lab"]), "noise used twice cancels in the difference"
    assert torch.equal(weights(loaded), weights(model))
    assert loaded.parts["lab"].bottom.defense.describe() == {"name": "gaussian", "sigma": 0.1}
    assert loaded.parts["clinic"].bottom.defense.name == "none", "the active party's own columns do not leave it"
    assert loaded.scores == model.scores


def test_a_regression_answers_in_the_units_of_the_label():
    table = frame().drop(columns="outcome")
    table["cost"] = 1000 + 50 * table["age"] + 200 * table["glucose"]
    federation = co.Federation.from_frame(table, PARTIES, label=("clinic", "cost"))
    model = co.train(federation, epochs=40, batch_size=16, optimizer={"learning_rate": 0.01}, progress=False)
    assert model.scores["r2"] > 0.8
    assert model.predict(table).labels.mean() == pytest.approx(table["cost"].mean(), rel=0.05)
    with pytest.raises(ConfigError, match="no probabilities"):
        model.predict_proba(table)


def test_early_stopping_keeps_the_best_epoch(federation):
    settings = {"batch_size": 32, "patience": 2, "optimizer": {"learning_rate": 0.05}}
    model = co.train(federation, epochs=60, progress=False, **settings)
    history = model.history
    best = int(history["validation_loss"].idxmin())
    assert len(history) == best + 3 < 60
    upto_best = co.train(federation, epochs=best + 1, progress=False, **settings)
    assert torch.equal(weights(model), weights(upto_best))


class StopAt:
    """A curious party that stumbles at one step: stands for a crash of the whole process."""

    def __init__(self, step):
        self.step = step

    def begin(self, top, shapes, outputs):
        assert set(shapes) and outputs

    def watch(self, step, uploads, labels, honest):
        if step == self.step:
            raise RuntimeError("stumbled")
        return honest


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("stop", [3, 17, 30, 39])
def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(federation, tmp_path, stop, optimizer):
    settings = {
        "epochs": 4, "batch_size": 32, "checkpoint_every": 7, "patience": 3,
        "optimizer": {"name": optimizer, "schedule": "cosine"},
    }  # fmt: skip
    defense = {"name": "gaussian", "sigma": 0.5}
    undisturbed = co.train(federation, defense, seed=5, progress=False, **settings)
    with pytest.raises(RuntimeError, match="stumbled"):
        co.train(federation, defense, seed=5, progress=False, run=tmp_path, curious=StopAt(stop), **settings)
    resumed = co.train(federation, defense, seed=5, progress=False, run=tmp_path, resume=True, **settings)
    assert torch.equal(weights(resumed), weights(undisturbed))
    assert resumed.scores == undisturbed.scores
    assert resumed.history.drop(columns="epoch").equals(undisturbed.history.drop(columns="epoch"))


def test_a_run_folder_holds_what_happened(federation, tmp_path):
    model = co.train(federation, progress=False, run=tmp_path, **QUICK)
    from colonnade.run import Run

    active, lab = Run.open(tmp_path / "clinic"), Run.open(tmp_path / "lab")
    assert active.status == lab.status == "finished"
    assert len(active.metrics()) == QUICK["epochs"]
    assert active.result["test"]["accuracy"] == model.scores["accuracy"]
    lab.verify_ledger()
    summary = lab.ledger.summary().set_index("kind")
    assert set(summary.index) == {"hello", "ready", "upload", "evaluate", "test"}
    assert set(lab.ledger.summary()["to"]) == {"clinic"}, "a passive party talks to nobody but the active one"
    assert torch.equal(
        torch.nn.utils.parameters_to_vector(Part.load(lab.path / "model").bottom.network.parameters()),
        torch.nn.utils.parameters_to_vector(model.parts["lab"].bottom.network.parameters()),
    )


def test_another_agreement_can_not_resume_a_run(federation, tmp_path):
    with pytest.raises(RuntimeError):
        co.train(
            federation, progress=False, run=tmp_path, curious=StopAt(9), epochs=4, batch_size=32, checkpoint_every=2
        )
    with pytest.raises(RunError, match="another agreement"):
        co.train(federation, progress=False, run=tmp_path, resume=True, epochs=5, batch_size=32, checkpoint_every=2)


@pytest.mark.parametrize("overlap", [0.1, 0.5, 1.0])
def test_records_that_a_party_lacks_are_imputed_only_when_asked(overlap):
    table = frame(600)
    frames = {
        "clinic": table[["age", "city", "outcome"]],
        "lab": table[["glucose", "insulin"]].sample(frac=overlap, random_state=0),
        "insurer": table[["claims"]],
    }
    federation = co.Federation.from_frames(frames, label=("clinic", "outcome"))
    dropped, imputed = co.align(federation, "drop"), co.align(federation, "impute")
    assert len(dropped.rows["lab"]) == round(600 * overlap)
    assert len(imputed.rows["lab"]) == 600
    assert (imputed.rows["lab"] >= 0).sum() == round(600 * overlap)
    model = co.train(imputed, epochs=10, batch_size=32, missing="impute", progress=False)
    assert model.scores["accuracy"] > 0.6
    if overlap < 1:
        with pytest.raises(DataError, match="lacks"):
            model.predict(frames)
        answer = model.predict(frames, missing="impute")
        assert answer.imputed["lab"].sum() == 600 - round(600 * overlap)
        assert not answer.imputed["insurer"].any()
        assert "lab" in repr(answer)


def test_a_party_that_is_missing_as_a_whole_is_refused_or_imputed(federation):
    model = co.train(federation, progress=False, **QUICK)
    table = frame(40, seed=3)
    frames = {"clinic": table[PARTIES["clinic"]], "lab": table[PARTIES["lab"]]}
    with pytest.raises(DataError, match="insurer: lacks 40 of 40"):
        model.predict(frames)
    answer = model.predict(frames, missing="impute")
    assert answer.imputed["insurer"].all() and not answer.imputed["lab"].any()


def test_a_table_on_disk_can_be_predicted(federation, tmp_path):
    model = co.train(federation, progress=False, **QUICK)
    new = frame(20, seed=4)
    new.to_parquet(tmp_path / "new.parquet")
    assert list(np.asarray(model.predict(tmp_path / "new.parquet"))) == list(model.predict(new).labels)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"network": "resnet99"}, "network.family"),
        ({"defense": "gausian"}, "did you mean 'gaussian'"),
        ({"defense": {"name": "gaussian", "sigma": -1}}, "sigma"),
        ({"defense": {"labb": "none"}}, "did you mean 'lab'"),
        ({"protection": "gaussian"}, "requires 'gaussian'"),
        ({"protection": "gausian"}, "task.protection: unknown defense 'gausian' .did you mean 'gaussian'"),
        ({"split": {"train": 0.5}}, "add up to 1"),
        ({"patience": 3, "split": {"train": 1.0, "validation": 0.0, "test": 0.0}}, "patience needs validation"),
        ({"resume": True}, "nothing to resume"),
        ({"network": {"cut": 99}}, "can't be cut"),
    ],
)
def test_a_wrong_setting_gets_one_clear_error(federation, wrong, message):
    with pytest.raises(ConfigError, match=message):
        co.train(federation, progress=False, **{**QUICK, **wrong})


def test_a_required_protection_may_be_one_of_several_layers(federation):
    """Whoever adds a second protection would be sent away for having too much of it."""
    layers = ["quantise", {"name": "gaussian", "sigma": 0.1}]
    co.train(federation, {"name": "layered", "layers": layers}, progress=False, **{**QUICK, "protection": "gaussian"})
    with pytest.raises(ConfigError, match="requires 'prune'"):
        co.train(federation, {"name": "layered", "layers": layers}, progress=False, **{**QUICK, "protection": "prune"})


def test_a_federation_without_label_or_alignment_is_refused():
    table = frame()
    with pytest.raises(DataError, match="no party holds a label"):
        co.train(co.Federation.from_frame(table, PARTIES), progress=False)
    frames = {"clinic": table[["age", "outcome"]], "lab": table[["glucose"]]}
    with pytest.raises(DataError, match="not aligned"):
        co.train(co.Federation.from_frames(frames, label=("clinic", "outcome")), progress=False)


def test_a_damaged_model_folder_is_named(federation, tmp_path):
    co.train(federation, progress=False, **QUICK).save(tmp_path)
    described = json.loads((tmp_path / "lab" / "part.json").read_text())
    del described["bottom"]["recipe"]
    (tmp_path / "lab" / "part.json").write_text(json.dumps(described))
    with pytest.raises(RunError, match="lab"):
        co.load(tmp_path)
    (tmp_path / "insurer" / "part.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunError):
        Part.load(tmp_path / "insurer")
    with pytest.raises(RunError, match="no saved model"):
        co.load(tmp_path / "nowhere")


@pytest.mark.parametrize("patience", [None, 2])
@pytest.mark.parametrize("labels", ["server", "shared"])
def test_a_loss_that_explodes_ends_the_run_and_names_the_step(federation, tmp_path, patience, labels):
    """A model of no numbers would be taken for a trained one: the command ended well."""
    settings = {"optimizer": {"learning_rate": 1e20}, "patience": patience, "labels": labels, "checkpoint_every": 1}
    expected = r"step 1: the training loss is no number \(lower task.optimizer.learning_rate\)"
    for resume in (False, True):
        with pytest.raises(RunError, match=expected):
            co.train(federation, progress=False, run=tmp_path, resume=resume, **settings, **QUICK)
        assert all(list((tmp_path / party / "checkpoints").iterdir()) for party in PARTIES), "what was kept stays"


def test_uploads_that_run_away_are_the_partys_and_not_the_top_models(federation):
    """The active party would look for the fault in its own model."""

    class Runaway(Defense):
        name = "runaway"

        def protect(self, x, h, train):
            return h * torch.nan

    with pytest.raises(RunError, match=r"step 0: uploads of lab are no numbers \("):
        co.train(federation, {"lab": Runaway()}, progress=False, **QUICK)


class Student(Defense):
    """Notes when it learns."""

    name = "student"

    def __init__(self, diary, who):
        super().__init__()
        self.diary, self.who = diary, who

    def prepare(self, bottom, data):
        self.diary.append(self.who)

    def describe(self):
        return {"name": "none"}


def test_everybody_learns_before_anybody_waits(federation):
    """The active party began only when all others had told that they were ready: two hours instead of one."""
    diary = []
    defenses = {party: Student(diary, party) for party in PARTIES}
    co.train(federation, defenses, progress=False, **QUICK)
    assert diary[0] == "clinic" and sorted(diary) == sorted(PARTIES)


def test_what_a_defense_sets_while_it_learns_does_not_outlast_it(federation, monkeypatch):
    """Where several processes share a network, its norms stood still for the whole training."""
    begin, seen = Role.resume_at, []

    def resume_at(self, step):
        seen.append(self._part.network.training)
        begin(self, step)

    monkeypatch.setattr(Role, "resume_at", resume_at)
    monkeypatch.setattr(Student, "prepare", lambda self, bottom, data: bottom.eval())
    co.train(federation, {"lab": Student([], "lab")}, progress=False, **QUICK)
    assert seen == [True] * 3


def test_a_network_that_does_not_fit_names_the_setting_and_the_party(federation):
    with pytest.raises(ConfigError, match=r"clinic: task\.network\.family: module 1 of resnet18: it needs images"):
        co.train(federation, network="resnet18", progress=False)
    with pytest.raises(ConfigError, match=r"clinic: task\.network\.cut: mlp has 7 modules"):
        co.train(federation, network={"cut": 9}, progress=False)


def test_records_that_do_not_fit_the_model_are_the_partys(federation):
    """With five parties nobody knew whose column it was."""
    model = co.train(federation, progress=False, epochs=1)
    with pytest.raises(DataError, match=r"lab: column 'glucose' held numbers .* \(make it numbers again\)"):
        model.predict(frame(20).assign(glucose="high"))
    dates = frame().assign(claims=pd.Timestamp("2020-01-01"))
    with pytest.raises(DataError, match="insurer: column 'claims' holds dates"):
        co.train(co.Federation.from_frame(dates, PARTIES, label=("clinic", "outcome")), progress=False)


def test_imputed_alignment_is_the_same_every_time():
    table = frame(100)
    frames = {"clinic": table[["age", "outcome"]], "lab": table[["glucose"]].sample(frac=0.5, random_state=0)}
    federation = co.Federation.from_frames(frames, label=("clinic", "outcome"))
    first, again = co.align(federation, "impute"), co.align(federation, "impute")
    assert all((first.rows[party] == again.rows[party]).all() for party in first.rows)


def test_only_the_party_itself_can_compute_its_noise_and_its_first_weights():
    agreed = Agreement("run", ("clinic", "lab"), "clinic", co.Task(), seed=0)
    seeds = {agreed.private_seed("defense", "lab", secret) for secret in (b"lab's own", b"a guess", b"")}
    assert len(seeds) == 3
