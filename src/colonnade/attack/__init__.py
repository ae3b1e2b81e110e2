"""Attacks: each turns what a curious party saw into a guess. One file an attack."""

from colonnade.attack.base import Attack, Strength, run_attack
from colonnade.attack.decoder import Decoder
from colonnade.attack.discovery import DISCOVERY_ATTACKS, make_discovery_attack
from colonnade.attack.evidence import Evidence, Knowledge
from colonnade.attack.fsha import Fsha
from colonnade.attack.insider import Insider
from colonnade.attack.pcat import Pcat
from colonnade.attack.registry import ATTACKS, make_attack
from colonnade.attack.ridge import Ridge
from colonnade.attack.sdar import Sdar
from colonnade.attack.unsplit import UnSplit
from colonnade.attack.urvfl import Urvfl
from colonnade.attack.witness import Witness

__all__ = [
    "ATTACKS",
    "DISCOVERY_ATTACKS",
    "Attack",
    "Decoder",
    "Evidence",
    "Fsha",
    "Insider",
    "Knowledge",
    "Pcat",
    "Ridge",
    "Sdar",
    "Strength",
    "UnSplit",
    "Urvfl",
    "Witness",
    "make_attack",
    "make_discovery_attack",
    "run_attack",
]
