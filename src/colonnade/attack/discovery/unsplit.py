"""As published (Appendix H): guess encoders and data until together they explain the features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from colonnade.attack.discovery.base import DISCOVERY_ATTACKS, DiscoveryAttack, Guess
from colonnade.attack.discovery.evidence import DiscoveryEvidence, Rows, Visit
from colonnade.discover.exchange import Floats, Layout
from colonnade.strength import number


@DISCOVERY_ATTACKS.register("unsplit")
class UnSplit(DiscoveryAttack):
    """UnSplit for discovery: auxiliary encoders and data, fitted to the features by Adam; the restart of least loss.

    If the coordinator is an accomplice, every auxiliary edge is held at its known strength (Appendix H.4).

    Args:
        rounds: visits to each record that are explained at once, the last of the search for the graph.
        restarts: how often to begin anew.
        steps: of Adam.
        learning_rate: of Adam.
    """

    name: ClassVar[str] = "unsplit"
    strength: ClassVar = "published"

    def __init__(self, rounds: int = 4, restarts: int = 3, steps: int = 400, learning_rate: float = 0.03) -> None:
        super().__init__()
        self.rounds = int(number("unsplit.rounds", rounds, at_least=1, whole=True))
        self.restarts = int(number("unsplit.restarts", restarts, at_least=1, whole=True))
        self.steps = int(number("unsplit.steps", steps, at_least=1, whole=True))
        self.learning_rate = number("unsplit.learning_rate", learning_rate, at_least=0)

    def guess(self, evidence: DiscoveryEvidence) -> Guess:
        """Return the auxiliary data."""
        rows, rounds = last_rounds(evidence, self.rounds)
        strengths = evidence.strengths[-1].values if evidence.strengths else None
        found = [self._fit(np.hstack(rounds), evidence, strengths) for _ in range(self.restarts)]
        return Guess(rows, min(found, key=lambda one: one[1])[0])

    def _fit(self, features: Floats, evidence: DiscoveryEvidence, strengths: Floats | None) -> tuple[Floats, float]:
        layout, hidden = Layout(evidence.widths), evidence.settings.hidden
        data = self.random.normal(size=(len(features), evidence.foreign))
        encoder = self.random.normal(0, 0.1, (evidence.foreign, features.shape[1]))
        optimizer = Adam([data, encoder], self.learning_rate)
        error = features
        for _ in range(self.steps):
            if strengths is not None:
                encoder *= layout.spread(_towards(layout, encoder, strengths, hidden), hidden)
            error = data @ encoder - features
            optimizer.step([error @ encoder.T, data.T @ error / len(features)])
        return data, float(np.square(error).mean())


class Adam:
    """Adam on arrays, in place."""

    def __init__(self, parameters: list[Floats], learning_rate: float) -> None:
        self._parameters, self._rate, self._count = parameters, learning_rate, 0
        self._first = [np.zeros_like(parameter) for parameter in parameters]
        self._second = [np.zeros_like(parameter) for parameter in parameters]

    def step(self, gradients: list[Floats]) -> None:
        """Move against the gradients."""
        self._count += 1
        for parameter, gradient, first, second in zip(
            self._parameters, gradients, self._first, self._second, strict=True
        ):
            first += 0.1 * (gradient - first)
            second += 0.001 * (np.square(gradient) - second)
            corrected = np.sqrt(second / (1 - 0.999**self._count)) + 1e-8
            parameter -= self._rate * first / (1 - 0.9**self._count) / corrected


def last_rounds(evidence: DiscoveryEvidence, rounds: int) -> tuple[Rows, list[Floats]]:
    """Return all records and, for each of the last rounds of the search for the graph, their features."""
    visits: dict[int, list[Visit]] = {block: [] for block in evidence.blocks}
    for visit in evidence.visits:
        if visit.step < evidence.settled:
            visits[int(visit.rows[0])].append(visit)
    rounds = min(rounds, *(len(seen) for seen in visits.values()))
    found = [np.vstack([seen[-back].features for seen in visits.values()]) for back in range(1, rounds + 1)]
    return np.concatenate(list(evidence.blocks.values())), found


def _towards(layout: Layout, encoder: Floats, strengths: Floats, hidden: int) -> Floats:
    """Return what each auxiliary edge, in every round, is to be scaled by."""
    now = np.sqrt(layout.squared_strengths(encoder, hidden))
    return np.tile(strengths, (1, now.shape[1] // strengths.shape[1])) / np.maximum(now, 1e-12)
