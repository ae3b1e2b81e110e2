"""What an attribute attacker is shown: one client's uploads or all together, and the raw columns as the ceiling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from colonnade.attack.attribute import ATTRIBUTE_ATTACKERS, AttributeAttacker
from colonnade.audit.attacks import bottom_of
from colonnade.audit.attribute_secrets import usable_secrets
from colonnade.audit.evidence import draw_noise_from, prepared, uploads_of
from colonnade.audit.held_out import HeldOut
from colonnade.audit.rows import EVERYBODY
from colonnade.data.secrets import Secret
from colonnade.errors import DataError
from colonnade.learn.model import VerticalModel
from colonnade.measure.attribute import Leak, Score, leak_of, majority_score, secret_score

Secrets = Mapping[str, pd.DataFrame]
"""Each party's sensitive columns, indexed by the records' ids."""

Fresh = Callable[[str], AttributeAttacker]
"""Makes an attacker that has learned nothing yet from its name."""


@dataclass(frozen=True)
class Seen:
    """What stands for the auxiliary records and for the targets: uploads, or raw columns."""

    auxiliary: Tensor
    targets: Tensor

    def readable_by(self, attacker: str) -> bool:
        """Return whether the attacker can learn from this."""
        return self.auxiliary.dim() == 4 or not ATTRIBUTE_ATTACKERS[attacker].maps_only


@dataclass(frozen=True)
class View:
    """One client's uploads, or all together, and the secrets to be guessed from them.

    Attributes:
        client: whose uploads.
        method: the name of the defense.
        uploads: what left the client.
        raw: its prepared columns, which did not.
        secrets: one value for each auxiliary record, then for each target.
        refused: what is wrong with secrets that nobody could learn to guess from these auxiliary records; those of all
            together are refused at the party that has them.
    """

    client: str
    method: str
    uploads: Seen
    raw: Seen
    secrets: Sequence[Secret]
    refused: Mapping[str, DataError] = field(default_factory=dict)

    def leaks(self, secret: Secret, attackers: Sequence[str], fresh: Fresh) -> Iterator[Leak]:
        """Yield what each attacker that can read uploads or raw columns finds out about one secret."""
        known, wanted = np.split(secret.values, [len(self.uploads.auxiliary)])
        majority = majority_score(known, wanted)
        for name in attackers:
            if self.uploads.readable_by(name) or self.raw.readable_by(name):
                found, ceiling = (_score(name, seen, known, wanted, fresh) for seen in (self.uploads, self.raw))
                yield leak_of(name, found, majority, ceiling)


def views(model: VerticalModel, parts: tuple[HeldOut, HeldOut], hidden: Secrets, seed: int) -> Iterator[View]:
    """Yield each party that has secrets; where several parties upload, then all together.

    Args:
        model: a working copy, whose defenses will draw their noise from `seed`.
        parts: the auxiliary records and the targets.
        hidden: the sensitive columns.
        seed: of the noise.
    """
    first, others = (next(iter(part.records.values())).ids for part in parts)
    ordered = {party: _ordered(frame, first.append(others)) for party, frame in hidden.items()}
    known = len(first)
    uploads, raw, methods = {}, {}, {}
    for party in parts[0].records:
        bottom = bottom_of(model, party)
        draw_noise_from(party, bottom, seed)
        uploads[party] = Seen(*(uploads_of(bottom, part.records[party]) for part in parts))
        raw[party] = Seen(*(prepared(bottom, part.records[party]) for part in parts))
        methods[party] = bottom.defense.name
    for party, frame in ordered.items():
        yield View(party, methods[party], uploads[party], raw[party], *usable_secrets(frame, known, party))
    if len(uploads) > 1:
        method = "mixed" if len(set(methods.values())) > 1 else next(iter(methods.values()))
        everything, _ = usable_secrets(everybodys(ordered), known, EVERYBODY)
        yield View(EVERYBODY, method, _joined(uploads), _joined(raw), everything)


def everybodys(hidden: Secrets) -> pd.DataFrame:
    """Return all parties' secrets; what several parties call the same is one secret if its values are the same.

    >>> ages = {"lab": pd.DataFrame({"age": [1, 2]}), "clinic": pd.DataFrame({"age": [1, 2], "sex": [0, 1]})}
    >>> list(everybodys(ages)), list(everybodys({**ages, "bank": pd.DataFrame({"sex": [1, 1]})}))
    (['age', 'sex'], ['age', 'sex of clinic', 'sex of bank'])
    """
    columns = {(party, name): frame[name] for party, frame in hidden.items() for name in frame.columns}
    found = {}
    for (party, name), column in columns.items():
        same = all(column.equals(other) for (_, called), other in columns.items() if called == name)
        found[name if same else f"{name} of {party}"] = column
    return pd.DataFrame(found)


def together(parts: Sequence[Tensor]) -> Tensor:
    """Return one array a record: maps of one size as the channels of one map, anything else as one long vector."""
    if all(part.dim() == 4 for part in parts) and len({part.shape[2:] for part in parts}) == 1:
        return torch.cat(list(parts), dim=1)
    return torch.cat([part.flatten(1) for part in parts], dim=1)


def _joined(parts: Mapping[str, Seen]) -> Seen:
    seen = list(parts.values())
    return Seen(together([part.auxiliary for part in seen]), together([part.targets for part in seen]))


def _score(
    name: str, seen: Seen, known: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic], fresh: Fresh
) -> Score:
    if not seen.readable_by(name):
        return Score(math.nan, math.nan)
    return secret_score(fresh(name).fit(seen.auxiliary, known).predict(seen.targets), wanted)


def _ordered(frame: pd.DataFrame, ids: pd.Index) -> pd.DataFrame:
    """Return the rows of these ids; whole numbers stay whole where a record has none, or they would be quantities."""
    whole = [name for name in frame.columns if pd.api.types.is_integer_dtype(frame[name].dtype)]
    return frame.astype(dict.fromkeys(whole, object)).reindex(ids)
