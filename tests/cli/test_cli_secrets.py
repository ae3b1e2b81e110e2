"""Mistakes about secrets and shared labels, as a user makes them: one clear line, no traceback, nothing sent."""

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from colonnade.cli import app


class Study:
    """The files that `colonnade init` writes, with records, and a secret at the lab that NashCoder hides."""

    def __init__(self, folder):
        self.folder = folder
        self.run("init", "clinic", "lab", "--active", "clinic", "--label", "outcome", "--out", folder)
        random = np.random.default_rng(0)
        table = pd.DataFrame(random.normal(size=(80, 3)), columns=["age", "glucose", "insulin"])
        table["sex"], table["country"] = np.where(table["glucose"] > 0, "f", "m"), "x"
        table["outcome"] = np.where(table["age"] > 0, "ill", "well")
        for party, columns in (("clinic", ["age", "outcome"]), ("lab", ["glucose", "insulin", "sex", "country"])):
            table[columns].to_csv(folder / f"{party}.csv", index_label="id")
        self.change("federation", task={"epochs": 1})
        self.change("lab", sensitive=["sex"], defense={"name": "nashcoder"}, credentials=None, runs="runs")
        self.change("clinic", credentials=None, runs="runs")

    def change(self, file, **content):
        path = self.folder / f"{file}.yaml"
        kept = yaml.safe_load(path.read_text())
        for key, value in content.items():
            merged = isinstance(value, dict) and isinstance(kept.get(key), dict)
            kept[key] = {**kept[key], **value} if merged else value
        path.write_text(yaml.safe_dump(kept))

    def run(self, *arguments):
        return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "300"})

    def each_command(self, offender):
        """Check, train and join, as the party that made the mistake."""
        federation, own = self.folder / "federation.yaml", self.folder / f"{offender}.yaml"
        yield self.run("check", federation, "--party", own, "--offline")
        parties = [word for name in ("clinic", "lab") for word in ("--party", self.folder / f"{name}.yaml")]
        yield self.run("train", federation, *parties, "--run", self.folder / "trained")
        yield self.run("join", federation, "--party", own, "--wait", "1")


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


def test_files_in_order_train(study):
    _, trained, _ = study.each_command("lab")
    assert trained.exit_code == 0, trained.output
    assert "defense: nashcoder" in trained.output


@pytest.mark.parametrize(
    ("file", "content", "offender", "told"),
    [
        ("lab", {"sensitive": ["sexx"]}, "lab", ["'sexx'", "did you mean 'sex'?"]),
        ("lab", {"sensitive": ["age"]}, "lab", ["'age'", "known: country, glucose, id, insulin, sex"]),
        ("lab", {"sensitive": ["country"]}, "lab", ["country", "the same in all records", "nothing to hide"]),
        ("lab", {"sensitive": ["sex", "sex"]}, "lab", ["'sex' is listed twice", "list it once"]),
        ("clinic", {"sensitive": ["outcome"]}, "clinic", ["'outcome' is the label, no secret", "leave it out"]),
        ("lab", {"defense": {"alpha": -1.0}}, "lab", ["-1.0 is not allowed", "give a number of at least 0"]),
        ("lab", {"defense": {"alpha": float("nan")}}, "lab", ["nan is not allowed", "give a number of at least 0"]),
        ("lab", {"defense": {"cost": "cheap"}}, "lab", ["unknown cost 'cheap'", "capped_ce"]),
        ("lab", {"defense": {"alfa": 1}}, "lab", ["unknown parameter 'alfa'", "did you mean 'alpha'?"]),
        ("federation", {"task": {"labels": "shared"}}, "clinic", ["shows labels to all parties", "share_labels: true"]),
        ("federation", {"task": {"labels": "shard"}}, "clinic", ["task.labels", "did you mean 'shared'?"]),
        ("federation", {"task": {"local_updates": 0}}, "clinic", ["task.local_updates", "not 0"]),
        ("federation", {"task": {"weights": {"strategy": "shapely"}}}, "lab", ["did you mean 'shapley'?"]),
        ("clinic", {"share_label": True}, "clinic", ["did you mean 'share_labels'?"]),
    ],
)
def test_a_mistake_is_told_in_one_line_by_every_command(study, file, content, offender, told):
    study.change(file, **content)
    checked, trained, joined = study.each_command(offender)
    assert checked.exit_code == 3
    assert all(words in checked.output for words in told), checked.output
    for result in (trained, joined):
        assert result.exit_code in (3, 4) and isinstance(result.exception, SystemExit), result.output
        (line,) = [line for line in result.output.splitlines() if line.startswith("error: ")]
        assert all(words in line for words in told), line


def test_a_defense_without_its_secret(study):
    study.change("lab", sensitive=[])
    _, trained, joined = study.each_command("lab")
    for result in (trained, joined):
        assert result.exit_code == 3
        assert "error: lab: 'nashcoder' hides sensitive columns, and none is named" in result.output


def test_the_label_is_no_secret_of_a_passive_party_either(study):
    table = pd.read_csv(study.folder / "lab.csv")
    table.assign(outcome=pd.read_csv(study.folder / "clinic.csv")["outcome"]).to_csv(study.folder / "lab.csv")
    study.change("lab", sensitive=["outcome"], data={"columns": ["glucose", "insulin"]})
    checked, trained, joined = study.each_command("lab")
    assert "'outcome' is the label, no secret" in checked.output and checked.exit_code == 3
    for result in (trained, joined):
        line = f"error: {study.folder}/lab.yaml: sensitive: 'outcome' is the label, no secret (leave it out)"
        assert result.output.splitlines()[-1] == line
