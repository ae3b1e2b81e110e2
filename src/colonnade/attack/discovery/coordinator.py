"""Own: a party and the coordinator together know the norms of encoders whose images they see: no secret is left."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.attack.discovery.base import DISCOVERY_ATTACKS, DiscoveryAttack, Guess
from colonnade.attack.discovery.basis import Basis, basis_of
from colonnade.attack.discovery.evidence import DiscoveryEvidence
from colonnade.attack.discovery.rotation import strength_vectors
from colonnade.attack.discovery.verdict import equations, fit_rotation, starts
from colonnade.discover.exchange import Floats
from colonnade.errors import DataError

_EXACT = 1e-3
_LOOKS = 60


@DISCOVERY_ATTACKS.register("coordinator")
class WithCoordinator(DiscoveryAttack):
    """Party and coordinator: squared strengths are quadratic forms of what the party sees, solved by least squares.

    With features V = A W, the rows r of A⁻¹ fulfil rᵀ V Vᵀ r = strength²: linear equations for r rᵀ, one for each of
    the party's variables and each look. Once there are p (p + 1) / 2 of them for p foreign columns, all columns are
    found up to sign. Where there are fewer, or noise lies on them, the rotation of the Gram matrix is fitted instead.
    """

    name: ClassVar[str] = "coordinator"

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return columns, claimed one by one."""
        if not evidence.strengths:
            raise DataError("no strengths are known", where="evidence", remedy="let the coordinator be an accomplice")
        left = [(look.step, evidence.left_of(look)) for look in evidence.strengths]
        looks = [(step, strengths) for step, strengths in left if strengths is not None]
        basis = basis_of(evidence)
        solved = self._exactly(basis, evidence, looks)
        if solved is not None:
            return solved
        return Guess(basis.rows, basis.points @ fit_rotation(basis, evidence, looks[:_LOOKS])[0])

    def _exactly(self, basis: Basis, evidence: DiscoveryEvidence, looks: list[tuple[int, Floats]]) -> Guess | None:
        """Solve block by block, where coordinates are exact; None where the equations are too few or do not hold."""
        found_columns: list[Floats] = []
        guesses: list[Floats] = []
        for block in basis.blocks:
            here = {visit.step for visit in basis.visits_of(block)}
            chosen = [(step, after) for step, after in looks if step in here]
            found = _rows_of_inverse(basis, evidence, chosen)
            if found is None:
                return None
            columns: Floats = np.linalg.inv(found.T).astype(np.float64)
            found_columns.append(columns)
            # Each block knows its columns up to sign; common coordinates tell which signs belong together.
            columns *= np.sign((columns * found_columns[0]).sum(axis=0))
            guesses.append(basis.parts[block] @ columns)
        return Guess(basis.rows, np.vstack(guesses))


def _rows_of_inverse(basis: Basis, evidence: DiscoveryEvidence, looks: list[tuple[int, Floats]]) -> Floats | None:
    """Return the rows of A⁻¹, as columns."""
    size = basis.rank
    if size < evidence.foreign or len(looks) * evidence.effects < size * (size + 1) // 2:
        return None
    units, strengths = equations(basis, evidence, looks, np.eye(size))
    vectors = strength_vectors(units, strengths, starts(evidence))
    squares = np.einsum("pi,qpr,ri->qi", vectors, units, vectors, optimize=True)
    found = np.sqrt(np.maximum(np.add.reduceat(squares, starts(evidence), axis=1), 0.0))
    misfit = np.median(np.abs(found - strengths)) / max(float(np.median(strengths)), 1e-12)
    return vectors if misfit < _EXACT and np.linalg.matrix_rank(vectors) == size else None
