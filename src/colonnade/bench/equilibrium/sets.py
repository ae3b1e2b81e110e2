"""The data of the equilibrium benches: who holds which columns, what is learned, and what is to stay hidden.

Open sets stand in for the published ones, which need a licence: where the data folder has a folder `iemocap`, `mimic3`
or `celeba`, that set is used instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.data.datasets import Dataset, load_dataset
from colonnade.data.split import TEST, assign_split
from colonnade.errors import ConfigError
from colonnade.federation.federation import Federation

SERVER = "server"
"""Holds the labels, and in most sets nothing else."""
HALVES = ("left", "right")
REAL = {"modalities": "iemocap", "hospital": "mimic3", "faces": "celeba"}
"""The published set of each kind, and the name of its folder."""
STAND_INS = {"modalities": "crema_d", "hospital": "diabetes130", "faces": "fairface"}
NOTES = {
    "adult": "Adult: the bank learns income, employer and registry hide sex",
    "crema_d": "in place of IEMOCAP: CREMA-D, what a crowd heard, saw, or both; split by actor; its secret is weak",
    "diabetes130": "in place of MIMIC-III: Diabetes-130, readmission within 30 days, hidden: older than 70; a "
    "patient's stays are all trained on or all held out",
    "fairface": "in place of CelebA: FairFace, halves of faces; a third of its training faces is held out too",
    "mimic3": "MIMIC-III: stays of the mortality benchmark all last two days, so the secret is two days more",
}

ADULT = {
    "bank": ("age", "workclass", "fnlwgt", "education", "education_num"),
    "employer": ("occupation", "hours_per_week", "capital_gain", "capital_loss"),
    "registry": ("marital_status", "relationship", "race", "native_country"),
}
_SENSITIVE = ("race", "gender", "age")
_CODES = ("admission_type_id", "discharge_disposition_id", "admission_source_id")
_WARDS: dict[str, tuple[str, ...]] = {
    "registration": (*_CODES, "weight", "payer_code", "medical_specialty"),
    "visits": (
        "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
        "number_emergency", "number_inpatient",
    ),
    "diagnoses": ("diag_1", "diag_2", "diag_3", "number_diagnoses", "max_glu_serum", "A1Cresult"),
}  # fmt: skip
"""Three of four holders of a hospital's columns; the fourth, the pharmacy, has all drugs."""
_OLD = ("[70-80)", "[80-90)", "[90-100)")
_THIRTY = ("30-39", "40-49", "50-59", "60-69", "more than 70")
_TESTED = 0.3
_SPARE = 1 / 3
_DAYS = 48.0


@dataclass(frozen=True)
class Case:
    """One federation of a bench.

    Attributes:
        kind: `adult`, `modalities`, `hospital` or `faces`.
        parties: how many hide something; a hospital's columns can be dealt to any number.
        target: what is learned from faces.
        secrets: what each half of a face hides, in order; columns of other sets have one secret for all.
    """

    kind: str
    parties: int
    target: str = ""
    secrets: tuple[str, ...] = ()

    @property
    def dataset(self) -> str:
        """The set that is used: the published one where it is there."""
        if self.kind not in REAL:
            return self.kind
        return REAL[self.kind] if (_root() / REAL[self.kind]).is_dir() else STAND_INS[self.kind]


@dataclass(frozen=True)
class Scene:
    """A federation, and how its target is scored.

    Attributes:
        federation: with secrets at the parties that hide them.
        metric: `accuracy`, or `auc` where one class is rare.
        classes: of the target.
        pictures: whether records are pictures.
    """

    federation: Federation
    metric: str
    classes: int
    pictures: bool = False

    @property
    def hidden(self) -> dict[str, pd.DataFrame]:
        """Each client's sensitive columns."""
        held = self.federation.records.items()
        return {party: records.secrets for party, records in held if records.secrets is not None}


def scene(case: Case, train: int | None, test: int | None) -> Scene:
    """Return the federation of a case, cut down to so many training and test records; None takes all."""
    data = _loaded(case.dataset, *((case.target, case.secrets) if case.kind == "faces" else ()))
    rows = _rows(data, train, test)
    if data.images is not None:
        return _faces(data, rows, case.secrets)
    if data.modalities is not None:
        return _modalities(data, rows)
    return _adult(data, rows) if case.kind == "adult" else _hospital(data, rows, case.parties)


def dealt(columns: Sequence[str], parties: int) -> dict[str, list[str]]:
    """Deal columns out in order, as evenly as can be.

    >>> dealt(["a", "b", "c"], 2)
    {'client1': ['a', 'b'], 'client2': ['c']}
    """
    if not 1 <= parties <= len(columns):
        raise ConfigError(f"{len(columns)} columns can't be dealt to {parties} parties", where="parties")
    return {
        f"client{place}": list(map(str, part)) for place, part in enumerate(np.array_split(columns, parties), start=1)
    }


def _adult(data: Dataset, rows: pd.Index) -> Scene:
    return _of_columns(
        data, rows, {party: list(columns) for party, columns in ADULT.items()}, active="bank", secrets=["sex"]
    )


def _hospital(data: Dataset, rows: pd.Index, parties: int) -> Scene:
    assert data.table is not None
    columns = [str(column) for column in data.table.columns]
    grouped = data.name == "diabetes130" and parties in (2, 4)
    held = _wards(columns, parties) if grouped else dealt(columns, parties)
    return _of_columns(data, rows, held, secrets=data.secrets, metric="auc")


def _wards(columns: Sequence[str], parties: int) -> dict[str, list[str]]:
    """Return who holds which columns of a hospital: four holders, or two that stand for two of them each."""
    named = {column for own in _WARDS.values() for column in own}
    drugs = [column for column in columns if column not in named]
    held = {**{ward: list(own) for ward, own in _WARDS.items()}, "pharmacy": drugs}
    if parties == 4:
        return held
    return {"hospital": held["registration"] + held["visits"], "clinic": held["diagnoses"] + held["pharmacy"]}


def _modalities(data: Dataset, rows: pd.Index) -> Scene:
    assert data.modalities is not None
    held = {name: [str(column) for column in frame.columns] for name, frame in data.modalities.items()}
    return _of_columns(data, rows, held, secrets=data.secrets[:1])


def _of_columns(
    data: Dataset,
    rows: pd.Index,
    held: Mapping[str, Sequence[str]],
    *,
    secrets: Sequence[str],
    active: str = SERVER,
    metric: str = "accuracy",
) -> Scene:
    assert data.label is not None and data.split is not None
    parts = [data.table, data.attributes, *(data.modalities or {}).values()]
    frame = pd.concat([part for part in parts if part is not None], axis=1).loc[rows]
    frame = frame.assign(label=data.label.loc[rows], part=data.split.loc[rows])
    hiding = {party: list(secrets) for party in held if party != active}
    federation = Federation.from_frame(frame, held, label=(active, "label"), split="part", secrets=hiding)
    return Scene(federation, metric, len(data.classes))


def _faces(data: Dataset, rows: pd.Index, secrets: Sequence[str]) -> Scene:
    assert data.images is not None and data.label is not None and data.split is not None
    assert data.attributes is not None
    places = data.ids.get_indexer(rows)
    hidden = data.attributes.iloc[places].reset_index(drop=True)
    federation = Federation.from_images(
        data.images[places],
        data.label.to_numpy()[places],
        list(HALVES),
        SERVER,
        data.split.to_numpy()[places],
        secrets={party: hidden[[secret]] for party, secret in zip(HALVES, secrets, strict=True)},
    )
    return Scene(federation, "accuracy", len(data.classes), pictures=True)


def _rows(data: Dataset, train: int | None, test: int | None) -> pd.Index:
    """Return so many records of each part, always the same ones: seeds tell of training, not of luck in the draw."""
    assert data.split is not None
    kept = []
    for part, most in (("train", train), ("validation", 0 if train else None), ("test", test)):
        ids = data.ids[(data.split == part).to_numpy()]
        kept.append(ids[np.random.default_rng(0).permutation(len(ids))[:most]])
    return kept[0].append(kept[1:])


def _root() -> Path:
    beside = Path(__file__).resolve().parents[5] / "shared" / "data"
    return Path(os.environ.get("COLONNADE_DATA") or beside)


def _folder(name: str) -> Path:
    folder = _root() / name
    if not folder.is_dir():
        raise ConfigError(f"the data sets are not here: no folder '{name}'", remedy="set COLONNADE_DATA to that above")
    return folder


@cache
def _loaded(name: str, target: str = "", secrets: tuple[str, ...] = ()) -> Dataset:
    """Read a set; every one comes with a split, and with no feature that is a secret."""
    if name == "celeba":
        return _with_split(load_dataset("celeba", _folder("celeba"), target=target, secrets=secrets), None)
    if name == "fairface":
        return _fairface(target)
    if name == "mimic3":
        return _mimic3(_folder("mimic3"))
    if name == "iemocap":
        data = load_dataset("iemocap", _folder("iemocap"))
        return _with_split(data, "session" if data.attributes is not None and "session" in data.attributes else None)
    data = load_dataset(name, _folder("tabular"))
    if name == "diabetes130":
        return _diabetes(data)
    return _with_split(data, "actor_id") if name == "crema_d" else data


def _diabetes(data: Dataset) -> Dataset:
    """Leave out what is sensitive or constant; numbers that are codes become categories; age becomes the secret."""
    assert data.table is not None
    table = data.table.drop(columns=list(_SENSITIVE))
    table = table.loc[:, table.nunique(dropna=False) > 1].astype(dict.fromkeys(_CODES, "str"))
    old = np.where(data.table["age"].isin(_OLD), "over 70", "under 70")
    attributes = pd.DataFrame(data.attributes).assign(age=old)
    return _with_split(replace(data, table=table, attributes=attributes, secrets=("age",)), "patient_nbr")


def _mimic3(folder: Path) -> Dataset:
    stays = load_dataset("mimic3_mortality", folder)
    left = load_dataset("mimic3_los", folder, period=_DAYS).label
    assert left is not None and stays.table is not None and stays.label is not None
    known = left.set_axis([str(key).partition("@")[0] for key in left.index])
    ids = stays.ids[stays.ids.isin(known.index)]
    long = np.where(known.loc[ids] > _DAYS, "longer", "shorter")
    hidden = pd.DataFrame({"stay": long}, index=ids)
    measured = stays.table.loc[ids].dropna(axis=1, how="all")
    split = None if stays.split is None else stays.split.loc[ids]
    return replace(
        stays, ids=ids, table=measured, label=stays.label.loc[ids], attributes=hidden, secrets=("stay",), split=split
    )


def _fairface(target: str) -> Dataset:
    """Race, gender, or whether somebody is thirty; each can be learned and each can be hidden."""
    data = load_dataset("fairface", _folder("images"), target="race", secrets=("gender", "age"))
    assert data.attributes is not None and data.split is not None
    # Of the training faces a third is held out too: from the test faces alone an attacker learns too little.
    spare = np.random.default_rng(0).random(len(data.split)) < _SPARE
    split = data.split.where((data.split == "test") | ~spare, "test")
    thirty = np.where(data.attributes["age"].isin(_THIRTY), "thirty or older", "younger")
    attributes = data.attributes.assign(age=thirty)
    data = replace(data, attributes=attributes, split=split)
    if target == "race":
        return data
    names = sorted(attributes[target].unique())
    label = attributes[target].map(names.index).rename("label")
    return replace(data, label=label, classes=tuple(names), secrets=("gender", "race"))


def _with_split(data: Dataset, group: str | None) -> Dataset:
    """Where the publisher gives no split, hold out all records of some people, or single records."""
    if data.split is not None:
        return data
    who = data.ids if group is None or data.attributes is None else pd.Index(data.attributes[group])
    parts = assign_split(who, 1 - _TESTED, 0.0, _TESTED, seed=0)
    return replace(data, split=pd.Series(np.where(parts == TEST, "test", "train"), index=data.ids, name="split"))
