"""Tables about people, read from a few lines as they are published."""

from __future__ import annotations

import pytest
from datasets_published import write_text

from colonnade.data.datasets import load_dataset
from colonnade.errors import ConfigError, DataError

ADULT_TRAIN = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K\n"
    "54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, Asian-Pac-Islander, Male, 0, 0, 60, South, >50K\n"
    "\n"
)
ADULT_TEST = (
    "|1x3 Cross validator\n"
    "25, Private, 226802, 11th, 7, Never-married, Machine-op-inspct, Own-child, Black, Male, 0, 0, 40, "
    "United-States, <=50K.\n"
    "28, Local-gov, 336951, Assoc-acdm, 12, Married-civ-spouse, Protective-serv, Husband, White, Male, 0, 0, 40, ?, "
    ">50K.\n\n"
)


def test_adult_as_published(tmp_path):
    """The test file opens with a comment and ends its labels with a full stop."""
    write_text(tmp_path / "adult.data", ADULT_TRAIN)
    write_text(tmp_path / "adult.test", ADULT_TEST)
    loaded = load_dataset("adult", tmp_path)
    assert loaded.label.tolist() == [0, 1, 0, 1]
    assert loaded.split.tolist() == ["train", "train", "test", "test"]
    assert loaded.table.shape == (4, 14)
    assert loaded.table["age"].tolist() == [39, 54, 25, 28]
    assert loaded.table["workclass"].isna().tolist() == [False, True, False, False]
    assert loaded.table.loc[0, "native_country"] == "United-States"
    assert "income" not in loaded.table


def test_adult_without_its_second_file_names_it(tmp_path):
    write_text(tmp_path / "adult.data", ADULT_TRAIN)
    with pytest.raises(DataError, match=r"no 'adult.test'"):
        load_dataset("adult", tmp_path)


def test_adult_with_too_few_columns_is_refused(tmp_path):
    write_text(tmp_path / "adult.data", "39, State-gov\n")
    with pytest.raises(DataError, match="2 columns instead of 15"):
        load_dataset("adult", tmp_path)


DIABETES = (
    "encounter_id,patient_nbr,race,gender,age,weight,max_glu_serum,insulin,readmitted\n"
    "2278392,8222157,Caucasian,Female,[0-10),?,None,No,NO\n"
    "149190,55629189,?,Female,[10-20),?,>300,Up,>30\n"
    "64410,86047875,AfricanAmerican,Male,[20-30),[75-100),None,No,<30\n"
)


@pytest.mark.parametrize("home", ["", "dataset_diabetes"])
def test_diabetes130_as_published(tmp_path, home):
    """'None' is a word of the table (not measured), '?' is a missing value; the label must not stay a feature."""
    write_text(tmp_path / home / "diabetic_data.csv", DIABETES)
    loaded = load_dataset("diabetes130", tmp_path)
    assert loaded.ids.tolist() == [2278392, 149190, 64410]
    assert loaded.label.tolist() == [0, 0, 1]
    assert loaded.table["max_glu_serum"].tolist() == ["None", ">300", "None"]
    assert loaded.table["race"].isna().tolist() == [False, True, False]
    assert loaded.attributes["patient_nbr"].tolist() == [8222157, 55629189, 86047875]
    assert not {"readmitted", "patient_nbr", "label_readmit_lt30"} & set(loaded.table)


def test_a_table_without_a_needed_column_is_refused(tmp_path):
    write_text(tmp_path / "diabetic_data.csv", "encounter_id,race\n1,x\n")
    with pytest.raises(DataError, match="no column 'patient_nbr', 'readmitted'"):
        load_dataset("diabetes130", tmp_path)


def test_german_credit_as_published(tmp_path):
    write_text(
        tmp_path / "german.data",
        "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n"
        "A12 48 A32 A43 5951 A61 A73 2 A92 A101 2 A121 22 A143 A152 1 A173 1 A191 A201 2\n",
    )
    loaded = load_dataset("german_credit", tmp_path)
    assert loaded.label.tolist() == [0, 1]
    assert loaded.attributes["sex"].tolist() == ["male", "female"]
    assert loaded.table["age"].tolist() == [67, 22]
    assert loaded.table.shape == (2, 20)


PIMA_ROWS = "6,148,72,35,0,33.6,0.627,50,1\n1,85,66,0,94,26.6,0.351,31,0\n"
PIMA_HEADER = "Pregnancies,Glucose,BloodPressure,SkinThickness,Insulin,BMI,DiabetesPedigreeFunction,Age,Outcome\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [("diabetes.csv", PIMA_HEADER + PIMA_ROWS), ("pima-indians-diabetes.data", PIMA_ROWS)],
)
def test_pima_zeros_are_missing_values_unless_asked(tmp_path, name, content):
    write_text(tmp_path / name, content)
    loaded = load_dataset("pima", tmp_path)
    assert loaded.label.tolist() == [1, 0]
    assert loaded.table["Insulin"].isna().tolist() == [True, False]
    assert loaded.table["SkinThickness"].isna().tolist() == [False, True]
    assert not load_dataset("pima", tmp_path, zero_is_missing=False).table.isna().any().any()


def test_the_demo_of_mimic_knows_two_targets(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'mortality'"):
        load_dataset("mimic3_demo", tmp_path, target="mortalty")


VOTES_HEADER = (
    '"","A","D","F","H","N","S","fileName","numResponses","agreement","emoVote","meanEmoResp","meanAngerResp",'
    '"meanDisgustResp","meanFearResp","meanHappyResp","meanNeutralResp","meanSadResp","medianEmoResp"\n'
)


def _votes(number, clip, anger):
    return f'"{number}",{anger},0,0,0,9,0,"{clip}",{anger + 9},0.9,"N",71.7,{anger * 10},-1,-1,-1,69.1,-1,87\n'


def _write_crema_d(folder, clips=("1002_IEO_HAP_LO", "1001_IEO_ANG_HI"), missing=()):
    rows = [
        _votes(100_000 * modality + at, clip, modality + at)
        for modality in (1, 2, 3)
        for at, clip in enumerate(clips, start=1)
        if (modality, clip) not in missing
    ]
    write_text(folder / "processedResults/tabulatedVotes.csv", VOTES_HEADER + "".join(rows))
    people = '1001,51,"Male","Caucasian","Not Hispanic"\n1002,21,"Female","Asian","Hispanic"\n'
    write_text(folder / "VideoDemographics.csv", '"ActorID","Age","Sex","Race","Ethnicity"\n' + people)


def test_crema_d_as_published(tmp_path):
    """Row numbers say whether voice, face or both were rated."""
    _write_crema_d(tmp_path)
    loaded = load_dataset("crema_d", tmp_path)
    assert loaded.ids.tolist() == ["1001_IEO_ANG_HI", "1002_IEO_HAP_LO"]
    assert [loaded.classes[label] for label in loaded.label] == ["anger", "happy"]
    assert {name: frame.shape for name, frame in loaded.modalities.items()} == dict.fromkeys(
        ("voice", "face", "av"), (2, 15)
    )
    assert loaded.modalities["face"]["face_votes_anger"].tolist() == [4, 3]
    assert loaded.modalities["av"]["av_level_anger"].tolist() == [50, 40]
    assert loaded.attributes["sex"].tolist() == ["Male", "Female"]
    assert loaded.attributes["actor_id"].tolist() == [1001, 1002]
    assert loaded.attributes["intensity"].tolist() == ["HI", "LO"]


def test_crema_d_with_an_unknown_actor_or_a_clip_without_face_is_refused(tmp_path):
    _write_crema_d(tmp_path, clips=("1001_IEO_ANG_HI", "1077_IEO_HAP_LO"))
    with pytest.raises(DataError, match="actor 1077 is not in the list"):
        load_dataset("crema_d", tmp_path)
    _write_crema_d(tmp_path, missing=[(2, "1001_IEO_ANG_HI")])
    with pytest.raises(DataError, match="rated by face"):
        load_dataset("crema_d", tmp_path)


def test_crema_d_with_a_clip_of_another_name_is_refused(tmp_path):
    _write_crema_d(tmp_path, clips=("1001_IEO_ANG_HI", "1001_IEO_JOY_HI"))
    with pytest.raises(DataError, match="'1001_IEO_JOY_HI' is no name of a clip"):
        load_dataset("crema_d", tmp_path)


def test_a_damaged_parquet_file_is_named(tmp_path):
    (tmp_path / "adult.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(DataError, match="cannot be read") as caught:
        load_dataset("adult", tmp_path)
    assert caught.value.where.endswith("adult.parquet")
