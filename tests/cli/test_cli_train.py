"""`colonnade train` and `predict` from files: what they are told to write can be written, and programs can read it."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from typed import colonnade, succeed

from colonnade.data.read import read_table_by_id
from colonnade.learn.model import VerticalModel


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A clinic and a lab; all test records have one label, so there is no AUC."""
    monkeypatch.chdir(tmp_path)
    random, split = np.random.default_rng(0), {"column": "part"}
    parts, label = ["train"] * 40 + ["validation"] * 10 + ["test"] * 10, ["no", "yes"] * 25 + ["no"] * 10
    clinic = pd.DataFrame({"id": range(60), "age": random.normal(size=60), "part": parts, "ill": label})
    pd.DataFrame({"id": range(60), "glucose": random.normal(size=60)}).to_csv("lab.csv", index=False)
    clinic.to_csv("clinic.csv", index=False)
    parties = {party: {"address": f"127.0.0.1:{port}"} for party, port in (("clinic", 7101), ("lab", 7102))}
    task = {"epochs": 1, "split": split}
    federation = {"name": "study", "active": "clinic", "label": "ill", "parties": parties, "task": task}
    (tmp_path / "federation.yaml").write_text(yaml.safe_dump(federation))
    for party in parties:
        own = {"party": party, "data": {"path": f"{party}.csv", "id_column": "id"}}
        (tmp_path / f"{party}.yaml").write_text(yaml.safe_dump(own))
    return tmp_path


def train(*options):
    return colonnade("train", "federation.yaml", "--party", "clinic.yaml", "--party", "lab.yaml", *options)


def strict(line):
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(line, parse_constant=refuse)


def test_a_score_that_is_no_number_is_still_json(study):
    """Half of the programs that read JSON stop at NaN."""
    result = train("--json")
    assert result.exit_code == 0, result.stderr
    told = [strict(line) for line in result.stdout.splitlines()][-1]
    assert told["event"] == "result"
    assert told["test"]["auc"] is None and told["test"]["accuracy"] >= 0


def test_a_model_that_could_not_be_kept_is_not_trained(study):
    (study / "taken").write_text("")
    result = train("--out", "taken")
    assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1), result.output
    assert "taken: no folder can be written here" in result.stderr
    assert not (study / "runs").exists()


@pytest.mark.parametrize("command", [["demo"], ["keys", "clinic", "lab"]])
def test_a_file_where_a_folder_should_be_is_one_line(study, command):
    (study / "taken").write_text("")
    result = colonnade(*command, "--out", "taken")
    assert (result.exit_code, result.stderr.splitlines()) == (
        3,
        ["error: taken: no folder can be written here: File exists (name another folder)"],
    )


def test_answers_that_could_not_be_kept_are_not_computed(study, monkeypatch):
    assert train("--out", "model").exit_code == 0
    pd.merge(*(pd.read_csv(f"{party}.csv") for party in ("clinic", "lab")), on="id").to_csv("new.csv", index=False)
    words = ["predict", "model", "--data", "new.csv", "--id", "id", "--out"]
    with monkeypatch.context() as patch:
        patch.setattr(VerticalModel, "load", lambda *_: pytest.fail("it began"))
        for out, what in (("nowhere/a.csv", "there is no folder nowhere"), (".", "is a folder")):
            result = colonnade(*words, out)
            assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1), result.output
            assert f"--out: {what}" in result.stderr or what in result.stderr
    succeed(*words, "answers.csv")
    assert len(read_table_by_id("answers.csv", "id")) == 60
