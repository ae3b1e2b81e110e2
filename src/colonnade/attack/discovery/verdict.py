"""Own: the factors that the coordinator sends a target tell it the strengths of all edges into its variables."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.attack.discovery.base import DISCOVERY_ATTACKS, DiscoveryAttack, Guess
from colonnade.attack.discovery.basis import Basis, basis_of
from colonnade.attack.discovery.evidence import DiscoveryEvidence, Look
from colonnade.attack.discovery.gram import gram, root
from colonnade.attack.discovery.rotation import rotation_by_strength
from colonnade.discover.exchange import Floats
from colonnade.errors import DataError

LOOKS = 5
"""Verdicts that are used: in later ones acyclicity weighs edges by eigenvectors that the target does not know."""


@DISCOVERY_ATTACKS.register("verdict")
class Verdict(DiscoveryAttack):
    """Gram matrix, then the rotation that fits the coordinator's factors: one party, no accomplice, no known record.

    A factor is 1 - shrink / strength, where shrink = rate · (sparsity + weight · slope). In the first looks the weight
    of acyclicity is small and the slope of the spectral radius is near 1 / variables for every edge: shrink is nearly
    the same for all edges, so the factors give all strengths up to one number a look. That number is known too, as a
    rotation leaves the sum of the squared strengths alone. Strengths are norms of encoder weights, and the encoder is
    known up to a rotation: the one with the right norms is the right one.
    """

    name: ClassVar[str] = "verdict"

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return columns, claimed one by one."""
        looks = [look for look in evidence.verdicts if not look.last and (look.values > 0).any()][:LOOKS]
        if not looks:
            raise DataError("no verdict was heard", where="evidence", remedy="observe the search for the graph")
        basis = basis_of(evidence)
        told = [(look.step, relative_strengths(look)) for look in looks]
        fitted, _ = fit_rotation(basis, evidence, told, scaled=False)
        return Guess(basis.rows, basis.points @ fitted)


def relative_strengths(look: Look) -> Floats:
    """Return the strengths after the scaling that a verdict betrays, up to one factor for all edges."""
    lost = np.maximum(1 - look.values, 2.0**-21)
    strengths: Floats = look.values / lost
    return strengths


def fit_rotation(
    basis: Basis, evidence: DiscoveryEvidence, looks: list[tuple[int, Floats]], scaled: bool = True
) -> tuple[Floats, float]:
    """Return A, up to signs, from the strengths right after some looks; and how badly those are met.

    Args:
        basis: of the features.
        evidence: what is known.
        looks: the exchanges at which they were, and the strengths.
        scaled: whether strengths have their true size; otherwise each look's are brought to what the features say.
    """
    square_root = root(gram(basis, evidence))
    if basis.rank < evidence.foreign:
        what = f"features show {basis.rank} dimensions of {evidence.foreign}"
        raise DataError(what, where="evidence", remedy="observe more exchanges")
    back: Floats = np.linalg.inv(square_root).astype(np.float64)
    units, strengths = equations(basis, evidence, looks, back)
    if not scaled:
        strengths *= _sizes(units, strengths, evidence.effects)
    rotation, misfit = rotation_by_strength(units, strengths, starts(evidence))
    return square_root @ rotation, misfit


def equations(
    basis: Basis, evidence: DiscoveryEvidence, looks: list[tuple[int, Floats]], back: Floats
) -> tuple[Floats, Floats]:
    """Return Y Yᵀ, Y = back · A · W, of each effect right after each look, and the strengths of its edges."""
    hidden = evidence.settings.hidden
    visits = {visit.step: visit for visit in evidence.visits}
    units, strengths = [], []
    for step, after in looks:
        if step in visits:
            mapped = (back @ basis.coordinates(visits[step])).reshape(len(back), -1, hidden)
            units.append(np.einsum("pjh,qjh->jpq", mapped, mapped))
            strengths.append(after.T)
    if not units:
        what = "no exchange right after a look was seen"
        raise DataError(what, where="evidence", remedy="observe more exchanges")
    return np.concatenate(units), np.vstack(strengths)


def starts(evidence: DiscoveryEvidence) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the first column of each of the victims' variables."""
    return np.cumsum([0, *evidence.widths[:-1]])


def _sizes(units: Floats, strengths: Floats, effects: int) -> Floats:
    """Return, for each equation, what brings the strengths of its look to the size of the features."""
    there = np.trace(units, axis1=1, axis2=2).reshape(-1, effects).sum(axis=1)
    here = np.square(strengths).sum(axis=1).reshape(-1, effects).sum(axis=1)
    sizes: Floats = np.repeat(np.sqrt(there / np.maximum(here, 1e-30)), effects)[:, None]
    return sizes
