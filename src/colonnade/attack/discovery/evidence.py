"""What curious roles of a discovery bring home: everything an attack on it may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from colonnade.discover.exchange import FACTOR_BITS, Factors, Floats
from colonnade.errors import ConfigError
from colonnade.federation.discovery import DiscoverySettings

if TYPE_CHECKING:
    from colonnade.attack.discovery.basis import Basis

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Visit:
    """One exchange, as its target saw it.

    Attributes:
        step: exchanges before this one.
        rows: the records in it; a block of records always comes as a whole, in one order.
        features: what the encoders of the victims made of them.
        update: what the target answered with: the encoders changed by columnsᵀ · update; None for a mere look.
    """

    step: int
    rows: Rows
    features: Floats
    update: Floats | None = None


@dataclass(frozen=True)
class Look:
    """What was heard about the edges from the victims' variables to the attackers', [cause, effect].

    Attributes:
        step: exchanges before it.
        values: factors, or strengths.
        last: whether edges of factor 0 stay out from now on.
    """

    step: int
    values: Floats
    last: bool = False


@dataclass(frozen=True)
class DiscoveryEvidence:
    """What one attacker, or several who put their views together, know of certain victims.

    Attributes:
        settings: how the graph is found; everybody knows them.
        variables: of the whole federation.
        widths: encoded columns of each of the victims' variables.
        effects: the attackers' variables, whose hidden units the features are for.
        visits: all exchanges that were kept.
        own: the attackers' own encoded columns, all records.
        verdicts: the factors that the attackers were sent.
        strengths: edge strengths before the scaling at each look, if the coordinator is an accomplice.
        known_rows: records that the attackers know anyway.
        known: the victims' columns for those.
        bases: the space of the features, once an attack has found it: the next one need not search again.
    """

    settings: DiscoverySettings
    variables: int
    widths: tuple[int, ...]
    effects: int
    visits: tuple[Visit, ...]
    own: Floats
    verdicts: tuple[Look, ...] = ()
    strengths: tuple[Look, ...] = ()
    known_rows: Rows | None = None
    known: Floats | None = None
    bases: list[Basis] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def foreign(self) -> int:
        """How many columns there are to guess."""
        return sum(self.widths)

    @property
    def blocks(self) -> dict[int, Rows]:
        """The records of each block, by their first one."""
        return {int(visit.rows[0]): visit.rows for visit in self.visits}

    def knowing(self, records: int, truth: Floats, seed: int = 0) -> DiscoveryEvidence:
        """Grant the victims' columns, out of `truth` for all records, for so many of the records that were seen."""
        seen = np.sort(np.concatenate(list(self.blocks.values())))
        if not 0 < records <= len(seen):
            raise ConfigError(
                f"{records} records can't be known", where="known", remedy=f"at most {len(seen)} were seen"
            )
        rows = np.random.default_rng(seed).choice(seen, records, replace=False)
        knowing = replace(self, known_rows=rows, known=truth[rows])
        knowing.bases.extend(self.bases)
        return knowing

    @property
    def settled(self) -> float:
        """Exchanges before the first edges were kept out for good."""
        return next((look.step for look in self.verdicts if look.last), float("inf"))

    def left_of(self, look: Look) -> Floats | None:
        """Return the strengths that a verdict left of those at a look; None where it kept edges out as well."""
        said = next((said for said in self.verdicts if said.step == look.step), None)
        return None if said is None or said.last else look.values * said.values


def as_shares(factors: Mapping[str, Factors], victims: tuple[str, ...]) -> Floats:
    """Return factors as numbers in [0, 1], the victims' variables under each other."""
    return np.ldexp(np.vstack([factors[victim] for victim in victims]).astype(np.float64), -FACTOR_BITS)
