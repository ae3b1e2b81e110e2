"""Blind separation: columns are more alike noise when mixed."""

from __future__ import annotations

import warnings
from typing import ClassVar

from colonnade.attack.discovery.base import DISCOVERY_ATTACKS, DiscoveryAttack, Guess
from colonnade.attack.discovery.basis import basis_of
from colonnade.attack.discovery.evidence import DiscoveryEvidence


@DISCOVERY_ATTACKS.register("ica")
class ICA(DiscoveryAttack):
    """FastICA on the space of all features; judged by the best match over its components, as is its baseline."""

    name: ClassVar[str] = "ica"
    strength: ClassVar = "published"

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return components; nobody knows which is which."""
        from sklearn.decomposition import FastICA
        from sklearn.exceptions import ConvergenceWarning

        basis = basis_of(evidence)
        separate = FastICA(whiten="unit-variance", max_iter=500, random_state=int(self.random.integers(2**31)))
        with warnings.catch_warnings():
            # Causes and effects are not independent: it need not settle, and what it has then is as good a guess.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return Guess(basis.rows, separate.fit_transform(basis.points), "best")


@DISCOVERY_ATTACKS.register("subspace")
class Subspace(DiscoveryAttack):
    """Oracle: everything linear in the features, fitted to the truth itself; the ceiling for attacks on features."""

    name: ClassVar[str] = "subspace"
    strength: ClassVar = "oracle"

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return the space of the features."""
        basis = basis_of(evidence)
        return Guess(basis.rows, basis.points, "span")
