"""Attacks by name; other packages add theirs through the entry-point group `colonnade.attacks`."""

from __future__ import annotations

from typing import Any

from colonnade.attack.base import Attack
from colonnade.registry import Registry
from colonnade.strength import make

ATTACKS: Registry[type[Attack]] = Registry("attack", "colonnade.attacks")


def make_attack(chosen: str | Attack, **parameters: Any) -> Attack:
    """Return the attack that `chosen` names, made with `parameters`; a ready-made attack is returned as it is.

    >>> make_attack("decoder", epochs=5).strength
    'oracle'
    """
    return make(ATTACKS, Attack, chosen, parameters)
