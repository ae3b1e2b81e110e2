"""Fresh attackers on uploads alone.

`audit_attributes` also lets every attacker at the raw columns, which are the ceiling. They are the same whatever the
protection, and attacking them takes longer than attacking uploads: here that is done in the undefended run only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # listing benches loads no torch
    import pandas as pd

    from colonnade.audit.attribute_views import Secrets, View
    from colonnade.learn.model import VerticalModel

Told = dict[str, Any]
"""What one attacker found: client, secret, attacker, leak, leak_f1, majority, ceiling."""
NAMES = ("client", "secret", "attacker", "leak", "leak_f1", "majority", "ceiling")


def with_ceiling(model: VerticalModel, hidden: Secrets, attackers: Sequence[str], seed: int, device: str) -> list[Told]:
    """Return what each attacker finds in uploads and in raw columns."""
    from colonnade.audit.attributes import audit_attributes

    found: pd.DataFrame = audit_attributes(
        model, secrets=hidden, attackers=attackers, seeds=[seed], progress=False, device=device
    ).per_seed
    told = found[list(NAMES)].astype(object)
    rows = told.where(told.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def without_ceiling(
    model: VerticalModel, hidden: Secrets, attackers: Sequence[str], seed: int, device: str
) -> list[Told]:
    """Return what each attacker finds in uploads: the same numbers, sooner.

    Where all clients hide the same, only all uploads together are attacked if `hidden` names one client alone.
    """
    from colonnade.audit.attribute_views import views
    from colonnade.audit.attributes import TARGETS
    from colonnade.audit.evidence import working_copy
    from colonnade.audit.held_out import divide, held_out_of
    from colonnade.audit.rows import EVERYBODY
    from colonnade.audit.settings import Settings

    held = held_out_of(model, None, None)
    parts = divide(held, Settings().auxiliary, TARGETS, seed)
    found = list(views(working_copy(model, held.records), parts, hidden, seed))
    chosen = [view for view in found if len(hidden) > 1 or view.client == EVERYBODY]
    return [told for view in chosen for told in _leaks(view, attackers, seed, device)]


def _leaks(view: View, attackers: Sequence[str], seed: int, device: str) -> Iterator[Told]:
    import numpy as np

    from colonnade.attack.attribute import make_attribute_attacker
    from colonnade.measure.attribute import majority_score, secret_score

    uploads = view.uploads
    for secret in view.secrets:
        known, wanted = np.split(secret.values, [len(uploads.auxiliary)])
        blind = majority_score(known, wanted).accuracy
        for name in attackers:
            if uploads.readable_by(name):
                attacker = make_attribute_attacker(name, seed=seed, device=device)
                found = secret_score(attacker.fit(uploads.auxiliary, known).predict(uploads.targets), wanted)
                values = (view.client, secret.name, name, found.accuracy, found.f1, blind, None)
                yield dict(zip(NAMES, values, strict=True))
