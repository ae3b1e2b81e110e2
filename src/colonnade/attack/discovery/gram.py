"""Own: the answers that a party gives come back in the next features and show how foreign columns lie together."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np

from colonnade.attack.discovery.base import DISCOVERY_ATTACKS, DiscoveryAttack, Guess, Match
from colonnade.attack.discovery.basis import Basis, basis_of
from colonnade.attack.discovery.evidence import DiscoveryEvidence, Visit
from colonnade.attack.discovery.rotation import independent_rotation
from colonnade.discover.exchange import Floats
from colonnade.errors import DataError

ROUNDS = 30
"""Visits to each block that the differences are taken from; later ones are blurred by the coordinator's factors."""
_FLOOR = 1e-4


@DISCOVERY_ATTACKS.register("gram")
class Gram(DiscoveryAttack):
    """Gram matrix from differences: columns up to a rotation, then known records (if any) or independence.

    Between two visits to the same records the features change by -X Xᵀ G, and the target chose G. In the coordinates
    of `Basis`, X = P A, that is a linear equation for A Aᵀ; its root is A up to a rotation. A rotation takes far fewer
    known records than a regression.
    """

    name: ClassVar[str] = "gram"

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return columns; without known records nobody knows which is which."""
        basis = basis_of(evidence)
        upright = basis.points @ root(gram(basis, evidence))
        match: Match = "best"
        if evidence.known is None or evidence.known_rows is None:
            rotation = independent_rotation(upright, self.random)
        else:
            match = "claimed"
            place = {int(row): number for number, row in enumerate(basis.rows)}
            known = upright[[place[int(row)] for row in evidence.known_rows]]
            left, _, right = np.linalg.svd(known.T @ evidence.known, full_matrices=False)
            rotation = left @ right
        return _unknown_only(Guess(basis.rows, upright @ rotation, match), evidence)


def gram(basis: Basis, evidence: DiscoveryEvidence) -> Floats:
    """Return A · Aᵀ; DataError where no differences were seen."""
    pulled = {visit.step: basis.pulled(visit) for visit in evidence.visits if visit.update is not None}
    pairs = [
        (before, after)
        for block in basis.blocks
        for before, after in pairwise(basis.visits_of(block))
        if after.step < evidence.settled and all(step in pulled for step in range(before.step, after.step))
    ]
    pairs = _without_verdict(pairs, evidence, enough=basis.rank) or pairs[: ROUNDS * len(basis.blocks)]
    if not pairs:
        remedy = "keep the answers of neighbouring exchanges"
        raise DataError("no two visits to the same records were seen", where="evidence", remedy=remedy)
    causes = [np.sum([pulled[step] for step in range(one.step, other.step)], axis=0) for one, other in pairs]
    effects = [basis.coordinates(one) * _left(evidence, one, other) - basis.coordinates(other) for one, other in pairs]
    found = np.hstack(effects) @ np.linalg.pinv(np.hstack(causes), rcond=1e-6)
    symmetric: Floats = (found + found.T) / 2
    return symmetric


def _without_verdict(
    pairs: list[tuple[Visit, Visit]], evidence: DiscoveryEvidence, enough: int
) -> list[tuple[Visit, Visit]]:
    """Return the pairs between which nothing but the answers changed the encoders, if they suffice."""
    verdicts = np.array([verdict.step for verdict in evidence.verdicts])
    undisturbed = [
        (before, after) for before, after in pairs if not ((before.step < verdicts) & (verdicts <= after.step)).any()
    ]
    return undisturbed if len(undisturbed) * evidence.effects * evidence.settings.hidden >= 2 * enough else []


def root(matrix: Floats) -> Floats:
    """Return the square root of a matrix that should have one."""
    values, vectors = np.linalg.eigh(matrix)
    square_root: Floats = (vectors * np.sqrt(np.maximum(values, _FLOOR * values[-1]))) @ vectors.T
    return square_root


def _left(evidence: DiscoveryEvidence, before: Visit, after: Visit) -> Floats:
    """Return how much the verdicts between two visits left of each hidden unit, on the mean over causes."""
    left = np.ones(evidence.effects)
    for verdict in evidence.verdicts:
        if before.step < verdict.step <= after.step and not verdict.last:
            left = left * verdict.values.mean(axis=0)
    return np.repeat(left, evidence.settings.hidden)


def _unknown_only(guess: Guess, evidence: DiscoveryEvidence) -> Guess:
    """Leave out the records that were known anyway."""
    if evidence.known_rows is None:
        return guess
    kept = ~np.isin(guess.rows, evidence.known_rows)
    return Guess(guess.rows[kept], guess.columns[kept], guess.match)
