"""How large everybody's table is, as others say: checked before memory is taken for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.discover.exchange import Layout
from colonnade.errors import FrameError
from colonnade.wire.message import Message

_REMEDY = "run the same version of Colonnade everywhere"


def layouts_of_plan(
    plan: Message, parties: Sequence[str], own: tuple[str, Sequence[int]], records: int
) -> dict[str, Layout]:
    """Return every party's layout as the coordinator says.

    Args:
        plan: the coordinator's message.
        parties: in order.
        own: this party's name and the widths of its variables, which it knows itself.
        records: that are learned from; the coordinator refuses tables that have as many columns.

    Raises:
        FrameError: the sizes cannot be.
    """
    told, (name, mine) = plan.meta.get("widths"), own
    if not isinstance(told, Mapping) or set(told) != set(parties):
        raise _refusal(plan, "does not hold the sizes of all parties")
    layouts = {party: Layout(_widths(plan, told[party])) for party in parties}
    if layouts[name].widths != tuple(mine):
        raise _refusal(plan, f"gives '{name}' other columns than it has")
    if sum(layout.columns for layout in layouts.values()) >= records:
        raise _refusal(plan, f"speaks of more columns than can be learned from {records} records")
    return layouts


def layout_of_greeting(greeting: Message) -> Layout:
    """Return the layout of the party that sent this greeting; FrameError if its parts do not fit each other."""
    layout, names = Layout(_widths(greeting, greeting.meta.get("widths"))), greeting.meta.get("names")
    variances = greeting.arrays.get("variances")
    if not isinstance(names, list) or len(names) != layout.variables:
        raise _refusal(greeting, "does not name each of its variables once")
    if variances is None or variances.shape != (layout.variables,):
        raise _refusal(greeting, "does not hold one variance for each variable")
    return layout


def _widths(message: Message, found: Any) -> tuple[int, ...]:
    if not isinstance(found, list) or not found or not all(type(width) is int and width > 0 for width in found):
        raise _refusal(message, "holds widths that are no numbers of columns")
    return tuple(found)


def _refusal(message: Message, what: str) -> FrameError:
    return FrameError(f"'{message.kind}' {what}", where=message.sender, remedy=_REMEDY)
