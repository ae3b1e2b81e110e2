"""Attacks on causal discovery: each turns what curious roles saw into a guess of the victims' columns."""

from colonnade.attack.discovery.base import DISCOVERY_ATTACKS, DiscoveryAttack, Guess, make_discovery_attack
from colonnade.attack.discovery.coordinator import WithCoordinator
from colonnade.attack.discovery.evidence import DiscoveryEvidence, Look, Visit
from colonnade.attack.discovery.gram import Gram
from colonnade.attack.discovery.ica import ICA, Subspace
from colonnade.attack.discovery.judge import Leak, judge
from colonnade.attack.discovery.known_records import KnownRecords, OwnColumns
from colonnade.attack.discovery.observer import CoordinatorObserver, Observer, pool
from colonnade.attack.discovery.unsplit import UnSplit
from colonnade.attack.discovery.verdict import Verdict

__all__ = [
    "DISCOVERY_ATTACKS",
    "ICA",
    "CoordinatorObserver",
    "DiscoveryAttack",
    "DiscoveryEvidence",
    "Gram",
    "Guess",
    "KnownRecords",
    "Leak",
    "Look",
    "Observer",
    "OwnColumns",
    "Subspace",
    "UnSplit",
    "Verdict",
    "Visit",
    "WithCoordinator",
    "judge",
    "make_discovery_attack",
    "pool",
]
