"""Defenses: each turns a representation into an upload. One file a defense."""

from colonnade.defend.base import Defense, PrivacySpend
from colonnade.defend.gaussian import Gaussian
from colonnade.defend.none import NoDefense
from colonnade.defend.registry import DEFENSES, make_defense

__all__ = ["DEFENSES", "Defense", "Gaussian", "NoDefense", "PrivacySpend", "make_defense"]
