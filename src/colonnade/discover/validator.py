"""The topology validator: from edge strengths alone, how much every edge is scaled down.

One mechanism, a factor in [0, 1] an edge, does group sparsity, acyclicity, prior knowledge and pruning. The spectral
radius of the edge strengths is 0 exactly for acyclic graphs; its gradient is the outer product of the left and right
dominant vectors, found by power iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.discover.variables import Array, Mask
from colonnade.errors import ConfigError, RunError

OFFSET = 1e-6
"""Added to every strength: a graph without cycles has no dominant vector of its own."""
SHIFT = 0.3
"""Share of the spectral radius that is added to the diagonal while iterating; it moves no vector."""


@dataclass(frozen=True)
class Verdict:
    """What the validator says of one round of edge strengths.

    Attributes:
        factors: (d, d) in [0, 1], what each edge's weights are multiplied by.
        rho: spectral radius of the strengths.
        acyclic: whether the graph of the edges above the threshold is acyclic.
        edges: how many edges are above the threshold.
    """

    factors: Array
    rho: float
    acyclic: bool
    edges: int


class Validator:
    """Judges edge strengths once every few steps of training.

    Args:
        d: number of variables.
        learning_rate: of the encoders; a factor undoes what so many steps of that rate would.
        sparsity: weight of the sum of edge strengths in the loss.
        growth: how much the weight of the spectral radius grows an epoch, while the graph has cycles.
        steps_per_epoch: steps that make an epoch.
        acyclic_threshold: edges above it make the graph that is looked at for cycles.
        required: edges that are never scaled.
        forbidden: edges that are always removed; self-loops are.
    """

    def __init__(
        self,
        d: int,
        *,
        learning_rate: float,
        sparsity: float,
        growth: float,
        steps_per_epoch: float,
        acyclic_threshold: float = 0.1,
        required: Mask | None = None,
        forbidden: Mask | None = None,
    ) -> None:
        self._rate, self._sparsity, self._growth = learning_rate, sparsity, growth
        self._steps_per_epoch, self._threshold = steps_per_epoch, acyclic_threshold
        self._required, self._forbidden = _masks(d, required, forbidden)
        self._left = self._right = np.full(d, 1 / np.sqrt(d))
        self.weight = 0.0
        """Weight of the spectral radius in the loss now."""

    def judge(self, B: Array, steps: int) -> Verdict:
        """Return the verdict on edge strengths (d, d) after so many steps since the last one."""
        if not np.isfinite(B).all():
            raise RunError("edge strengths are no longer finite", where="validator", remedy="lower the learning rate")
        B = np.where(self._forbidden, 0.0, np.maximum(B, 0.0))
        graph = np.greater(B, self._threshold)
        acyclic = is_acyclic(graph)
        if not acyclic:
            self.weight += self._growth * steps / self._steps_per_epoch
        rho, gradient, self._left, self._right = spectral(B, self._left, self._right)
        shrink = self._rate * steps * (self._sparsity + self.weight * gradient)
        # Proximal: an edge that would cross 0 stops there.
        factors = np.zeros_like(B)
        kept = (shrink < B) & ~self._forbidden
        factors[kept] = 1.0 - shrink[kept] / B[kept]
        factors[self._required] = 1.0
        return Verdict(factors, rho, acyclic, int(graph.sum()))

    def state(self) -> dict[str, Array]:
        """Return all that judging changes, for a checkpoint."""
        return {"left": self._left.copy(), "right": self._right.copy(), "weight": np.array([self.weight])}

    def load(self, state: Mapping[str, Array]) -> None:
        """Go back to a stored state; RunError when it is of another number of variables."""
        own = {name: value.shape for name, value in self.state().items()}
        if own != {name: np.shape(value) for name, value in state.items()}:
            raise RunError("the stored validator judged other variables", where="validator")
        self._left, self._right = np.array(state["left"], float), np.array(state["right"], float)
        self.weight = float(state["weight"][0])


def spectral(B: Array, u: Array, v: Array, iterations: int = 15) -> tuple[float, Array, Array, Array]:
    """Return the spectral radius, its gradient u vᵀ / (uᵀ v), and the left and right vectors for the next call."""
    A = B + OFFSET
    for _ in range(iterations):
        left, right = u @ A, A @ v
        # Without a shift the vectors of a graph whose cycles have one length go round and never settle.
        shift = SHIFT * (left @ v) / (u @ v)
        left, right = left + shift * u, right + shift * v
        u, v = left / np.sqrt(left @ left), right / np.sqrt(right @ right)
    overlap = float(u @ v)
    return float(u @ A @ v) / overlap, np.outer(u, v) / overlap, u, v


def is_acyclic(mask: Mask) -> bool:
    """Whether a graph [cause, effect] has no cycle."""
    return not cyclic_part(mask).size


def cyclic_part(mask: Mask) -> npt.NDArray[np.intp]:
    """Return the variables that lie on a cycle or between cycles; empty when there is none."""
    left = np.arange(len(mask))
    while left.size:
        within = mask[np.ix_(left, left)]
        kept = within.any(axis=0) & within.any(axis=1)
        if kept.all():
            break
        left = left[kept]
    return left


def greedy_acyclic(B: Array, least: float, required: Mask | None = None, forbidden: Mask | None = None) -> Mask:
    """Return an acyclic graph: required edges, then edges above `least`, strongest first, that close no cycle."""
    required, forbidden = _masks(len(B), required, forbidden)
    graph = required.copy()
    reach = reachable(required)
    candidates = np.flatnonzero(np.greater(B, least) & ~forbidden & ~required)
    order = candidates[np.argsort(-B.ravel()[candidates], kind="stable")]
    for cause, effect in zip(*(part.tolist() for part in np.unravel_index(order, B.shape)), strict=True):
        if reach[effect, cause]:
            continue
        graph[cause, effect] = True
        if not reach[cause, effect]:
            reach[reach[:, cause]] |= reach[effect]
    return graph


def reachable(graph: Mask) -> Mask:
    """Return which variables can be reached from which along the edges; each reaches itself."""
    reach = graph | np.eye(len(graph), dtype=bool)
    while True:
        further = (reach.astype(np.float32) @ reach.astype(np.float32)) > 0
        if (further == reach).all():
            return reach
        reach = further


def _masks(d: int, required: Mask | None, forbidden: Mask | None) -> tuple[Mask, Mask]:
    nothing = np.zeros((d, d), dtype=bool)
    required = nothing if required is None else required
    forbidden = (nothing if forbidden is None else forbidden) | np.eye(d, dtype=bool)
    if (required & forbidden).any() or not is_acyclic(required):
        raise ConfigError(
            "required edges are forbidden or form a cycle", where="knowledge", remedy="take one of them back"
        )
    return required, forbidden
