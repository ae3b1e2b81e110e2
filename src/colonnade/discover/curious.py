"""Where attacks look in: what a role of a discovery sees anyway, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from colonnade.discover.exchange import Factors, Floats
from colonnade.wire.message import Array


class Curious:
    """Looks closer at what one party sees; a method that is not overridden looks away."""

    def saw(self, step: int, rows: Array, features: Floats, apart: Mapping[str, Floats]) -> None:
        """See the others' features for the records `rows`: their sum, and in a plain run each party's own `apart`."""

    def answered(self, step: int, rows: Array, update: Floats) -> None:
        """Remember what the others' encoders were told to change by, columnsᵀ · update."""

    def saw_apart(self, rows: Array, apart: Mapping[str, Floats]) -> None:
        """See each other party's features for the held-out records `rows`, once, when the graph is found."""

    def judged(self, step: int, incoming: Mapping[str, Factors], restrict: bool) -> None:
        """Hear the coordinator's factors for the edges from each peer; to `restrict` keeps edges out from now on."""


CuriousCoordinator = Callable[[int, Floats, Floats], None]
"""Looks at what the coordinator sees: the exchanges so far, all edge strengths, the factors it answers with."""
