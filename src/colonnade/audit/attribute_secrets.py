"""The secrets an attribute audit can try: which columns they are, and which have to be left out, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from colonnade.attack.attribute import FEWEST_PAIRS
from colonnade.data.records import Records
from colonnade.data.secrets import Secret, prepare_secrets
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.measure.attribute import is_known

Columns = pd.DataFrame | pd.Series | str | Sequence[str]
"""A party's sensitive columns as people give them: the values themselves, or names of columns that its records have."""


@dataclass
class LeftOut:
    """Secrets that could not be tried, and with which seeds."""

    _why: dict[tuple[str, str], dict[int, DataError]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, party: str, refused: Mapping[str, DataError], seed: int) -> list[str]:
        """Remember why secrets of a party could not be tried with this seed; return what is new to say."""
        new = [str(error) for name, error in refused.items() if (party, name) not in self._why]
        for name, error in refused.items():
            self._why[party, name][seed] = error
        return new

    def told(self, seeds: Sequence[int]) -> list[str]:
        """Return one sentence for each secret; with which of `seeds`, where some could try it."""
        return [_told(why, seeds) for why in self._why.values()]

    def error(self) -> DataError:
        """Return what is wrong where nothing else was left to try."""
        reasons = [next(iter(why.values())) for why in self._why.values()]
        if len(reasons) == 1:
            return reasons[0]
        what = "no secret can be tried: " + "; ".join(f"{one.where}: {one.what}" for one in reasons)
        remedy = "name others, or hold out more records that have them (split.test, or records=)"
        return DataError(what, where="secrets", remedy=remedy)


def columns_of(party: str, given: Columns, records: Records) -> pd.DataFrame:
    """Return a party's sensitive columns as a frame: the one given, a series, or columns that its records have.

    >>> lab = Records(pd.Index([7, 8]), secrets=pd.DataFrame({"sex": ["f", "m"]}, index=[7, 8]))
    >>> columns_of("lab", ["sex"], lab)["sex"].tolist()
    ['f', 'm']
    """
    if isinstance(given, pd.DataFrame):
        return given
    if isinstance(given, pd.Series):
        return given.to_frame(name="secret" if given.name is None else given.name)
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        what = f"{type(given).__name__} is no frame"
        remedy = "give a frame with these columns, one row per record, indexed by the records' ids"
        raise ConfigError(what, where=f"secrets: {party}", remedy=remedy)
    return _named(party, names, records)


def usable_secrets(frame: pd.DataFrame, auxiliary: int, where: str) -> tuple[list[Secret], dict[str, DataError]]:
    """Return the secrets that can be learned and guessed, and what is wrong with each of the others.

    Args:
        frame: the sensitive columns of the auxiliary records, then of the targets.
        auxiliary: how many auxiliary records there are.
        where: whose they are, for errors.
    """
    if not frame.columns.is_unique:
        prepare_secrets(frame, np.arange(auxiliary), where)  # its error names the column
    usable: list[Secret] = []
    refused: dict[str, DataError] = {}
    for name in frame.columns:
        try:
            usable.append(_usable(frame[[name]], auxiliary, where))
        except DataError as error:
            refused[str(name)] = error
    return usable, refused


def _usable(column: pd.DataFrame, auxiliary: int, where: str) -> Secret:
    """Return one secret as numbers; raise where this division of the records leaves too little to learn from."""
    values = column.iloc[:, 0]
    learned, asked = values.iloc[:auxiliary].dropna(), values.iloc[auxiliary:].dropna()
    place = f"{where}: secret '{column.columns[0]}'"
    _check_known(len(learned), len(asked), place)
    if learned.nunique() == 1 and values.nunique() > 1:
        what = f"is the same in all {len(learned)} auxiliary records that have it; other values are too rare"
        remedy = "hold out more records (split.test, or records=), or leave it out of the secrets"
        raise DataError(what, where=place, remedy=remedy)
    (secret,) = prepare_secrets(column, np.arange(auxiliary), where)
    # A class that no auxiliary record has can't be guessed: such targets count as unknown.
    known = is_known(secret.values)
    _check_known(int(known[:auxiliary].sum()), int(known[auxiliary:].sum()), place)
    return secret


def _check_known(learned: int, asked: int, where: str) -> None:
    if learned < FEWEST_PAIRS or not asked:
        remedy = f"give at least {FEWEST_PAIRS} auxiliary records with it, and a target"
        what = f"it is known of {learned} auxiliary records and of {asked} targets"
        raise DataError(what, where=where, remedy=remedy)


def _named(party: str, names: Iterable[str], records: Records) -> pd.DataFrame:
    """Return columns of a party's own records by their names: secrets first, then features."""
    held: dict[str, pd.Series[Any]] = {}
    for frame in (records.table, records.secrets):
        held |= {} if frame is None else {str(name): frame[name] for name in frame.columns}
    for name in names:
        if name not in held:
            what = f"its records have no column '{name}'"
            remedy = f"give a frame with these columns, one row per record; {nearest(name, held)}"
            raise ConfigError(what, where=f"secrets: {party}", remedy=remedy)
    return pd.DataFrame({name: held[name] for name in names}, index=records.ids)


def _told(why: Mapping[int, DataError], seeds: Sequence[int]) -> str:
    reason = str(next(iter(why.values())))
    some = [str(seed) for seed in seeds if seed in why]
    return reason if len(some) == len(seeds) else f"with seed {', '.join(some)}: {reason}"
