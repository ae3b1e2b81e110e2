"""Strengths that are shares of a whole."""

from __future__ import annotations

from typing import Any

from colonnade.errors import ConfigError
from colonnade.strength import number


def share(where: str, value: Any) -> float:
    """Return `value` if it is a number from 0 to 1, else say what is wrong with it.

    >>> share("prune.rate", 0.9)
    0.9
    """
    if number(where, value, at_least=0) > 1:
        raise ConfigError(f"{value!r} is not allowed", where=where, remedy="give a number from 0 to 1")
    return float(value)
