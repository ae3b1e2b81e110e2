"""What a party's files say of its training: paths, labels and parts are found or missed before anybody is talked to."""

import numpy as np
import pandas as pd
import pytest
import yaml

from colonnade.checkpoint import write_arrays
from colonnade.data.split import VALIDATION, split_from_column
from colonnade.errors import ConfigError, DataError
from colonnade.learn.choices import choices_of
from colonnade.learn.join import TrainingPlace, join
from colonnade.progress import Progress
from colonnade.run import Run


class Study:
    """Two parties' files in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        parties = {party: {"address": f"127.0.0.1:{port}"} for party, port in (("clinic", 7101), ("lab", 7102))}
        self.federation = {"name": "study", "active": "clinic", "label": "outcome", "parties": parties, "task": {}}
        random = np.random.default_rng(0)
        clinic = {"id": [f"p{number}" for number in range(40)], "age": random.normal(size=40), "outcome": [0, 1] * 20}
        self.clinic = pd.DataFrame(clinic)
        self.own = {"party": "clinic", "data": {"path": "clinic.csv", "id_column": "id"}, "runs": "runs"}

    def place(self):
        self.clinic.to_csv(self.folder / "clinic.csv", index=False)
        (self.folder / "federation.yaml").write_text(yaml.safe_dump(self.federation))
        (self.folder / "clinic.yaml").write_text(yaml.safe_dump(self.own))
        return TrainingPlace.read(self.folder / "federation.yaml", self.folder / "clinic.yaml")


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path / "study")


def refused(study, kind):
    """Join; return the error, which came before a run folder was made, and so before a connection."""
    with pytest.raises(kind) as caught:
        join(study.place(), Progress())
    assert not (study.folder / "runs").exists()
    return caught.value


def test_a_missing_label_names_its_record_and_nobody_else_is_told(study):
    """A number of a row in an order that only the run knows helps nobody; an id told to all is a record given away."""
    study.clinic["outcome"] = study.clinic["outcome"].astype("Int64").where(study.clinic["id"] != "p7")
    error = refused(study, DataError)
    assert error.where == f"{study.folder}/clinic.csv: column 'outcome'"
    assert error.what == "there is no label for record p7"


def test_dates_are_refused_before_a_connection(study):
    """After the alignment all parties would be there, and in vain."""
    study.clinic["visit"] = "2024-03-01"
    assert "column 'visit' holds dates or times" in refused(study, DataError).what


def test_a_record_in_no_part_is_named_too(study):
    study.federation["task"] = {"split": {"column": "part"}}
    study.clinic["part"] = ["train", "test", "tset", *["train"] * 37]
    error = refused(study, DataError)
    assert error.where == f"{study.folder}/clinic.csv: column 'part'"
    assert error.what == "there is no known part for record p2"


def test_a_floor_that_not_all_parties_can_have_is_refused(study):
    study.federation["task"] = {"weights": {"strategy": "shapley", "floor": 0.9}}
    error = refused(study, ConfigError)
    assert (error.where, error.remedy) == ("task.weights.floor", "give at most 0.5")


def test_a_plain_name_is_the_strategy_of_the_weights(study):
    study.federation["task"] = {"weights": "shapley"}
    assert study.place().federation.task.weights.strategy == "shapley"
    study.federation["task"] = {"weights": "shaply"}
    with pytest.raises(ConfigError, match="did you mean 'shapley'"):
        study.place()


def test_validation_records_are_chosen_by_id_not_by_their_row(study):
    """A table in another order would move records from validation into training."""
    study.federation["task"] = {"split": {"column": "part"}}
    study.clinic["part"] = ["train"] * 30 + ["test"] * 10
    chosen = []
    for order in (study.clinic, study.clinic[::-1]):
        study.clinic = order
        _, split = study.place().records()
        chosen.append(set(split.index[split_from_column(split, validation=0.5) == VALIDATION]))
    assert chosen[0] == chosen[1] != set()


def test_the_graph_of_a_defense_is_looked_for_beside_the_party_file(study, tmp_path, monkeypatch):
    """Started from another folder, the command would find no graph, or another one."""
    study.own["defense"] = {"name": "causshield", "graph": "graph.json"}
    monkeypatch.chdir(tmp_path)
    error = refused(study, ConfigError)
    assert error.where == f"{study.folder}/clinic.yaml: defense.graph"
    assert error.what == f"there is no file {study.folder}/graph.json" and error.remedy
    (study.folder / "graph.json").write_text("{}")
    assert study.place().defense.graph == str(study.folder / "graph.json")


def test_causes_that_are_listed_are_no_file(study):
    study.own["defense"] = {"name": "causshield", "graph": ["age"]}
    assert study.place().defense.graph == ["age"]


def test_another_strength_at_a_resume_names_file_and_field_before_anything_is_opened(study):
    """The run would go on half as strong, and the saved part would tell the new strength for the whole of it."""
    study.own["defense"] = {"name": "gaussian", "sigma": 0.5}
    place = study.place()
    with Run.create("study", {}, study.folder / "runs") as run:
        noted = {"choices": choices_of(place.defense, place.records()[0], "clinic")}
        write_arrays(run.checkpoints / "step-000000005.safetensors", {}, noted)
        run.fail("power cut")
    study.own["defense"]["sigma"] = 0.1
    with pytest.raises(ConfigError) as caught:
        join(study.place(), Progress(), resume=True)
    assert caught.value.where == f"{study.folder}/clinic.yaml: defense.sigma"
    assert caught.value.what == "the run began with sigma 0.5, not 0.1" and caught.value.remedy
    assert Run.open(run.path).reason == "power cut", "the folder stays as it is"
    assert list(run.checkpoints.iterdir())


@pytest.mark.parametrize(
    ("federation", "run"),
    [
        ("study", "study"),
        ("Second study, 2026", "Second-study-2026"),
        ("_study", "study"),
        ("癌研究", "federation-5525d58f0a22"),
        ("étude", "tude-"),
        ("x" * 200, "x" * 47 + "-"),
        ("!", "federation-"),
    ],
)
def test_every_name_of_a_federation_gives_its_run_a_usable_one(study, federation, run):
    """A folder must have it, also with the words that a prediction adds."""
    study.federation["name"] = federation
    place = study.place()
    assert place.run_name.startswith(run) and (len(federation) < 20 or len(place.run_name) <= 60)
    assert place.run_name == study.place().run_name
    with place.run_folder(False, {}) as trained, place.new_run("predict") as predicted:
        assert trained.name == place.run_name
        assert predicted.name.startswith(f"{place.run_name}-predict-")


def test_names_that_differ_in_lost_letters_are_names_of_different_runs(study):
    names = []
    for study.federation["name"] in ("癌研究", "心研究", "x" * 99, "x" * 98):
        names.append(study.place().run_name)
    assert len({*names}) == 4


def test_a_run_that_can_be_trained_can_be_predicted_with(study):
    """The longest name of a run leaves no room for the words that a prediction adds."""
    place = study.place()
    files = place.federation_path, place.party_path
    long = TrainingPlace.read(*files, "r" * 100)
    with long.run_folder(False, {}), long.new_run("predict") as predicted:
        assert predicted.config["run"] == "r" * 100
    with pytest.raises(ConfigError, match=r"--run: a run's name of 101 characters is too long \(use up to 100\)"):
        TrainingPlace.read(*files, "r" * 101)


def test_columns_of_pictures_are_refused(study):
    """They would be left aside without a word."""
    study.own["data"] = {"path": "scans", "kind": "images", "columns": ["age"]}
    error = refused(study, ConfigError)
    assert (error.where, error.what) == (f"{study.folder}/clinic.yaml: data.columns", "images have no columns")


@pytest.mark.parametrize("listed", [[], None])
def test_a_passive_party_without_columns_is_told_so(study, listed):
    """It would hear of it after the alignment, hours later, and in words of the program's inside."""
    study.federation["active"] = "lab"
    study.own["data"]["columns"] = listed
    if listed is None:
        study.clinic = study.clinic[["id"]]
    error = refused(study, DataError)
    assert (error.where, error.what) == (f"{study.folder}/clinic.yaml: data.columns", "a passive party needs columns")
    assert "list its columns" in error.remedy
