"""Attacks: each turns what a curious party saw into a guess. One file an attack."""

from colonnade.attack.base import Attack, Strength, run_attack
from colonnade.attack.decoder import Decoder
from colonnade.attack.discovery import DISCOVERY_ATTACKS, make_discovery_attack
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.attack.insider import Insider
from colonnade.attack.registry import ATTACKS, make_attack

__all__ = [
    "ATTACKS",
    "DISCOVERY_ATTACKS",
    "Attack",
    "Decoder",
    "Evidence",
    "Insider",
    "Knowledge",
    "Strength",
    "make_attack",
    "make_discovery_attack",
    "run_attack",
]
