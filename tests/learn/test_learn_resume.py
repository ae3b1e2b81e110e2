"""What may not change on the way: if these fail, a secret goes unhidden, or a result is lost, and nobody hears."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.checkpoint import read_arrays, write_arrays
from colonnade.defend import make_defense
from colonnade.errors import ConfigError, RunError
from colonnade.learn.choices import choices_of
from colonnade.progress import Progress
from colonnade.run import Run

PARTIES = {"clinic": ["age", "bmi"], "lab": ["glucose", "insulin"]}
SETTINGS = {"seed": 0, "epochs": 3, "batch_size": 32, "checkpoint_every": 3}
NASH = {"name": "nashcoder", "alpha": 0.3, "head_steps": 1}
LAYERED = {"name": "layered", "layers": [NASH, {"name": "gaussian", "sigma": 0.1}]}
REMEDY = "put it back, or choose another run name"


class Crash(Progress):
    """Ends the run in its middle."""

    def advance(self, step, **values):
        if step == 8:
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


def forget_choices(folder: Path) -> None:
    """Make the checkpoints those of a version that did not note choices."""
    for path in folder.glob("*/checkpoints/*.safetensors"):
        arrays, meta = read_arrays(path)
        del meta["choices"]
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


def test_a_run_that_an_older_version_began_goes_on(tmp_path):
    begin(tmp_path)
    forget_choices(tmp_path)
    undisturbed = co.train(federation(), {"lab": NASH}, progress=False, **SETTINGS)
    assert resume(tmp_path).scores == undisturbed.scores


@pytest.mark.parametrize(("defense", "secrets"), [(NASH, ["sex", "smoker"]), (NASH, ["weight"]), ("none", ["sex"])])
def test_what_an_older_version_did_not_note_is_still_one_clear_error(tmp_path, defense, secrets):
    """A mismatch of tensors helps nobody, and an added secret would not be hidden."""
    begin(tmp_path)
    forget_choices(tmp_path)
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
