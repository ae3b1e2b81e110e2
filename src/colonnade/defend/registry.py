"""Defenses by name; other packages add theirs through the entry-point group `colonnade.defenses`."""

from __future__ import annotations

from typing import Any

from colonnade.defend.base import Defense
from colonnade.registry import Registry
from colonnade.strength import make

DEFENSES: Registry[type[Defense]] = Registry("defense", "colonnade.defenses")


def make_defense(chosen: str | Defense, **strength: Any) -> Defense:
    """Return the defense that `chosen` names, of the given strength; a ready-made defense is returned as it is.

    >>> make_defense("gaussian", sigma=0.5).describe()
    {'name': 'gaussian', 'sigma': 0.5}
    """
    return make(DEFENSES, Defense, chosen, strength)
