"""How much each party's part of the task counts: the weights q_k that its gradient is multiplied with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

from colonnade.federation.task import WeightSettings
from colonnade.measure.shapley import Worth, shapley, weights

NOTHING_YET = 0.01
"""Where all parties together lower the loss by less than this, nothing can be divided: weights stay as they are."""

ROUGH = 0.02
"""Where parties are so many that their values are sampled, a look may err by this part of the whole: the next looks
and `smoothing` even it out, and each costs a pass of the top model for hundreds of coalitions."""
MOST_LOOKS = 256
"""At most so many looks of a run are kept, evenly spread: no curve needs more, and every checkpoint holds them."""


class Look(TypedDict):
    """The weights from `step` on."""

    step: int
    weights: dict[str, float]


class Weights:
    """The weights of all parties that upload; part of the active party's checkpoint.

    Args:
        settings: how they are found.
        parties: who uploads.
        steps: of the whole run; where they hold more than `MOST_LOOKS` looks, only some are kept.

    Attributes:
        current: the weights of now.
        looks: what looks at them found, as JSON has it.
    """

    def __init__(self, settings: WeightSettings, parties: Sequence[str], steps: int = 0) -> None:
        self.settings = settings
        self._floor = min(0.05, 0.5 / len(parties)) if settings.floor is None else settings.floor
        even = 1.0 if settings.strategy == "none" else 1 / len(parties)
        self.current = dict.fromkeys(parties, even)
        self.looks: list[Look] = []
        self._kept_every = settings.every * max(1, math.ceil(steps / settings.every / MOST_LOOKS))

    def look(self, step: int, worth: Worth) -> Look | None:
        """At every so many steps, weigh the parties anew by what coalitions of them achieve (Section 4.3).

        Args:
            step: of the run; also seeds the sampled orders where parties are many.
            worth: what the uploads of some parties alone achieve, in the value of the task: minus the loss.

        Returns:
            What is kept of this look; None where there was none, or where looks are so many that this one is not kept.
        """
        if self.settings.strategy != "shapley" or step % self.settings.every:
            return None
        shares = shapley(worth, list(self.current), tolerance=ROUGH, seed=step)
        if shares.total >= NOTHING_YET:
            kept = self.settings.smoothing
            found = weights(shares, self._floor)
            self.current = {party: kept * self.current[party] + (1 - kept) * found[party] for party in self.current}
        if step % self._kept_every:
            return None
        self.looks.append({"step": step, "weights": self.current})
        return self.looks[-1]

    def load(self, current: Mapping[str, float], looks: Sequence[Look]) -> None:
        """Restore what a checkpoint holds."""
        self.current = {party: float(current[party]) for party in self.current}
        self.looks = list(looks)
