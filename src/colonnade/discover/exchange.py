"""Encoders between one party and the others, and how features, gradients and scalings pass between them.

W from the columns of a source party to the hidden units of a target party's variables is a matrix, (columns,
variables · hidden). A party is a source for every other and a target of every other; its own W, from its columns to its
variables, never leaves it and is no matter of this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from colonnade.checkpoint import named, under
from colonnade.discover.agreement import Conversation, DiscoveryAgreement
from colonnade.discover.noise import gaussian
from colonnade.errors import FrameError
from colonnade.wire.message import Array, Message

Number = TypeVar("Number", np.float64, np.int64)
Floats = npt.NDArray[np.float64]
Factors = npt.NDArray[np.int64]
"""Scalings of edges in units of 2^-20, [cause, effect]."""
FACTOR_BITS = 20
METRIC_UNIT = 16.0
"""Metrics are told in this unit: of a variable with little noise, an edge may be worth far more than the ring holds."""


@dataclass(frozen=True)
class Layout:
    """How many encoded columns each variable of a party has: all that other parties must know about its table."""

    widths: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Encoded columns."""
        return sum(self.widths)

    @property
    def variables(self) -> int:
        """Variables."""
        return len(self.widths)

    def squared_strengths(self, weights: Floats, hidden: int) -> Floats:
        """Return B² of the edges from this party's variables: the squared norm over columns and hidden units."""
        squares = np.square(weights.reshape(self.columns, -1, hidden)).sum(axis=2)
        starts = np.cumsum([0, *self.widths[:-1]])
        total: Floats = np.add.reduceat(squares, starts, axis=0)
        return total

    def spread(self, factors: npt.NDArray[Number], hidden: int) -> npt.NDArray[Number]:
        """Return one factor per weight from one per edge."""
        return np.repeat(np.repeat(factors, self.widths, axis=0), hidden, axis=1)


class Exchange(ABC):
    """One party's encoders to and from all others.

    Args:
        conversation: with the others.
        agreement: what was agreed on.
        layouts: every party's layout.
        blocks: this party's encoded columns, one matrix for each block of records.
    """

    def __init__(
        self,
        conversation: Conversation,
        agreement: DiscoveryAgreement,
        layouts: Mapping[str, Layout],
        blocks: Sequence[Floats],
    ) -> None:
        self.conversation, self.agreement, self.layouts, self.blocks = conversation, agreement, layouts, blocks
        self.name = conversation.channel.name
        self.peers = agreement.peers(self.name)
        self.own, self.hidden = layouts[self.name], agreement.settings.hidden
        self.units = self.own.variables * self.hidden
        self.apart: dict[str, Floats] = {}
        """What was last seen of each peer's features alone; in a secure run nothing."""

    def units_of(self, peer: str) -> int:
        """Hidden units of all of a peer's variables."""
        return self.layouts[peer].variables * self.hidden

    @property
    def noise_deviation(self) -> float:
        """Of this party's part of the noise on features, so that all parts together have the agreed deviation."""
        return float(self.agreement.settings.feature_noise / np.sqrt(max(len(self.peers), 1)))

    @abstractmethod
    def open(self, weights: Mapping[str, Floats]) -> None:
        """Start from these weights of the encoders to each peer."""

    @abstractmethod
    def forward(self, block: int) -> Floats:
        """Return the sum of all others' features for this party's variables: (records, variables · hidden)."""

    @abstractmethod
    def forward_apart(self, block: int) -> dict[str, Floats]:
        """Return each other party's features by itself: what `forward` adds up. Each carries all the agreed noise."""

    @abstractmethod
    def backward(self, block: int, update: Floats) -> None:
        """Subtract columnsᵀ · update from the encoders to this party, and let the others do so with theirs."""

    @abstractmethod
    def squared_strengths(self, metric: Floats | None = None) -> dict[str, Array]:
        """Return what tells the coordinator, and nobody else, B² of all edges to and from other parties.

        Args:
            metric: (variables, hidden, hidden), to measure the weights of an edge into this party's variable j as
                ‖metric[j]ᵀ w‖ instead of ‖w‖; every party gives one or none does.
        """

    @abstractmethod
    def scale(self, incoming: Mapping[str, Factors], outgoing: Mapping[str, Factors]) -> None:
        """Scale the weights of edges from and to each peer."""

    @abstractmethod
    def restrict(self, incoming: Mapping[str, Factors], outgoing: Mapping[str, Factors]) -> None:
        """Keep weights of edges whose factor is 0 at zero from now on; the other factors do not matter."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """Return everything that a resumed run needs."""

    @abstractmethod
    def load(self, state: Mapping[str, Array]) -> None:
        """Restore what `state` returned."""

    @property
    def hidden_by(self) -> float | None:
        """How many statistical bits hide this party's fragments and gradients so far; None where nothing hides them."""
        return None

    def close(self) -> None:  # noqa: B027
        """Let go of whatever was opened."""


class PlainExchange(Exchange):
    """Features and gradients in the clear: what the others see is all there is to see. For simulations and research."""

    def open(self, weights: Mapping[str, Floats]) -> None:  # noqa: D102
        self.weights = {peer: weights[peer].copy() for peer in self.peers}
        self._kept: dict[str, Array] = {}

    def forward(self, block: int) -> Floats:  # noqa: D102
        self.apart = self._swap(block, self.noise_deviation)
        total = np.zeros((len(self.blocks[block]), self.units))
        for peer in self.peers:
            total += self.apart[peer]
        return total

    def forward_apart(self, block: int) -> dict[str, Floats]:  # noqa: D102
        return self._swap(block, self.agreement.settings.feature_noise)

    def backward(self, block: int, update: Floats) -> None:  # noqa: D102
        columns = self.blocks[block]
        for peer in self.peers:
            self.conversation.send(peer, "gradient", {"gradient": update})
        for peer in self.peers:
            theirs = matrix(self.conversation.recv(peer, "gradient"), "gradient", (len(columns), self.units_of(peer)))
            self.weights[peer] -= columns.T @ theirs
        self._forget()

    def squared_strengths(self, metric: Floats | None = None) -> dict[str, Array]:  # noqa: D102
        metrics = exchange_metrics(self, metric)
        return {
            f"to/{peer}": self.own.squared_strengths(measured(self.weights[peer], metrics.get(peer)), self.hidden)
            for peer in self.peers
        }

    def scale(self, incoming: Mapping[str, Factors], outgoing: Mapping[str, Factors]) -> None:  # noqa: D102
        for peer, factors in outgoing.items():
            self.weights[peer] *= np.ldexp(self.own.spread(factors, self.hidden).astype(np.float64), -FACTOR_BITS)

    def restrict(self, incoming: Mapping[str, Factors], outgoing: Mapping[str, Factors]) -> None:  # noqa: D102
        self._kept = {peer: self.own.spread(factors, self.hidden) > 0 for peer, factors in outgoing.items()}
        self._forget()

    def state(self) -> dict[str, Array]:  # noqa: D102
        return named("to", self.weights) | named("kept", self._kept)

    def load(self, state: Mapping[str, Array]) -> None:  # noqa: D102
        self.weights, self._kept = under("to", state), under("kept", state)

    def _swap(self, block: int, noise: float) -> dict[str, Floats]:
        """Send features to all, with noise of this deviation; return theirs."""
        columns = self.blocks[block]
        for peer in self.peers:
            feature = columns @ self.weights[peer]
            if noise:
                feature += gaussian(feature.shape, noise)
            self.conversation.send(peer, "feature", {"feature": feature})
        shape = len(columns), self.units
        return {peer: matrix(self.conversation.recv(peer, "feature"), "feature", shape) for peer in self.peers}

    def _forget(self) -> None:
        for peer, kept in self._kept.items():
            self.weights[peer][~kept] = 0.0


def exchange_metrics(exchange: Exchange, metric: Floats | None) -> dict[str, Floats]:
    """Tell the others the metric of this party's hidden units, and take theirs."""
    if metric is None:
        return {}
    for peer in exchange.peers:
        exchange.conversation.send(peer, "metric", {"metric": metric})
    hidden, found = exchange.hidden, {}
    for peer in exchange.peers:
        shape = (exchange.layouts[peer].variables, hidden, hidden)
        found[peer] = matrix(exchange.conversation.recv(peer, "metric"), "metric", shape)
    return found


def measured(weights: Floats, metric: Floats | None) -> Floats:
    """Return weights mapped so that their norm is the one that `metric` asks for."""
    if metric is None:
        return weights
    units = weights.reshape(len(weights), *metric.shape[:2])
    mapped: Floats = np.einsum("pjh,jhm->pjm", units, metric).reshape(weights.shape)
    return mapped


def matrix(message: Message, name: str, shape: tuple[int, ...]) -> Floats:
    """Return the one tensor of a message, if it is what was due."""
    tensor = message.arrays.get(name)
    if tensor is None or tensor.dtype != np.float64 or tensor.shape != shape:
        raise FrameError(f"'{message.kind}' does not hold float64 numbers of shape {shape}", where=message.sender)
    if not np.isfinite(tensor).all():
        raise FrameError(f"'{message.kind}' holds a number that is not finite", where=message.sender)
    return tensor
