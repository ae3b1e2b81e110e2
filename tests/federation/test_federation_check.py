"""`check`: every kind of mistake is told, all at once, before anything is sent."""

import numpy as np
import pandas as pd
import pytest
import yaml

from colonnade.federation import check
from colonnade.federation.problems import Problem


@pytest.fixture
def study(tmp_path):
    """Two parties whose files and records are in order."""
    clinic = pd.DataFrame({"id": range(8), "age": np.arange(8) + 30.0, "outcome": ["no", "yes"] * 4})
    lab = pd.DataFrame({"id": range(8), "glucose": np.arange(8) / 2, "insulin": [1, 2, 3, 4, 5, 6, 7, 8]})
    return Study(tmp_path, {"clinic": clinic, "lab": lab})


class Study:
    def __init__(self, folder, tables):
        self.folder, self.tables = folder, tables
        addresses = {name: {"address": f"{name}:7101", "fingerprint": None} for name in tables}
        self.federation = {"name": "study", "parties": addresses, "active": "clinic", "label": "outcome", "task": {}}
        self.parties = {n: {"party": n, "data": {"path": f"{n}.csv", "id_column": "id"}} for n in tables}

    def write(self):
        (self.folder / "federation.yaml").write_text(yaml.safe_dump(self.federation, sort_keys=False))
        for name, table in self.tables.items():
            (self.folder / f"{name}.csv").unlink(missing_ok=True)
            if table is not None:
                table.to_csv(self.folder / f"{name}.csv", index=False)
            (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(self.parties[name]))
        return self

    def check(self, name, **extra):
        self.write()
        return check(self.folder / "federation.yaml", self.folder / f"{name}.yaml", **extra)

    def problems(self, name):
        return [problem for problem in self.check(name) if problem.severity == "problem"]


def only(problems):
    (problem,) = problems
    return problem


def test_files_in_order_have_no_problems(study):
    assert study.problems("clinic") == []
    assert study.problems("lab") == []


def test_parties_without_fingerprint_are_worth_a_note(study):
    note = only(study.check("lab"))
    assert (note.severity, note.field) == ("note", "parties")
    assert "clinic, lab" in note.what


def test_problems_of_both_files_and_of_the_records_come_together(study):
    study.federation["colour"] = "red"
    study.parties["lab"]["defence"] = {"name": "none"}
    assert {problem.field for problem in study.problems("lab")} == {"colour", "defence"}
    del study.parties["lab"]["defence"]
    study.tables["lab"] = None
    assert {problem.field for problem in study.problems("lab")} == {"colour", "data.path"}


def test_a_party_without_data(study):
    del study.parties["lab"]["data"]
    problem = only(study.problems("lab"))
    assert (problem.field, problem.what) == ("data", "is missing")


def test_without_a_label_and_a_coordinator_there_is_only_a_note(study):
    del study.federation["active"], study.federation["label"]
    assert study.problems("lab") == []
    assert "coordinator" in {note.field for note in study.check("lab")}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"data": {"path": "lab.csv", "id_column": "id"}}, "data"),
        ({"kinds": {"age": "count"}}, "kinds"),
        ({"sensitive": ["age"]}, "sensitive"),
        ({"knowledge": {"roots": ["age"]}}, "knowledge"),
    ],
)
def test_the_coordinator_holds_no_data_and_knows_nothing(study, given, field):
    """It sees the strengths of all edges: with columns of its own it would learn more than it must."""
    study.federation["coordinator"] = {"name": "hub", "address": "hub:7103"}
    study.tables["hub"], study.parties["hub"] = None, {"party": "hub"}
    assert study.problems("hub") == []
    study.parties["hub"] |= given
    assert only(study.problems("hub")).field == field


def test_the_federation_file_can_be_checked_alone(study):
    study.write()
    assert all(problem.severity == "note" for problem in check(study.folder / "federation.yaml"))


def test_a_party_that_is_not_in_the_federation(study):
    study.parties["lab"]["party"] = "labb"
    problem = only(study.problems("lab"))
    assert (problem.field, problem.remedy) == ("party", "did you mean 'lab'?")


def test_a_missing_data_file(study):
    study.tables["lab"] = None
    assert only(study.problems("lab")).field == "data.path"


def test_a_data_file_of_an_unknown_kind(study):
    study.parties["lab"]["data"]["path"] = "lab.yaml"
    problem = only(study.problems("lab"))
    assert (problem.field, "unknown kind of table" in problem.what) == ("data.path", True)


@pytest.mark.parametrize(
    ("change", "field", "close"),
    [
        ({"data": {"path": "lab.csv", "id_column": "idd"}}, "data.id_column", "id"),
        ({"data": {"path": "lab.csv", "id_column": "id", "columns": ["glucos"]}}, "data.columns", "glucose"),
        ({"sensitive": ["insulinn"]}, "sensitive", "insulin"),
    ],
)
def test_a_missing_column_names_the_nearest(study, change, field, close):
    study.parties["lab"] |= change
    problem = next(problem for problem in study.problems("lab") if problem.field == field)
    assert problem.remedy == f"did you mean '{close}'?"


def test_several_missing_columns_are_told_at_once(study):
    study.parties["lab"] |= {"sensitive": ["a", "b"], "data": {"path": "lab.csv", "id_column": "id", "columns": ["c"]}}
    assert [p.field for p in study.problems("lab")] == ["data.columns", "sensitive", "sensitive", "data.columns"]


def test_a_duplicate_id(study):
    study.tables["lab"].loc[3, "id"] = 4
    problem = only(study.problems("lab"))
    assert (problem.field, "more than once" in problem.what) == ("data.id_column", True)


def test_a_missing_id(study):
    study.tables["lab"]["id"] = ["a", None, *"cdefgh"]
    assert "missing" in only(study.problems("lab")).what


def test_infinite_values_and_duplicate_ids_are_told_together(study):
    study.tables["lab"].loc[3, "id"] = 4
    study.tables["lab"].loc[1, "glucose"] = np.inf
    assert len(study.problems("lab")) == 2


def test_the_label_at_a_passive_party(study):
    study.tables["lab"]["outcome"] = 1
    problem = only(study.problems("lab"))
    assert "holds the label 'outcome', which belongs to 'clinic'" in problem.what


def test_an_unused_label_at_a_passive_party_is_a_note(study):
    study.tables["lab"]["outcome"] = 1
    study.parties["lab"]["data"]["columns"] = ["glucose"]
    assert study.problems("lab") == []
    assert "it is not used" in study.check("lab")[-1].what


def test_no_label_at_the_active_party(study):
    study.federation["label"] = "outcom"
    problem = only(study.problems("clinic"))
    assert ("label column 'outcom'" in problem.what, problem.remedy) == (True, "did you mean 'outcome'?")


def test_the_label_among_the_features(study):
    study.parties["clinic"]["data"]["columns"] = ["age", "outcome"]
    assert only(study.problems("clinic")).field == "data.columns"


def test_a_label_that_does_not_fit_the_task(study):
    study.federation["task"] = {"kind": "binary"}
    study.tables["clinic"]["outcome"] = list("abcdabcd")
    assert "2 classes" in only(study.problems("clinic")).what


def test_missing_labels(study):
    study.tables["clinic"]["id"] = list("abcdefgh")
    study.tables["clinic"].loc[2, "outcome"] = None
    assert only(study.problems("clinic")).what == "there is no label for record c"


def test_a_passive_party_without_columns(study):
    study.parties["lab"]["data"]["columns"] = []
    assert "needs columns" in only(study.problems("lab")).what


def test_an_active_party_with_nothing_but_the_label_is_ordinary(study):
    study.parties["clinic"]["data"]["columns"] = []
    assert study.problems("clinic") == []


def test_a_required_protection_that_is_not_used(study):
    study.federation["task"] = {"protection": "gaussian"}
    problem = only(study.problems("lab"))
    assert (problem.field, "requires the defense 'gaussian'" in problem.what) == ("defense.name", True)
    assert study.problems("clinic") == [], "the active party uploads nothing to others"
    study.parties["lab"]["defense"] = {"name": "gaussian", "sigma": 1}
    assert study.problems("lab") == []


def test_a_required_protection_that_does_not_exist_is_the_federation_files_mistake(study):
    """Every party would be told to use a defense that nobody can use."""
    study.federation["task"] = {"protection": "gausian"}
    study.parties["lab"]["defense"] = {"name": "gaussian", "sigma": 1}
    told = {"suggest_defense": {"gausian": "did you mean 'gaussian'?"}.get}
    for name in ("lab", "clinic"):
        problem = only([one for one in study.check(name, **told) if one.severity == "problem"])
        assert (problem.file.name, problem.field) == ("federation.yaml", "task.protection")
        assert (problem.what, problem.remedy) == ("unknown defense 'gausian'", "did you mean 'gaussian'?")


@pytest.mark.parametrize("layer", ["gaussian", {"name": "gaussian", "sigma": 1}])
def test_a_required_protection_may_be_one_of_several_layers(study, layer):
    study.federation["task"] = {"protection": "gaussian"}
    study.parties["lab"]["defense"] = {"name": "layered", "layers": ["quantise", layer]}
    assert study.problems("lab") == []
    study.parties["lab"]["defense"] = {"name": "layered", "layers": ["quantise"]}
    assert only(study.problems("lab")).field == "defense.name"


def test_a_split_column_is_checked_and_is_no_feature(study):
    study.federation["task"] = {"split": {"column": "part"}}
    assert "split column 'part'" in only(study.problems("clinic")).what
    study.tables["clinic"]["part"] = ["train"] * 7 + ["tset"]
    assert only(study.problems("clinic")).what == "there is no known part for record 7"
    study.tables["clinic"]["part"] = ["train"] * 7 + ["test"]
    assert study.problems("clinic") == []


def test_layers_above_can_add_their_inspections(study):
    def inspect(federation, party, path):
        return [Problem(f"{party.party} of {federation.name}", path)]

    assert study.check("lab", inspections=[inspect])[-1].what == "lab of study"


def write_images(study, name, **arrays):
    arrays = {"images": np.zeros((8, 1, 4, 4), np.uint8), "ids": np.arange(8)} | arrays
    np.savez(study.folder / f"{name}.npz", **arrays)
    study.parties[name]["data"] = {"path": f"{name}.npz", "kind": "images"}


def test_images_in_order_have_no_problems(study):
    write_images(study, "lab")
    write_images(study, "clinic", outcome=np.arange(8) % 2)
    assert study.problems("lab") == study.problems("clinic") == []


def test_problems_of_images(study):
    write_images(study, "lab", ids=np.zeros(8, int))
    study.parties["lab"]["data"]["columns"] = ["x"]
    assert {problem.field for problem in study.problems("lab")} == {"data.columns", "data.path"}
    study.parties["lab"]["data"] = {"path": "lab.csv", "kind": "images"}
    assert only(study.problems("lab")).field == "data.kind"
    write_images(study, "clinic")
    study.federation["task"] = {"split": {"column": "part"}}
    assert {problem.field for problem in study.problems("clinic")} == {"data.kind", "data.path"}


def test_a_folder_of_images_has_no_sensitive_columns(study):
    folder = study.folder / "pictures"
    folder.mkdir()
    study.parties["lab"] |= {"data": {"path": "pictures", "kind": "images"}, "sensitive": ["age"]}
    assert [problem.field for problem in study.problems("lab")] == ["sensitive", "data.path"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_are_told_with_an_example(study, kind):
    """After an alignment it would be too late, and text of dates would be learned as categories."""
    days = pd.date_range("2024-03-01", periods=8)
    study.tables["lab"] = study.tables["lab"].assign(visit=days, birth=days.strftime("%d.%m.%Y"))
    study.write()
    if kind == "parquet":
        study.parties["lab"]["data"]["path"] = "lab.parquet"
        study.tables["lab"].to_parquet(study.folder / "lab.parquet")
    problems = study.problems("lab")
    assert [problem.field for problem in problems] == ["data.path"] * 2
    example = ", such as '2024-03-01'" if kind == "csv" else ""
    assert problems[0].what == f"column 'visit' holds dates or times{example}"
    assert problems[1].what == "column 'birth' holds dates or times, such as '01.03.2024'"
    assert "days since an event" in problems[0].remedy


def test_a_word_that_makes_text_of_numbers_is_worth_a_note(study):
    """One '<5' turns a quantity into dozens of categories."""
    study.tables["lab"]["glucose"] = ["5.1", "6", "<5", "7.25", "4", None, "5", "6"]
    (note,) = [problem for problem in study.check("lab") if problem.field == "data.path"]
    assert note.what == "column 'glucose' is taken for text: 86% of its values are numbers, but '<5' is none"
    assert note.severity == "note"


def test_columns_of_mixed_values_are_told_before_anything_is_sent(study):
    study.parties["lab"]["data"]["path"] = "lab.parquet"
    study.write()
    mixed = study.tables["lab"].assign(glucose=[b"x"] * 8)
    mixed.to_parquet(study.folder / "lab.parquet")
    assert "holds values of type bytes" in only(study.problems("lab")).what


def test_no_party_is_called_name(study):
    """In one process, what is chosen for each party could not be told from one choice for all."""
    study.federation["parties"]["name"] = study.federation["parties"].pop("lab")
    assert "no party can be called 'name'" in only(study.problems("clinic")).what
