"""Colours that people with any kind of colour vision can tell apart (Okabe and Ito), and marks beside them."""

from __future__ import annotations

from collections.abc import Iterable

# Not its yellow: on white it can't be read.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
UNKNOWN = "#5f6b76"
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "5px 2px")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "x")


def coloured(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name, by its place in the order.

    >>> coloured(["clinic", "lab"])
    {'clinic': '#0072b2', 'lab': '#d55e00'}
    """
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(dict.fromkeys(names))}
