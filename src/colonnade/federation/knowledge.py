"""What people write down before the data speaks: edges that must or cannot be, and what kind a variable is."""

from __future__ import annotations

from typing import Literal

from colonnade.federation.task import Settings

Edge = tuple[str, str]
VariableKind = Literal["continuous", "binary", "count", "categorical"]


class Knowledge(Settings):
    """Prior knowledge in names of variables; each part is optional.

    Attributes:
        required: edges (cause, effect) that are in the graph.
        forbidden: edges (cause, effect) that are not.
        tiers: groups in the order of time: a later one never causes an earlier one. Variables in no tier are free.
        roots: variables without causes.
        sinks: variables without effects.
    """

    required: tuple[Edge, ...] = ()
    forbidden: tuple[Edge, ...] = ()
    tiers: tuple[tuple[str, ...], ...] = ()
    roots: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
