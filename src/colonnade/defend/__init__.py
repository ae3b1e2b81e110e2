"""Defenses: each turns a representation into an upload. One file a defense."""

from colonnade.defend.base import Defense, PrivacySpend
from colonnade.defend.bottleneck import Bottleneck
from colonnade.defend.causshield import CausShield
from colonnade.defend.d3sfl import D3SFL
from colonnade.defend.disco import Disco
from colonnade.defend.dp_gaussian import GaussianPrivacy
from colonnade.defend.dp_laplace import LaplacePrivacy
from colonnade.defend.fedpass import FedPass
from colonnade.defend.gaussian import Gaussian
from colonnade.defend.hashvfl import HashVFL
from colonnade.defend.inf2guard import Inf2Guard
from colonnade.defend.invl_dnp import InvLDNP
from colonnade.defend.invl_enp import InvLENP
from colonnade.defend.keystone import Keystone
from colonnade.defend.layered import Layered
from colonnade.defend.nashcoder import NashCoder
from colonnade.defend.none import NoDefense
from colonnade.defend.nopeek import NoPeek
from colonnade.defend.prifu import PriFU
from colonnade.defend.prune import Prune
from colonnade.defend.quantise import Quantise
from colonnade.defend.registry import DEFENSES, make_defense
from colonnade.defend.ressfl import ResSFL
from colonnade.defend.soteria import Soteria
from colonnade.defend.top_k import TopK

__all__ = [
    "D3SFL",
    "DEFENSES",
    "Bottleneck",
    "CausShield",
    "Defense",
    "Disco",
    "FedPass",
    "Gaussian",
    "GaussianPrivacy",
    "HashVFL",
    "Inf2Guard",
    "InvLDNP",
    "InvLENP",
    "Keystone",
    "LaplacePrivacy",
    "Layered",
    "NashCoder",
    "NoDefense",
    "NoPeek",
    "PriFU",
    "PrivacySpend",
    "Prune",
    "Quantise",
    "ResSFL",
    "Soteria",
    "TopK",
    "make_defense",
]
