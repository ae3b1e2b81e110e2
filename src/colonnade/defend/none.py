"""No defense: what every table needs as its first row."""

from __future__ import annotations

from colonnade.defend.base import Defense
from colonnade.defend.registry import DEFENSES


@DEFENSES.register("none")
class NoDefense(Defense):
    """No protection: the representation itself is uploaded."""
