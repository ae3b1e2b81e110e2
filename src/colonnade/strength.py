"""Names and numbers that a person gives to choose a defense or an attack, checked before anything runs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from colonnade.errors import ConfigError, nearest
from colonnade.registry import Registry

T = TypeVar("T")


def make(registry: Registry[type[T]], base: type[T], chosen: str | T, parameters: Mapping[str, Any]) -> T:
    """Return the thing that `chosen` names in `registry`, made with `parameters`; an instance is returned as it is."""
    if not isinstance(chosen, str):
        if parameters:
            remedy = "give them where it is made"
            raise ConfigError("a ready-made object takes no further parameters", where=repr(chosen), remedy=remedy)
        return chosen
    entry = registry[chosen]
    if not (isinstance(entry, type) and issubclass(entry, base)):
        remedy = f"derive it from colonnade's {base.__name__}"
        raise ConfigError(f"it is registered but is no {base.__name__}", where=chosen, remedy=remedy)
    known = [name for name in inspect.signature(entry).parameters if name != "self"]
    for name in parameters:
        if name not in known:
            takes, near = f"it takes {', '.join(known) or 'none'}", nearest(name, known)
            remedy = f"{takes}; {near}" if near.endswith("?") else takes
            raise ConfigError(f"unknown parameter '{name}'", where=chosen, remedy=remedy)
    missing = [name for name in _required(entry) if name not in parameters]
    if missing:
        raise ConfigError(f"parameter '{missing[0]}' is missing", where=chosen, remedy="give it a value")
    return entry(**parameters)


def number(where: str, value: Any, *, at_least: float = -math.inf, whole: bool = False) -> float:
    """Return `value` if it is a finite number of at least `at_least`, else say what is wrong with it.

    >>> number("sigma", 0.5, at_least=0)
    0.5
    """
    kind = "whole number" if whole else "number"
    right_type = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not right_type or not -math.inf < value < math.inf or value < at_least:
        limit = f" of at least {at_least:g}" if math.isfinite(at_least) else ""
        raise ConfigError(f"{value!r} is not allowed", where=where, remedy=f"give a {kind}{limit}")
    return value  # type: ignore[no-any-return]


def yes_or_no(where: str, value: Any) -> bool:
    """Return `value` if it is true or false, else say so: in a file, "no" may have become a text.

    >>> yes_or_no("memoise", False)
    False
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{value!r} is not allowed", where=where, remedy="give true or false")
    return value


def one_of(where: str, value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`, else say which may be meant; a file may hold a list or a number.

    >>> one_of("decoder.preset", "weak", ["weak", "strong"])
    'weak'
    """
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        what = where.rpartition(".")[2]
        raise ConfigError(f"unknown {what} {value!r}", where=where, remedy=nearest(str(value), known))
    return value


def _required(entry: type) -> list[str]:
    return [
        parameter.name
        for parameter in inspect.signature(entry).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
