"""Who takes part: the federation file, the party file, and what is checked before anything is sent."""

from colonnade.federation.check import check
from colonnade.federation.files import FederationFile, PartyFile, federation_digest, read_federation, read_party
from colonnade.federation.problems import Problem, ProblemsError
from colonnade.federation.task import Task

__all__ = [
    "FederationFile",
    "PartyFile",
    "Problem",
    "ProblemsError",
    "Task",
    "check",
    "federation_digest",
    "read_federation",
    "read_party",
]
