"""Tables about people: Adult, Diabetes-130, German credit, MIMIC-III demo, Pima."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.data.datasets.dataset import Dataset, column
from colonnade.data.datasets.files import find, need
from colonnade.data.datasets.loader import Source, dataset
from colonnade.data.datasets.tables import check_width, read_table
from colonnade.errors import ConfigError, nearest

# fmt: off
ADULT_COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
    "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
]
GERMAN_COLUMNS = [
    "checking_status", "duration_months", "credit_history", "purpose", "credit_amount", "savings",
    "employment_since", "installment_rate", "personal_status_sex", "other_debtors", "residence_since", "property",
    "age", "other_installment_plans", "housing", "existing_credits", "job", "num_dependents", "telephone",
    "foreign_worker", "class",
]
PIMA_COLUMNS = [
    "Pregnancies", "Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI", "DiabetesPedigreeFunction", "Age",
    "Outcome",
]
# fmt: on
GERMAN_WOMEN = ("A92", "A95")
PIMA_ZERO_IS_MISSING = ["Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI"]
MIMIC_TARGETS = {"mortality": "hospital_expire_flag", "length_of_stay": "los_days"}


@dataset("adult", Source("the UCI Machine Learning Repository, data set 'Adult'", "CC BY 4.0"))
def adult(folder: Path) -> Dataset:
    """Census records 1994, income over 50,000 dollars or not (adult.data, adult.test, or adult.parquet)."""
    packed = find(folder, "adult.parquet")
    if packed is not None and find(folder, "adult.data") is None:
        frame = read_table(packed, [*ADULT_COLUMNS, "split"])
    else:
        frame = pd.concat([_adult_file(folder, "adult.data", "train"), _adult_file(folder, "adult.test", "test")])
    frame = _numbered(frame)
    return Dataset(
        ids=frame.index,
        table=frame[ADULT_COLUMNS[:-1]],
        label=column(frame["income"].eq(">50K").astype(np.int64), frame.index, "label"),
        classes=("<=50K", ">50K"),
        split=frame["split"],
        secrets=("sex", "race", "age", "marital_status", "native_country"),
    )


@dataset("diabetes130", Source("the UCI repository, 'Diabetes 130-US Hospitals 1999-2008'", "CC BY 4.0"))
def diabetes130(folder: Path) -> Dataset:
    """Hospital stays of diabetics, readmitted within 30 days or not (diabetic_data.csv, or diabetes130.parquet)."""
    path = need(folder, "diabetic_data.csv", "dataset_diabetes/diabetic_data.csv", "diabetes130.parquet")
    frame = read_table(path, ["encounter_id", "patient_nbr", "readmitted"], na_values=["?"], low_memory=False)
    frame = frame.set_index("encounter_id")
    return Dataset(
        ids=frame.index,
        table=frame.drop(columns=["patient_nbr", "readmitted", "label_readmit_lt30"], errors="ignore"),
        label=column(frame["readmitted"].eq("<30").astype(np.int64), frame.index, "label"),
        classes=("no or later", "within 30 days"),
        attributes=frame[["patient_nbr"]],
        secrets=("race", "gender", "age"),
    )


@dataset("german_credit", Source("the UCI repository, 'Statlog (German Credit Data)'", "CC BY 4.0"))
def german_credit(folder: Path) -> Dataset:
    """Loans, good or bad (german.data, or german_credit.parquet); sex is derived from the personal status."""
    path = need(folder, "german.data", "german_credit.parquet")
    if path.suffix == ".parquet":
        frame = read_table(path, GERMAN_COLUMNS)
    else:
        frame = check_width(read_table(path, sep=r"\s+", header=None), len(GERMAN_COLUMNS), path)
        frame.columns = pd.Index(GERMAN_COLUMNS)
    frame = _numbered(frame)
    sex = np.where(frame["personal_status_sex"].isin(GERMAN_WOMEN), "female", "male")
    return Dataset(
        ids=frame.index,
        table=frame[GERMAN_COLUMNS[:-1]],
        label=column(frame["class"].eq(2).astype(np.int64), frame.index, "label"),
        classes=("good", "bad"),
        attributes=pd.DataFrame({"sex": sex}, index=frame.index),
        secrets=("sex", "age", "foreign_worker"),
    )


@dataset("pima", Source("the UCI repository or Kaggle, 'Pima Indians Diabetes' (NIDDK)", "CC0"))
def pima(folder: Path, zero_is_missing: bool = True) -> Dataset:
    """Women of Pima heritage, diabetes or not (diabetes.csv, pima-indians-diabetes.data, or pima_diabetes_768x9.csv).

    The publisher writes 0 for a glucose, blood pressure, skin, insulin or BMI value that was not measured; here it
    is a missing value unless `zero_is_missing` is false.
    """
    bare = ("pima-indians-diabetes.data", "pima-indians-diabetes.csv", "pima-indians-diabetes.data.csv")
    path = need(folder, "diabetes.csv", "pima_diabetes_768x9.csv", *bare)
    if path.name in bare:
        frame = check_width(read_table(path, header=None), len(PIMA_COLUMNS), path)
        frame.columns = pd.Index(PIMA_COLUMNS)
    else:
        frame = read_table(path, PIMA_COLUMNS)
    frame = _numbered(frame)
    table = frame[PIMA_COLUMNS[:-1]].astype(np.float64)
    if zero_is_missing:
        table[PIMA_ZERO_IS_MISSING] = table[PIMA_ZERO_IS_MISSING].replace(0, np.nan)
    return Dataset(
        ids=frame.index,
        table=table,
        label=column(frame["Outcome"].astype(np.int64), frame.index, "label"),
        classes=("no diabetes", "diabetes"),
        secrets=("Age", "Pregnancies"),
    )


@dataset("mimic3_demo", Source("PhysioNet, 'MIMIC-III Clinical Database Demo' 1.4, one row per admission", "ODbL 1.0"))
def mimic3_demo(folder: Path, target: str = "mortality") -> Dataset:
    """129 hospital admissions (mimic3_demo_admissions.parquet); target is mortality or length_of_stay (days)."""
    if target not in MIMIC_TARGETS:
        raise ConfigError(f"the demo has no target '{target}'", remedy=nearest(target, MIMIC_TARGETS))
    known_at_discharge = [*MIMIC_TARGETS.values(), "icu_los_days"]
    path = need(folder, "mimic3_demo_admissions.parquet")
    frame = read_table(path, ["hadm_id", "subject_id", *known_at_discharge]).set_index("hadm_id")
    return Dataset(
        ids=frame.index,
        table=frame.drop(columns=["subject_id", *known_at_discharge]),
        label=frame[MIMIC_TARGETS[target]].rename("label"),
        classes=("survived", "died") if target == "mortality" else (),
        attributes=frame[["subject_id"]],
        secrets=("gender", "age", "ethnicity", "insurance", "religion", "marital_status"),
    )


def _adult_file(folder: Path, name: str, split: str) -> pd.DataFrame:
    path = need(folder, name)
    # adult.test opens with a line that starts with '|' and writes its labels with a full stop.
    frame = read_table(path, header=None, skipinitialspace=True, na_values=["?"], comment="|")
    frame = check_width(frame, len(ADULT_COLUMNS), path)
    frame.columns = pd.Index(ADULT_COLUMNS)
    return frame.assign(income=frame["income"].str.rstrip("."), split=split)


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_axis(pd.RangeIndex(len(frame), name="id"))
