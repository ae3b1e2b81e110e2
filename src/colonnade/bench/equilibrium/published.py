"""What the equilibrium paper reports. It gives no tables: these are the ends of its figures' axes."""

from __future__ import annotations

from typing import NamedTuple


class Axes(NamedTuple):
    """Between which values the points of a figure lie; None where the paper shows none."""

    target: tuple[float, float] | None = None
    leak: tuple[float, float] | None = None


AXES = {
    "modalities": Axes((0.40, 0.70), (0.42, 0.62)),
    "hospital": Axes((0.24, 0.38), (0.32, 0.55)),
    "faces": Axes((0.55, 0.85), (0.50, 0.80)),
}
"""By kind of data: IEMOCAP (weighted F1, F1), MIMIC-III (F1, F1), CelebA (accuracy, accuracy)."""

STEP_RATIOS = (1.19, 1.44)
"""Compute of two variants of the published method, as multiples of standard training; which is which is not said."""

WEIGHTS = (0.3, 0.7)
"""Between these the two parties' weights move."""

MEASURED = (
    "published: no tables, only figures; published_target and published_leak are the ends of their axes, F1 of the "
    "published data (faces: accuracy), to be read beside target_f1 and leak_f1; there the leak is that of the "
    "defender's own head, averaged over clients, here that of the best of fresh attackers on all uploads together, "
    "unless a row names a client"
)


def shown(ends: tuple[float, float] | None) -> str | None:
    """Return the ends of an axis as people write them.

    >>> shown((0.4, 0.7))
    '0.40 to 0.70'
    """
    return None if ends is None else f"{ends[0]:.2f} to {ends[1]:.2f}"
