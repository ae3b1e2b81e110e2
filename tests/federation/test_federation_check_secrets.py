"""`check` and secrets: if these fail, a party, and all others, learn in the midst of a run that a secret is none."""

import numpy as np
import pandas as pd
import pytest
import yaml

from colonnade.federation import check


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


class Study:
    """Two parties whose files are in order; the lab holds a secret."""

    def __init__(self, folder):
        self.folder = folder
        self.lab = pd.DataFrame({"id": range(8), "glucose": np.arange(8) / 2, "sex": ["m", "f"] * 4})
        self.clinic = pd.DataFrame({"id": range(8), "age": np.arange(8) + 30.5, "outcome": ["no", "yes"] * 4})
        self.task, self.own = {}, {"clinic": {}, "lab": {"sensitive": ["sex"]}}

    def problems(self, party):
        return [(p.field, p.what, p.remedy) for p in self.check(party) if p.severity == "problem"]

    def notes(self, party):
        return [p.what for p in self.check(party) if p.severity == "note"]

    def check(self, party):
        addresses = {name: {"address": f"{name}:7101"} for name in ("clinic", "lab")}
        agreed = {"name": "s", "parties": addresses, "active": "clinic", "label": "outcome", "task": self.task}
        (self.folder / "federation.yaml").write_text(yaml.safe_dump(agreed, sort_keys=False))
        for name, table in (("clinic", self.clinic), ("lab", self.lab)):
            table.to_csv(self.folder / f"{name}.csv", index=False)
            file = {"party": name, "data": {"path": f"{name}.csv", "id_column": "id"}, **self.own[name]}
            (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(file))
        return check(self.folder / "federation.yaml", self.folder / f"{party}.yaml")


def test_a_secret_in_order(study):
    assert study.problems("lab") == []


def test_an_unknown_sensitive_column_names_the_nearest(study):
    study.own["lab"]["sensitive"] = ["sexx", "sex"]
    assert study.problems("lab") == [("sensitive", "lab.csv has no column 'sexx'", "did you mean 'sex'?")]


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ("m", "'sex' is the same in all records to learn from: there is nothing to hide"),
        (None, "'sex' is missing in all records to learn from: there is nothing to hide"),
        (["m"] * 7 + [None], "'sex' is the same in all records to learn from: there is nothing to hide"),
        (
            list("abcdefgh"),
            "'sex' has another value in every record to learn from: it names records, and nobody can learn to guess it",
        ),
        ([1.5, np.inf] * 4, "'sex' has infinite values"),
    ],
)
def test_a_column_that_can_not_be_hidden(study, values, what):
    study.lab["sex"] = values
    ((field, told, _),) = study.problems("lab")
    assert (field, told) == ("sensitive", what)


def test_a_secret_that_is_the_id(study):
    study.own["lab"]["sensitive"] = ["id"]
    assert ("sensitive", "'id' is the id, no secret", "leave it out") in study.problems("lab")


def test_a_secret_that_is_the_label(study):
    study.own["clinic"] = {"sensitive": ["outcome"]}
    assert study.problems("clinic") == [("sensitive", "'outcome' is the label, no secret", "leave it out")]


def test_a_passive_party_that_holds_the_label_can_not_make_it_a_secret(study):
    """It would be trained with after all, in the head that is to unlearn it."""
    study.lab["outcome"] = study.clinic["outcome"]
    study.own["lab"]["sensitive"] = ["outcome"]
    assert ("sensitive", "'outcome' is the label, no secret", "leave it out") in study.problems("lab")


def test_a_secret_that_is_the_split(study):
    study.clinic["part"] = ["train"] * 4 + ["validation", "validation", "test", "test"]
    study.task["split"] = {"column": "part"}
    study.own["clinic"] = {"sensitive": ["part"]}
    assert study.problems("clinic") == [("sensitive", "'part' is the split, no secret", "leave it out")]


def test_a_secret_that_is_listed_twice(study):
    study.own["lab"]["sensitive"] = ["sex", "sex"]
    assert study.problems("lab") == [("sensitive", "'sex' is listed twice", "list it once")]


def test_secrets_alone_are_no_features(study):
    study.lab = study.lab[["id", "sex"]]
    assert study.problems("lab") == [
        ("data.columns", "a passive party needs columns", "name the columns to take part with")
    ]
    study.own["lab"]["data"] = {"path": "lab.csv", "id_column": "id", "columns": ["sex"]}
    assert study.problems("lab") == [], "a column may be both"


def test_labels_are_shared_with_consent_only(study):
    study.task["labels"] = "shared"
    ((field, what, remedy),) = study.problems("clinic")
    assert (field, what) == ("share_labels", "the task shows labels to all parties")
    assert "share_labels: true" in remedy and "task.labels: server" in remedy
    assert study.problems("lab") == []
    study.own["clinic"]["share_labels"] = True
    assert study.problems("clinic") == []


def test_with_shared_labels_the_active_party_is_told_that_it_uploads_too(study):
    """What it computes from its own columns leaves it only then: it may never have thought of a defense."""
    study.task["labels"], study.own["clinic"]["share_labels"] = "shared", True
    told = "what this party computes from its own columns is sent to all parties"
    assert any(told in note for note in study.notes("clinic"))
    study.own["clinic"]["defense"] = {"name": "gaussian"}
    assert not any(told in note for note in study.notes("clinic"))
    study.own["clinic"] = {"share_labels": True, "data": {"path": "clinic.csv", "id_column": "id", "columns": []}}
    assert not any(told in note for note in study.notes("clinic"))


@pytest.fixture
def faces(study):
    """The lab holds images and their secrets in an archive."""

    def written(sensitive, **arrays):
        images = np.zeros((8, 1, 4, 4), np.uint8)
        np.savez(study.folder / "lab.npz", images=images, ids=np.arange(8), **arrays)
        study.own["lab"] = {"data": {"path": "lab.npz", "kind": "images"}, "sensitive": sensitive}
        return study.problems("lab")

    return written


def test_secrets_of_images_are_arrays(faces):
    gender = np.array(["m", "f"] * 4)
    assert faces(["gender"], gender=gender) == []
    assert faces(["gendr", "gender"], gender=gender) == [
        ("sensitive", "lab.npz has no array 'gendr'", "did you mean 'gender'?")
    ]
    ((field, what, _),) = faces(["gender"], gender=np.array(["m"] * 8))
    assert field == "sensitive" and what.startswith("'gender' is the same in all records")
    ((field, what, _),) = faces(["gender"], gender=gender[:5])
    assert field == "sensitive" and "has shape (5,) for 8 images" in what
    assert ("sensitive", "'ids' is the id, no secret", "leave it out") in faces(["ids"])
    assert faces(["gender", "gender"], gender=gender) == [("sensitive", "'gender' is listed twice", "list it once")]


def test_a_folder_of_images_has_no_secrets(study):
    from PIL import Image

    (study.folder / "faces").mkdir()
    for number in range(2):
        Image.new("L", (4, 4)).save(study.folder / "faces" / f"{number}.png")
    study.own["lab"] = {"data": {"path": "faces", "kind": "images"}, "sensitive": ["gender"]}
    ((field, what, _),) = study.problems("lab")
    assert (field, what) == ("sensitive", "a folder of images has no columns")
