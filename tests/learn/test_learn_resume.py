"""What may not change on the way: if these fail, a secret goes unhidden, or a result is lost, and nobody hears."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import colonnade as co
from colonnade.align.alignment import Alignment
from colonnade.checkpoint import read_arrays, write_arrays
from colonnade.defend import make_defense
from colonnade.errors import ConfigError, RunError
from colonnade.federation.task import Task
from colonnade.learn.agreement import Agreement
from colonnade.learn.choices import choices_of
from colonnade.learn.role import Seat
from colonnade.learn.train import take_part
from colonnade.progress import Progress
from colonnade.run import Run
from colonnade.wire.together import run_together

PARTIES = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"]}
SETTINGS = {"seed": 0, "epochs": 3, "batch_size": 32, "checkpoint_every": 3}
NASH = {"name": "nashcoder", "alpha": 0.3, "head_steps": 1}
LAYERED = {"name": "layered", "layers": [NASH, {"name": "gaussian", "sigma": 0.1}]}
REMEDY = "put it back, or choose another run name"


class Crash(Progress):
    """Ends the run in its middle."""

    def __init__(self, at=8):
        self.at = at

    def advance(self, step, **values):
        if step == self.at:
            raise KeyboardInterrupt


def federation(secrets=("sex",), **columns):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(200, 4)), columns=["age", "bmi", "glucose", "insulin"])
    table["sex"] = np.where(table["glucose"] > 0, "f", "m")
    table["smoker"] = np.where(table["insulin"] > 0, "yes", "no")
    table["weight"] = 70 + 9 * random.normal(size=200)
    table["outcome"] = np.where(table["age"] + table["insulin"] > 0, "ill", "well")
    named = {"lab": list(secrets)} if secrets else None
    table = table.assign(**columns)
    return co.Federation.from_frame(table, PARTIES, label=("clinic", "outcome"), secrets=named)


def begin(folder, defense=NASH, secrets=("sex",)):
    with pytest.raises(KeyboardInterrupt):
        co.train(federation(secrets), {"lab": defense}, run=folder, progress=Crash(), **SETTINGS)


def resume(folder, defense=NASH, made=None):
    return co.train(made or federation(), {"lab": defense}, run=folder, resume=True, progress=False, **SETTINGS)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def forget(folder: Path, noted: str) -> None:
    """Make the checkpoints those of a version that did not note something."""
    for path in folder.glob("*/checkpoints/*.safetensors"):
        arrays, meta = read_arrays(path)
        del meta[noted]
        write_arrays(path, arrays, meta)


@pytest.mark.parametrize(
    ("began", "secrets", "field", "what"),
    [
        ({**NASH, "alpha": 0.9}, ["sex"], "defense.alpha", "alpha 0.9, not 0.3"),
        ({**NASH, "sigma": 0}, ["sex"], "defense.sigma", "sigma 0, not 1.0"),
        ({**NASH, "reversal": True}, ["sex"], "defense.reversal", "reversal true, not false"),
        ("none", ["sex"], "defense.name", "name none, not nashcoder"),
        (LAYERED, ["sex"], "defense.name", "name layered, not nashcoder"),
        (NASH, ["sex", "smoker"], "sensitive", "sensitive sex (2 classes), smoker (2 classes), not sex (2 classes)"),
        (NASH, ["smoker"], "sensitive", "sensitive smoker (2 classes), not sex (2 classes)"),
        (NASH, ["weight"], "sensitive", "sensitive weight (a quantity), not sex (2 classes)"),
    ],
)
def test_other_choices_than_the_run_began_with_are_refused_and_nothing_is_lost(tmp_path, began, secrets, field, what):
    """An added secret would not be hidden, and the saved part would tell a strength it was not trained with."""
    begin(tmp_path, began, secrets)
    before = contents(tmp_path)
    with pytest.raises(ConfigError) as caught:
        resume(tmp_path)
    assert (caught.value.where, caught.value.remedy) == (f"lab: {field}", REMEDY)
    assert caught.value.what == f"the run began with {what}"
    assert contents(tmp_path) == before
    assert resume(tmp_path, began, federation(secrets)).scores, "with the old choices it goes on"


def test_another_order_of_secrets_is_another_choice(tmp_path):
    """Each head would go on with the other's secret."""
    begin(tmp_path, secrets=["sex", "smoker"])
    with pytest.raises(ConfigError, match=r"began with sensitive sex .*, smoker .*, not smoker .*, sex"):
        resume(tmp_path, made=federation(["smoker", "sex"]))


def test_a_secret_read_otherwise_is_another_choice(tmp_path):
    begin(tmp_path)
    with pytest.raises(ConfigError, match=r"sex \(2 classes\), not sex \(4 classes\)"):
        resume(tmp_path, made=federation(sex=np.resize(["f", "m", "x", "y"], 200)))


def test_the_strength_of_a_layer_is_named_by_its_place(tmp_path):
    begin(tmp_path, LAYERED)
    weaker = {"name": "layered", "layers": [NASH, {"name": "gaussian", "sigma": 0.01}]}
    with pytest.raises(ConfigError, match=r"lab: defense\.layers\.1\.sigma: the run began with sigma 0\.1, not 0\.01"):
        resume(tmp_path, weaker)
    with pytest.raises(ConfigError, match=r"lab: defense\.layers: the run began with layers nashcoder, gaussian, not"):
        resume(tmp_path, {"name": "layered", "layers": [NASH]})


def test_before_the_first_checkpoint_choices_may_still_change(tmp_path):
    """Whoever is told by the others to choose another defense could not go on under the name that all agreed on."""
    begin(tmp_path)
    for path in tmp_path.glob("*/checkpoints/*"):
        path.unlink()
    resume(tmp_path, {**NASH, "alpha": 0.9})
    assert json.loads((tmp_path / "lab" / "model" / "part.json").read_text())["bottom"]["defense"]["alpha"] == 0.9


@pytest.mark.parametrize("forgetful", PARTIES)
def test_checkpoints_are_not_cleared_away_because_one_party_lost_its_own(tmp_path, forgetful):
    """One lost folder would throw away what all have learned, and nobody would hear of it."""
    begin(tmp_path)
    for path in (tmp_path / forgetful / "checkpoints").iterdir():
        path.rename(tmp_path / path.name)
    before = contents(tmp_path / next(party for party in PARTIES if party != forgetful) / "checkpoints")
    assert len(before) == 2
    with pytest.raises(RunError, match=f"{forgetful} holds no checkpoint to go on from") as caught:
        resume(tmp_path)
    assert "bring its run folder back" in caught.value.remedy
    assert contents(tmp_path / next(party for party in PARTIES if party != forgetful) / "checkpoints") == before
    for path in tmp_path.glob("step-*"):
        path.rename(tmp_path / forgetful / "checkpoints" / path.name)
    undisturbed = co.train(federation(), {"lab": NASH}, progress=False, **SETTINGS)
    assert resume(tmp_path).scores == undisturbed.scores, "with it back, all go on"


def test_who_was_killed_before_its_first_checkpoint_is_no_reason_to_refuse(tmp_path):
    """Parties may be a step apart when one dies: nobody lost anything, and the run could never be resumed."""
    begin(tmp_path)
    for path in [*(tmp_path / "lab" / "checkpoints").iterdir(), *tmp_path.glob("clinic/checkpoints/step-*6.*")]:
        path.unlink()
    assert [path.name for path in tmp_path.glob("clinic/checkpoints/*")] == ["step-000000003.safetensors"]
    undisturbed = co.train(federation(), {"lab": NASH}, progress=False, **SETTINGS)
    assert resume(tmp_path).scores == undisturbed.scores


def live(channel, name, made, folder, progress, curious=None, rate=0.001, resume=True):
    """One party's life over the channel, with a secret of its own, as over a network."""
    task = Task(batch_size=32, epochs=3, checkpoint_every=4, optimizer={"learning_rate": rate})
    agreed = Agreement("town", tuple(PARTIES), "clinic", task, 0)
    aligned = Alignment(made.rows[name], "the same", "drop")
    defense = make_defense("gaussian", sigma=0.1)
    with Run.resume(folder / name) as run:
        channel.observe(run.ledger.record)
        seat = Seat(name, made.records[name], aligned, defense, torch.device("cpu"), run, resume, run.secret)
        return take_part(channel, agreed, seat, progress, curious)


def uploads(folder, step=0):
    """The upload of a step of every attempt, by what was in it."""
    lines = map(json.loads, (folder / "lab" / "ledger.jsonl").read_text().splitlines())
    return [line["digest"] for line in lines if line["kind"] == "upload" and line["step"] == step]


class Answers:
    """An active party that answers with gradients of its own from some step on, then ends the run."""

    def __init__(self, gradient, start=4, end=7):
        self.gradient, self.start, self.end = gradient, start, end

    def begin(self, top, shapes, outputs):
        pass

    def watch(self, step, uploads, labels, honest):
        if step == self.end:
            raise KeyboardInterrupt
        return honest if step < self.start else {name: torch.full_like(g, self.gradient) for name, g in honest.items()}


def test_who_lets_a_run_be_resumed_and_answers_otherwise_gets_other_noise(tmp_path):
    """Two uploads of the same records under one noise: their difference is free of it. Nothing is learned here."""
    for party in PARTIES:
        Run.create(party, {}, tmp_path).close()
    lives = {name: partial(live, name=name, made=federation(), folder=tmp_path, rate=1e-12) for name in PARTIES}
    for gradient in (1.0, 1.0, 2.0):
        with pytest.raises(KeyboardInterrupt):
            run_together(
                {name: partial(one, progress=Progress(), curious=Answers(gradient)) for name, one in lives.items()}
            )
    first, alike, other = uploads(tmp_path, step=4)
    assert first == alike == other, "before it answers, all is as it was"
    first, alike, other = uploads(tmp_path, step=5)
    assert first == alike != other


def test_a_run_with_secrets_that_is_resumed_ends_with_the_weights_of_an_undisturbed_one(tmp_path):
    for folder in (tmp_path / "crashed", tmp_path / "undisturbed"):
        for party in PARTIES:
            with Run.create(party, {}, folder) as run:
                (run.path / "secret").write_bytes(party.encode().ljust(32))
    run = {
        folder: {name: partial(live, name=name, made=federation(), folder=tmp_path / folder) for name in PARTIES}
        for folder in ("crashed", "undisturbed")
    }
    with pytest.raises(KeyboardInterrupt):
        crashing = {name: partial(one, progress=Crash(at=6), resume=False) for name, one in run["crashed"].items()}
        run_together(crashing)
    made = {
        folder: run_together(
            {name: partial(one, progress=Progress(), resume=folder == "crashed") for name, one in lives.items()}
        )
        for folder, lives in run.items()
    }
    for party in PARTIES:
        ended, expected = (made[folder][party].bottom.network.state_dict() for folder in made)
        assert all(torch.equal(ended[name], expected[name]) for name in expected)


def test_no_noise_is_used_twice_where_a_resumed_run_begins_anew(tmp_path):
    """Records may have changed in between: the difference of two uploads under one noise shows them bare."""
    for party in PARTIES:
        Run.create(party, {}, tmp_path).close()
    secrets = []
    for _ in range(2):
        lives = {name: partial(live, name=name, made=federation(), folder=tmp_path) for name in PARTIES}
        with pytest.raises(KeyboardInterrupt):
            run_together({name: partial(life, progress=Crash(at=3)) for name, life in lives.items()})
        secrets.append((tmp_path / "lab" / "secret").read_bytes())
    assert secrets[0] != secrets[1]
    assert len(set(uploads(tmp_path))) == 2
    with pytest.raises(KeyboardInterrupt):
        run_together({name: partial(life, progress=Crash(at=6)) for name, life in lives.items()})
    secrets.append((tmp_path / "lab" / "secret").read_bytes())
    run_together({name: partial(life, progress=Progress()) for name, life in lives.items()})
    assert secrets[2] == (tmp_path / "lab" / "secret").read_bytes(), "from a checkpoint on, its secret goes on"
    assert len(uploads(tmp_path)) == len(set(uploads(tmp_path))) == 3


def test_a_run_that_an_older_version_began_goes_on(tmp_path):
    begin(tmp_path)
    forget(tmp_path, "choices")
    undisturbed = co.train(federation(), {"lab": NASH}, progress=False, **SETTINGS)
    assert resume(tmp_path).scores == undisturbed.scores


@pytest.mark.parametrize(("defense", "secrets"), [(NASH, ["sex", "smoker"]), (NASH, ["weight"]), ("none", ["sex"])])
def test_what_an_older_version_did_not_note_is_still_one_clear_error(tmp_path, defense, secrets):
    """A mismatch of tensors helps nobody, and an added secret would not be hidden."""
    begin(tmp_path)
    forget(tmp_path, "choices")
    with pytest.raises(RunError, match="lab/checkpoints: does not fit this party's columns, secrets or defense"):
        resume(tmp_path, defense, federation(secrets))


def test_a_graph_is_known_by_its_content_not_by_its_path(tmp_path):
    """Started from another folder, the run could not be resumed; with another graph, it should not."""
    records = federation().records["lab"]
    for name, text in (("one", "[]"), ("other", "[]"), ("third", "[1]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "graph.json").write_text(text)
    one, other, third = (
        choices_of(make_defense("causshield", graph=str(tmp_path / name / "graph.json")), records, "lab")
        for name in ("one", "other", "third")
    )
    assert one == other != third


def reordered(made):
    """The same columns of the lab, the other way round."""
    table = made.records["lab"].table
    lab = replace(made.records["lab"], table=table[table.columns[::-1]])
    return replace(made, records={**made.records, "lab": lab})


def halved(made):
    return made.aligned({party: rows[:100] for party, rows in made.rows.items()})


def turned(made):
    """The same records, each at another position."""
    return made.aligned({party: rows[::-1].copy() for party, rows in made.rows.items()})


def split_otherwise(made):
    ids = made.records["clinic"].ids
    return replace(made, split=pd.Series(np.resize(["train", "train", "test"], len(ids)), index=ids))


def measured_anew(made):
    lab = made.records["lab"]
    return replace(made, records={**made.records, "lab": replace(lab, table=lab.table * 2)})


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (reordered, "lab/checkpoints: belongs to other columns, to these in another order, or to other values"),
        (measured_anew, "lab/checkpoints: belongs to other columns, to these in another order, or to other values"),
        (halved, "checkpoints: belongs to other records, or to these in another order"),
        (turned, "checkpoints: belongs to other records, or to these in another order"),
        (split_otherwise, "checkpoints: belongs to another split of the records"),
    ],
)
def test_other_columns_or_records_than_the_run_began_with_are_refused(tmp_path, change, what):
    """Weights would go on with inputs they were not made for, and the result be near a guess without a word."""
    begin(tmp_path)
    held = {name: file for name, file in contents(tmp_path).items() if "/checkpoints/" in name}
    with pytest.raises(RunError, match=what):
        resume(tmp_path, made=change(federation()))
    assert {name: file for name, file in contents(tmp_path).items() if "/checkpoints/" in name} == held
    assert resume(tmp_path).scores, "with the old files it goes on"


def test_a_beginning_that_an_older_version_did_not_note_is_passed_by(tmp_path):
    begin(tmp_path)
    forget(tmp_path, "beginning")
    undisturbed = co.train(federation(), {"lab": NASH}, progress=False, **SETTINGS)
    assert resume(tmp_path).scores == undisturbed.scores


def test_choices_hold_no_value_of_a_secret(tmp_path):
    begin(tmp_path, secrets=["smoker", "weight"])
    _, meta = read_arrays(max((tmp_path / "lab" / "checkpoints").glob("step-*")))
    assert meta["choices"]["sensitive"] == ["smoker (2 classes)", "weight (a quantity)"]
    assert "yes" not in json.dumps(meta["choices"])


def test_everybody_resumes_a_finished_run_and_has_the_same_result(tmp_path):
    """A service that always starts with --resume would lose its scores, or get others."""
    settings = {**SETTINGS, "checkpoint_every": 4}
    co.train(federation(), {"lab": NASH}, run=tmp_path, progress=False, **settings)
    first = {party: Run.open(tmp_path / party).result for party in PARTIES}
    co.train(federation(), {"lab": NASH}, run=tmp_path, resume=True, progress=False, **settings)
    for party in PARTIES:
        again = Run.open(tmp_path / party)
        again.verify_ledger()
        assert again.status == "finished"
        ours, theirs = dict(again.result), dict(first[party])
        assert ours.pop("last_attempt") != theirs.pop("last_attempt")
        assert ours == theirs


def test_a_result_says_which_bytes_are_those_of_all_attempts(tmp_path):
    """Two numbers of one name, of which one is smaller: whoever reports it tells too little of what was sent."""
    begin(tmp_path)
    resume(tmp_path)
    ending = json.loads((tmp_path / "lab" / "result.json").read_text())
    assert "sent_bytes" not in ending["result"]
    assert ending["sent_bytes"] == Run.open(tmp_path / "lab").ledger.sent_bytes
    assert 0 < ending["result"]["last_attempt"]["sent_bytes"] < ending["sent_bytes"]
