"""What can be wrong with a party's records, found before they are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.data.kinds import column_kind, holds_dates
from colonnade.data.label_preparation import LabelPreparation
from colonnade.data.read import read_records, read_table
from colonnade.data.read_images import read_image_archive
from colonnade.data.records import Records, check_ids
from colonnade.data.secrets import prepare_secrets
from colonnade.data.split import split_from_column
from colonnade.data.text_kinds import date_example, words_among_numbers
from colonnade.errors import DataError, nearest
from colonnade.federation.files import FederationFile, PartyFile
from colonnade.federation.problems import Problem

IMAGE_IDS = "ids"
"""The array with the ids in an archive of images, where the party file names no other."""


def check_table(federation: FederationFile, party: PartyFile, path: Path) -> list[Problem]:
    """Return every problem of a party's table: names first, then ids, values and label of the columns that exist."""
    frame = read_table(party.source.path, party.source.id_column)
    names = [str(name) for name in frame.columns]
    problems = _unknown_names(federation, party, path, names) + _label_in_wrong_place(federation, party, path, names)
    if party.source.id_column in names:
        ids = pd.Index(frame[party.source.id_column])
        problems += _tried(lambda: check_ids(ids, str(party.source.path)), path, "data.id_column")
    features = [name for name in _feature_columns(federation, party, names) if name in names]
    refused, told = _check_kinds(frame[list(dict.fromkeys(features))], path)
    problems += told
    usable = frame[[name for name in features if name not in refused]].reset_index(drop=True)
    if features:
        problems += _tried(lambda: Records.from_frame(usable), path, "data.path")
    elif party.party != federation.active:
        problems.append(
            Problem("a passive party needs columns", path, "data.columns", "name the columns to take part with")
        )
    if party.party == federation.active:
        ids = frame[party.source.id_column] if party.source.id_column in names else frame.index
        problems += _check_label_and_split(federation, frame.set_axis(pd.Index(ids), axis=0), path)
    return problems + _check_secrets(federation, party, path, frame)


def _check_kinds(features: pd.DataFrame, path: Path) -> tuple[set[str], list[Problem]]:
    """Return the columns that nothing can be learned from, and what is to be told of these and of others.

    Nobody else reads it: a value may be shown, as it must not be in an error.
    """
    refused, problems = set(), []
    for name in features.columns:
        column = features[name]
        wrong = _tried(partial(column_kind, column), path, "data.path")
        if not wrong and (date := date_example(column)) is not None:
            error = holds_dates(name)
            wrong = [Problem(f"{error.what}, such as '{date}'", path, "data.path", error.remedy or "")]
        elif not wrong and (found := words_among_numbers(column)) is not None:
            share, word = found
            what = f"column '{name}' is taken for text: {share:.0%} of its values are numbers, but '{word}' is none"
            remedy = "if it is a quantity, write numbers or nothing in its place"
            problems.append(Problem(what, path, "data.path", remedy, "note"))
        refused |= {name} if wrong else set()
        problems += wrong
    return refused, problems


def check_images(federation: FederationFile, party: PartyFile, path: Path) -> list[Problem]:
    """Return every problem of a party's images."""
    data, problems = party.source, []
    if not (data.path.is_dir() or data.path.suffix.lower() == ".npz"):
        remedy = "give a folder of images or an .npz file, or write kind: table"
        return [Problem(f"{data.path.name} holds no images", path, "data.kind", remedy)]
    if data.columns is not None:
        problems.append(Problem("images have no columns", path, "data.columns", "leave columns out"))
    if party.sensitive and data.path.is_dir():
        remedy = "give an .npz with one array for each, or leave sensitive out"
        problems.append(Problem("a folder of images has no columns", path, "sensitive", remedy))
    active = party.party == federation.active
    if active and federation.task.split.column is not None:
        problems.append(Problem("images have no split column", path, "data.kind", "leave task.split.column out"))
    label = federation.label if active else None
    wrong = _tried(lambda: read_records(data.path, data.id_column or IMAGE_IDS, label=label), path, "data.path")
    return problems + (wrong or _check_image_secrets(federation, party, path))


def _check_image_secrets(federation: FederationFile, party: PartyFile, path: Path) -> list[Problem]:
    """The secrets of images are arrays beside them."""
    data, wanted = party.source, dict.fromkeys(party.sensitive)
    if not wanted or data.path.is_dir():
        return []
    with np.load(data.path, allow_pickle=False) as archive:
        names = list(archive.files)
    problems = [
        Problem(f"{data.path.name} has no array '{name}'", path, "sensitive", nearest(name, names))
        for name in wanted
        if name not in names
    ]
    try:
        *_, hidden = read_image_archive(
            data.path, data.id_column or IMAGE_IDS, [name for name in wanted if name in names]
        )
    except DataError as error:
        return [*problems, Problem(error.what, path, "sensitive", error.remedy or "")]
    return problems + _check_secrets(federation, party, path, hidden)


def _feature_columns(federation: FederationFile, party: PartyFile, names: list[str]) -> list[str]:
    """Return which of a table's columns the party takes part with."""
    if party.source.columns is not None:
        return list(party.source.columns)
    own = {party.source.id_column, *party.sensitive}
    if party.party == federation.active:
        own |= {federation.label, federation.task.split.column}
    return [name for name in names if name not in own]


def _unknown_names(federation: FederationFile, party: PartyFile, path: Path, names: list[str]) -> list[Problem]:
    asked = [("data.id_column", party.source.id_column)]
    asked += [("data.columns", name) for name in party.source.columns or ()]
    asked += [("sensitive", name) for name in party.sensitive]
    if party.party == federation.active:
        asked += [("data.path", federation.label), ("data.path", federation.task.split.column)]
    what = {federation.label: "label column", federation.task.split.column: "split column"}
    file = party.source.path.name
    return [
        Problem(f"{file} has no {what.get(name, 'column')} '{name}'", path, field, nearest(name, names))
        for field, name in asked
        if name is not None and name not in names
    ]


def _check_secrets(federation: FederationFile, party: PartyFile, path: Path, secrets: pd.DataFrame) -> list[Problem]:
    """A secret is neither id nor label nor split, is listed once, and takes two values at least."""
    aside: dict[str | None, str] = {party.source.id_column or IMAGE_IDS: "id", federation.label: "label"}
    if party.party == federation.active:
        aside[federation.task.split.column] = "split"
    problems = []
    for name, times in Counter(party.sensitive).items():
        if name in aside:
            problems.append(Problem(f"'{name}' is the {aside[name]}, no secret", path, "sensitive", "leave it out"))
        elif times > 1:
            problems.append(Problem(f"'{name}' is listed twice", path, "sensitive", "list it once"))
        elif name in secrets.columns:
            problems += _tried(partial(_use_as_secret, secrets[name]), path, "sensitive")
    return problems


def _use_as_secret(column: pd.Series) -> None:
    try:
        prepare_secrets(column.to_frame(), np.arange(len(column)), "sensitive")
    except DataError as error:
        raise DataError(f"'{column.name}' {error.what}", remedy=error.remedy) from None


def _label_in_wrong_place(federation: FederationFile, party: PartyFile, path: Path, names: list[str]) -> list[Problem]:
    label = federation.label
    used = _feature_columns(federation, party, names)
    if party.party == federation.active:
        listed = [name for name in (label, federation.task.split.column) if name in used]
        remedy = "take it out of the list"
        return [
            Problem(f"'{name}' is the label or the split, no feature", path, "data.columns", remedy) for name in listed
        ]
    if label not in names:
        return []
    what = f"{party.source.path.name} holds the label '{label}', which belongs to '{federation.active}'"
    if label in used:
        return [Problem(what, path, "data.columns", "list the columns to take part with, without it")]
    return [Problem(f"{what}; it is not used", path, "data.path", severity="note")]


def _check_label_and_split(federation: FederationFile, frame: pd.DataFrame, path: Path) -> list[Problem]:
    problems: list[Problem] = []
    task = federation.task
    if federation.label in frame.columns:
        label = frame[federation.label]
        problems += _tried(lambda: LabelPreparation(task.kind).fit(label), path, f"label '{federation.label}'")
    if task.split.column is not None and task.split.column in frame.columns:
        split = frame[task.split.column]
        problems += _tried(lambda: split_from_column(split, validation=0), path, f"split '{task.split.column}'")
    return problems


def _tried(step: Callable[[], object], path: Path, field: str) -> list[Problem]:
    try:
        step()
    except DataError as error:
        return [Problem(error.what, path, field, error.remedy or "")]
    return []
