"""The space of the foreign columns, found from features alone.

All features of a block of records are X_b · W(step): whatever the encoders, they stay in the space that the block's
foreign columns span. A basis P_b of it is found block by block from all visits; bases of different blocks are brought
to common coordinates, X_b = P_b · A with one unknown A, by the fact that the encoders change little between visits.
"""

from __future__ import annotations

import numpy as np

from colonnade.attack.discovery.evidence import DiscoveryEvidence, Rows, Visit
from colonnade.discover.exchange import Floats
from colonnade.errors import DataError

_NOTHING = 1e-7
_FARTHEST = 4
_TIMES = 400


class Basis:
    """Bases of all blocks in common coordinates.

    Attributes:
        blocks: the records of each block, by their first one.
        parts: P_b for each block.
        rank: dimensions that were found: at most the number of foreign columns.
    """

    def __init__(self, evidence: DiscoveryEvidence) -> None:
        if not evidence.visits:
            raise DataError("no exchange was seen", where="evidence", remedy="observe a run first")
        self.blocks = evidence.blocks
        self._visits: dict[int, list[Visit]] = {block: [] for block in self.blocks}
        for visit in evidence.visits:
            self._visits[int(visit.rows[0])].append(visit)
        own = {block: _space(visits, evidence.foreign) for block, visits in self._visits.items()}
        self.rank = min(part.shape[1] for part in own.values())
        own = {block: part[:, : self.rank] for block, part in own.items()}
        # Of length √n each, so that coordinates have the size of standardised columns.
        self.parts = {block: part * np.sqrt(len(part)) for block, part in own.items()}
        self._inverses = {block: part.T / np.sqrt(part.shape[0]) for block, part in own.items()}
        self._align()

    @property
    def rows(self) -> Rows:
        """All records that were seen."""
        return np.concatenate(list(self.blocks.values()))

    @property
    def points(self) -> Floats:
        """All P_b under each other, in the order of `rows`."""
        return np.vstack(list(self.parts.values()))

    def coordinates(self, visit: Visit) -> Floats:
        """Return A · W at the time of a visit."""
        found: Floats = self._inverses[int(visit.rows[0])] @ visit.features
        return found

    def pulled(self, visit: Visit) -> Floats:
        """Return Pᵀ · update of a visit."""
        assert visit.update is not None
        found: Floats = self.parts[int(visit.rows[0])].T @ visit.update
        return found

    def visits_of(self, block: int) -> list[Visit]:
        """All visits to a block, in order."""
        return self._visits[block]

    def _align(self) -> None:
        """Bring every block to the coordinates of the first."""
        first, *others = self.blocks
        for block in others:
            theirs, ours = self._at_common_times(block, first)
            if theirs.shape[1] < self.rank:
                what = "the features of different records can't be brought together"
                raise DataError(what, where="evidence", remedy="observe more exchanges")
            turn = theirs @ np.linalg.pinv(ours, rcond=_NOTHING)
            self.parts[block] = self.parts[block] @ turn
            self._inverses[block] = np.linalg.pinv(turn, rcond=_NOTHING) @ self._inverses[block]

    def _at_common_times(self, block: int, first: int) -> tuple[Floats, Floats]:
        """Return coordinates of a block, interpolated in time, and those of the first at the same times."""
        visits = self._visits[block]
        steps = np.array([visit.step for visit in visits])
        theirs, ours = [], []
        for visit in self._visits[first][:: -(-len(self._visits[first]) // _TIMES)]:
            after = int(np.searchsorted(steps, visit.step))
            if after < len(steps) and steps[after] == visit.step:
                there = self.coordinates(visits[after])
            elif 0 < after < len(steps) and steps[after] - steps[after - 1] <= _FARTHEST * len(self.blocks):
                share = (visit.step - steps[after - 1]) / (steps[after] - steps[after - 1])
                before, behind = visits[after - 1], visits[after]
                there = (1 - share) * self.coordinates(before) + share * self.coordinates(behind)
            else:
                continue
            theirs.append(there)
            ours.append(self.coordinates(visit))
        if not ours:
            return np.zeros((self.rank, 0)), np.zeros((self.rank, 0))
        return np.hstack(theirs), np.hstack(ours)


def basis_of(evidence: DiscoveryEvidence) -> Basis:
    """Return the space of the features, found once for each evidence."""
    if not evidence.bases:
        evidence.bases.append(Basis(evidence))
    return evidence.bases[0]


def _space(visits: list[Visit], most: int) -> Floats:
    """Return an orthonormal basis of what all visits to a block span, of at most so many dimensions."""
    total = np.zeros((len(visits[0].rows),) * 2)
    for visit in visits:
        total += visit.features @ visit.features.T
    values, vectors = np.linalg.eigh(total)
    order = np.argsort(values)[::-1][:most]
    kept = values[order] > _NOTHING**2 * values[order[0]]
    space: Floats = vectors[:, order[kept]]
    return space
