"""Attacks: each turns what a curious party saw into a guess. One file an attack."""

from colonnade.attack.base import Attack, Strength, run_attack
from colonnade.attack.decoder import Decoder
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.attack.registry import ATTACKS, make_attack

__all__ = ["ATTACKS", "Attack", "Decoder", "Evidence", "Knowledge", "Strength", "make_attack", "run_attack"]
