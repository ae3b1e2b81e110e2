"""A few records that the attacker knows anyway turn features into all the others."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.attack.discovery.base import DISCOVERY_ATTACKS, DiscoveryAttack, Guess
from colonnade.attack.discovery.basis import basis_of
from colonnade.attack.discovery.evidence import DiscoveryEvidence, Rows
from colonnade.discover.exchange import Floats
from colonnade.errors import DataError
from colonnade.strength import number


@DISCOVERY_ATTACKS.register("known_records")
class KnownRecords(DiscoveryAttack):
    """Regression from known records: ridge from the space of the features to the foreign columns.

    Args:
        ridge: penalty, for columns of unit variance.
    """

    name: ClassVar[str] = "known_records"

    def __init__(self, ridge: float = 1e-2) -> None:
        super().__init__()
        self.ridge = number("known_records.ridge", ridge, at_least=0)

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return all records but the known ones."""
        basis = basis_of(evidence)
        return _regress(basis.rows, basis.points, evidence, self.ridge)


@DISCOVERY_ATTACKS.register("own_columns")
class OwnColumns(DiscoveryAttack):
    """Control that sees no feature: ridge from the attacker's own columns, with the same known records."""

    name: ClassVar[str] = "own_columns"
    strength: ClassVar = "control"

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return all records but the known ones."""
        rows = np.concatenate(list(evidence.blocks.values()))
        # Own columns do not span the foreign ones: without a strong penalty few records would be learned by heart.
        return _regress(rows, evidence.own[rows], evidence, ridge=1.0)


def _regress(rows: Rows, inputs: Floats, evidence: DiscoveryEvidence, ridge: float) -> Guess:
    if evidence.known is None or evidence.known_rows is None:
        raise DataError("no record is known", where="evidence", remedy="grant some with evidence.knowing")
    place = {int(row): spot for spot, row in enumerate(rows)}
    known = inputs[[place[int(row)] for row in evidence.known_rows]]
    weights = np.linalg.solve(known.T @ known + ridge * np.eye(known.shape[1]), known.T @ evidence.known)
    unknown = ~np.isin(rows, evidence.known_rows)
    return Guess(rows[unknown], inputs[unknown] @ weights)
