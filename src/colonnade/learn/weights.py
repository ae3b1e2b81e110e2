"""How much each party's part of the task counts: the weights q_k that its gradient is multiplied with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.federation.task import WeightSettings
from colonnade.measure.shapley import Worth, shapley, weights

NOTHING_YET = 0.01
"""Where all parties together lower the loss by less than this, nothing can be divided: weights stay as they are."""


class Weights:
    """The weights of all parties that upload; part of the active party's checkpoint.

    Args:
        settings: how they are found.
        parties: who uploads.
    """

    def __init__(self, settings: WeightSettings, parties: Sequence[str]) -> None:
        self.settings = settings
        even = 1.0 if settings.strategy == "none" else 1 / len(parties)
        self.current = dict.fromkeys(parties, even)

    def look(self, step: int, worth: Worth) -> None:
        """At every so many steps, weigh the parties anew by what coalitions of them achieve (Section 4.3).

        Args:
            step: of the run; also seeds the sampled orders where parties are many.
            worth: what the uploads of some parties alone achieve, in the value of the task: minus the loss.
        """
        if self.settings.strategy != "shapley" or step % self.settings.every:
            return
        shares = shapley(worth, list(self.current), seed=step)
        if shares.total < NOTHING_YET:
            return
        kept = self.settings.smoothing
        found = weights(shares, self.settings.floor)
        self.current = {party: kept * self.current[party] + (1 - kept) * found[party] for party in self.current}

    def state(self) -> dict[str, Any]:
        """Return the weights, as JSON has them."""
        return dict(self.current)

    def load(self, state: Mapping[str, float]) -> None:
        """Restore what `state` returned."""
        self.current = {party: float(state[party]) for party in self.current}
