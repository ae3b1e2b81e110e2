"""Sensitive columns: if these fail, a secret is hidden as what it is not, or another column is hidden in its place."""

import numpy as np
import pandas as pd
import pytest

import colonnade as co
from colonnade.data.read import read_records
from colonnade.data.records import Records
from colonnade.data.secrets import UNKNOWN, prepare_secrets
from colonnade.errors import ConfigError, DataError


def prepared(values, trained_on=None, name="secret"):
    (secret,) = prepare_secrets(
        pd.DataFrame({name: values}), np.arange(len(values)) if trained_on is None else np.array(trained_on), "lab"
    )
    return secret


# -- columns as numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "numbers", "classes"),
    [
        (["m", "f", "m", "d"], [2, 1, 2, 0], 3),
        ([True, False, True], [1, 0, 1], 2),
        ([7, 3, 3, 5], [2, 0, 0, 1], 3),
        (["m", None, "f", np.nan], [1, UNKNOWN, 0, UNKNOWN], 2),
        ([1, None, 0, 4], [1, UNKNOWN, 0, 2], 3),
        (pd.Categorical(["no", "yes", None]), [0, 1, UNKNOWN], 2),
        (pd.array([True, None, False], dtype="boolean"), [1, UNKNOWN, 0], 2),
    ],
    ids=["text", "booleans", "integers", "text with gaps", "integers with gaps", "categories", "nullable booleans"],
)
def test_classes_are_numbered_and_gaps_are_unknown(values, numbers, classes):
    secret = prepared(values)
    assert secret.values.tolist() == numbers and secret.values.dtype == np.int64
    assert (secret.name, secret.classes) == ("secret", classes)


def test_whole_numbers_with_gaps_are_still_classes():
    """A CSV file with one missing code has floats in memory: the head would guess a code's size, not the code."""
    frame = pd.DataFrame({"race": [0, 1, 2, 3, None, 1]})
    assert frame["race"].dtype == np.float64
    assert prepared(frame["race"]).classes == 4


def test_a_quantity_is_in_standard_units_with_nan_for_gaps():
    values = [20.5, 30.0, None, 41.5, 28.0]
    secret = prepared(values)
    known = np.array([20.5, 30.0, 41.5, 28.0])
    expected = (known - known.mean()) / known.std()
    assert secret.classes == 0 and secret.values.dtype == np.float32
    np.testing.assert_allclose(secret.values[[0, 1, 3, 4]], expected, rtol=1e-6)
    assert np.isnan(secret.values[2])
    assert prepared(range(40)).classes == 0, "more whole numbers than classes may have"


def test_classes_and_scale_come_from_the_training_records_alone():
    secret = prepared(["m", "f", "m", "x"], trained_on=[0, 1, 2])
    assert secret.values.tolist() == [1, 0, 1, UNKNOWN], "nobody can learn a class that no training record has"
    scaled = prepared([0.5, 1.5, 100.0], trained_on=[0, 1]).values
    np.testing.assert_allclose(scaled, [-1, 1, 198], rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "trained_on", "what"),
    [
        (["m", "m", "m"], None, "is the same in all records to learn from"),
        (["m", None, "m"], None, "is the same in all records to learn from"),
        (["m", "m", "f"], [0, 1], "is the same in all records to learn from"),
        ([0.5, 0.5], None, "is the same in all records to learn from"),
        ([None, None], None, "is missing in all records to learn from"),
        (["m", "f"], [], "is missing in all records to learn from"),
    ],
)
def test_a_constant_can_not_be_hidden(values, trained_on, what):
    with pytest.raises(DataError, match=what) as caught:
        prepared(values, trained_on)
    assert caught.value.where == "lab: secret 'secret'"
    assert caught.value.remedy == "leave it out of the secrets"


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([1.0, np.inf, 2.5], "infinite"),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "datetime"),
        (["m", 3, "f"], "mixed"),
    ],
)
def test_what_can_be_neither_classes_nor_a_quantity_is_refused_by_name(values, what):
    with pytest.raises(DataError, match=what) as caught:
        prepared(values)
    assert caught.value.where == "lab: secret 'secret'"
    assert caught.value.remedy
    assert "the label" not in caught.value.what


def test_every_column_is_a_secret_of_its_own_and_is_listed_once():
    frame = pd.DataFrame({"sex": ["m", "f"], "age": [20.5, 30.0]})
    assert [secret.name for secret in prepare_secrets(frame, np.arange(2), "lab")] == ["sex", "age"]
    with pytest.raises(DataError, match="'sex' is listed twice"):
        prepare_secrets(frame[["sex", "sex"]], np.arange(2), "lab")


# -- records -----------------------------------------------------------------------------------------------------------


def table():
    return pd.DataFrame(
        {"id": ["p1", "p2", "p3"], "glucose": [4.0, 5.0, 6.0], "sex": ["m", "f", "m"], "outcome": [0, 1, 0]}
    )


def test_secrets_are_no_features_unless_they_are_listed():
    aside = Records.from_frame(table(), id_column="id", label="outcome", secrets=["sex"])
    assert aside.columns == ["glucose"] and aside.secrets["sex"].tolist() == ["m", "f", "m"]
    both = Records.from_frame(table(), id_column="id", columns=["glucose", "sex"], label="outcome", secrets=["sex"])
    assert both.columns == ["glucose", "sex"] and list(both.secrets) == ["sex"]
    assert Records.from_frame(table(), id_column="id").secrets is None


def test_secrets_travel_with_their_records():
    taken = Records.from_frame(table(), id_column="id", secrets=["sex"]).take([2, 1])
    assert taken.secrets.to_dict() == {"sex": {"p3": "m", "p2": "f"}}


def test_printed_records_name_secrets_and_show_no_value():
    text = repr(Records.from_frame(table().replace("f", "female"), id_column="id", secrets=["sex"]))
    assert "secrets: sex" in text and "female" not in text and "p1" not in text


@pytest.mark.parametrize(
    ("secrets", "what"),
    [
        (["sexx"], r"no such column: 'sexx' \(did you mean 'sex'\?\); it is listed among the secrets, 'sensitive' in"),
        (["outcome"], "the label column 'outcome' is also listed among the secrets"),
        (["id"], "the id column 'id' is also listed among the secrets"),
    ],
)
def test_what_can_be_no_secret_of_a_table(secrets, what):
    with pytest.raises(DataError, match=what):
        Records.from_frame(table(), id_column="id", label="outcome", secrets=secrets)


def test_as_many_secrets_as_records():
    with pytest.raises(DataError, match="secrets has 2 rows for 3 ids"):
        Records(pd.Index([1, 2, 3]), secrets=pd.DataFrame({"sex": ["m", "f"]}))
    assert Records(pd.Index([1, 2, 3]), secrets=pd.DataFrame(index=range(3))).secrets is None, "no column, no secret"


# -- federations -------------------------------------------------------------------------------------------------------

PARTIES = {"clinic": ["age"], "lab": ["glucose", "sex"]}


def frame():
    return pd.DataFrame(
        {"age": [1.5, 2.5], "glucose": [4.0, 5.0], "sex": ["m", "f"], "town": ["a", "b"], "outcome": ["ill", "well"]}
    )


def test_a_frames_secrets_go_to_their_parties():
    secrets = {"lab": ["sex", "town"], "clinic": ["town"]}
    made = co.Federation.from_frame(frame(), PARTIES, label=("clinic", "outcome"), secrets=secrets)
    assert {party: list(records.secrets) for party, records in made.records.items()} == {
        "clinic": ["town"],
        "lab": ["sex", "town"],
    }
    assert made.records["clinic"].columns == ["age"], "the town is no feature"


@pytest.mark.parametrize(
    ("secrets", "what"),
    [
        ({"labb": ["sex"]}, r"secrets are at unknown party 'labb' \(did you mean 'lab'\?\)"),
        ({"lab": ["seks"]}, r"party 'lab' has unknown secret 'seks' \(did you mean 'sex'\?\)"),
        ({"clinic": ["sex"]}, "secret 'sex' of party 'clinic' is a column of party 'lab'"),
        ({"lab": ["outcome"]}, "secret 'outcome' of party 'lab' is the label"),
        ({"clinic": ["outcome"]}, "secret 'outcome' of party 'clinic' is the label"),
    ],
)
def test_secrets_that_a_party_can_not_have(secrets, what):
    with pytest.raises(DataError, match=what):
        co.Federation.from_frame(frame(), PARTIES, label=("clinic", "outcome"), secrets=secrets)


def test_every_wrong_secret_is_told_at_once():
    with pytest.raises(DataError) as caught:
        co.Federation.from_frame(
            frame(), PARTIES, label=("clinic", "outcome"), secrets={"labb": ["town"], "lab": ["seks", "outcome"]}
        )
    assert all(told in str(caught.value) for told in ("'labb'", "'seks'", "is the label"))


def test_frames_of_parties_have_secrets_too():
    frames = {"clinic": frame()[["age", "outcome"]], "lab": frame()[["glucose", "sex"]]}
    made = co.Federation.from_frames(frames, label=("clinic", "outcome"), secrets={"lab": ["sex"]})
    assert made.records["lab"].columns == ["glucose"] and list(made.records["lab"].secrets) == ["sex"]
    for secrets, error in (({"labb": ["sex"]}, ConfigError), ({"lab": ["seks"]}, DataError)):
        with pytest.raises(error, match="did you mean"):
            co.Federation.from_frames(frames, label=("clinic", "outcome"), secrets=secrets)
    with pytest.raises(DataError, match="also listed among the secrets"):
        co.Federation.from_frames(frames, label=("clinic", "outcome"), secrets={"clinic": ["outcome"]})


def test_aligned_records_keep_the_secrets_of_their_party():
    table = frame().set_axis(["p1", "p2"], axis=0)
    frames = {"clinic": table[["age", "outcome"]], "lab": table[["glucose", "sex"]].iloc[::-1]}
    made = co.align(co.Federation.from_frames(frames, label=("clinic", "outcome"), secrets={"lab": ["sex"]}))
    lab = made.records["lab"].take(made.rows["lab"])
    assert lab.secrets["sex"].to_dict() == {"p1": "m", "p2": "f"}


# -- images ------------------------------------------------------------------------------------------------------------


def strips(count=4):
    return np.random.default_rng(0).integers(0, 256, (count, 1, 8, 8), dtype=np.uint8)


def test_strips_of_images_may_have_secrets():
    secrets = pd.DataFrame({"gender": ["m", "f", "m", "f"]})
    made = co.Federation.from_images(strips(), np.arange(4) % 2, ["left", "right"], secrets={"left": secrets})
    assert made.records["left"].secrets["gender"].tolist() == ["m", "f", "m", "f"]
    assert made.records["right"].secrets is None
    with pytest.raises(ConfigError, match="no party 'lef'"):
        co.Federation.from_images(strips(), np.arange(4) % 2, ["left", "right"], secrets={"lef": secrets})
    with pytest.raises(DataError, match="secrets has 3 rows for 4 ids"):
        co.Federation.from_images(strips(), np.arange(4) % 2, ["left", "right"], secrets={"left": secrets.iloc[:3]})


def test_an_archive_of_images_has_secrets_as_arrays(tmp_path):
    file = tmp_path / "faces.npz"
    arrays = {"images": strips(), "ids": np.array(["a", "b", "c", "d"]), "label": np.arange(4) % 2}
    np.savez(file, **arrays, gender=np.array(["m", "f", "m", "f"]), age=np.array([20.5, 30.0, np.nan, 41.0]))
    records = read_records(file, "ids", label="label", secrets=["gender", "age"])
    assert records.secrets.loc["c", "gender"] == "m" and records.label.tolist() == [0, 1, 0, 1]
    assert [secret.classes for secret in prepare_secrets(records.secrets, np.arange(4), "left")] == [2, 0]
    with pytest.raises(DataError, match=r"there is no array 'gendr' \(did you mean 'gender'\?\)"):
        read_records(file, "ids", secrets=["gendr"])
    np.savez(file, **arrays, gender=np.array(["m", "f"]))
    with pytest.raises(DataError, match=r"'gender' has shape \(2,\) for 4 images"):
        read_records(file, "ids", secrets=["gender"])


def test_a_folder_of_images_has_none(tmp_path):
    with pytest.raises(DataError, match="a folder of images has no secrets"):
        read_records(tmp_path, "ids", secrets=["gender"])
