"""Attribute inference: fresh attackers that learn afterwards to read a secret off uploads. One file a kind."""

from colonnade.attack.attribute.base import (
    ATTRIBUTE_ATTACKERS,
    FEWEST_PAIRS,
    MOST_PAIRS,
    AttributeAttacker,
    make_attribute_attacker,
)
from colonnade.attack.attribute.boosting import BoostingAttacker
from colonnade.attack.attribute.linear import LinearAttacker
from colonnade.attack.attribute.network import ConvAttacker, MlpAttacker

__all__ = [
    "ATTRIBUTE_ATTACKERS",
    "FEWEST_PAIRS",
    "MOST_PAIRS",
    "AttributeAttacker",
    "BoostingAttacker",
    "ConvAttacker",
    "LinearAttacker",
    "MlpAttacker",
    "make_attribute_attacker",
]
