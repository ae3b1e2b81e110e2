"""The topology validator: from edge strengths alone, how much every edge is scaled down.

One mechanism, a factor in [0, 1] an edge, does group sparsity, acyclicity, prior knowledge and pruning. The spectral
radius of the edge strengths is 0 exactly for acyclic graphs; its gradient is the outer product of the left and right
dominant vectors, found by power iteration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from colonnade.discover.variables import Array, Mask
from colonnade.errors import ConfigError, RunError

FIRST_ITERATIONS, NEXT_ITERATIONS = 15, 3
SHORT_STEP = 0.02
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
        sparsity: weight of the sum of edge strengths in the loss.
        growth: how much the weight of the spectral radius grows per unit of learning, while the graph has cycles.
        acyclic_threshold: edges above it make the graph that is looked at for cycles.
        required: edges that are never scaled.
        forbidden: edges that are always removed; self-loops are.
    """

    def __init__(
        self,
        d: int,
        *,
        sparsity: float,
        growth: float,
        acyclic_threshold: float = 0.1,
        required: Mask | None = None,
        forbidden: Mask | None = None,
    ) -> None:
        self._sparsity, self._growth, self._threshold = sparsity, growth, acyclic_threshold
        self._required, self._forbidden = _masks(d, required, forbidden)
        self._left = self._right = np.full(d, 1 / np.sqrt(d))
        self.weight = 0.0
        """Weight of the spectral radius in the loss now."""

    def judge(self, B: Array, learned: float) -> Verdict:
        """Return the verdict on edge strengths (d, d).

        Args:
            B: edge strengths.
            learned: the learning rates of all steps since the last verdict, added up.
        """
        B = self._checked(B)
        graph = np.greater(B, self._threshold)
        acyclic = is_acyclic(graph)
        if not acyclic:
            self.weight += self._growth * learned
        shrunk, rho = B, 0.0
        # The gradient changes as edges shrink, so a long way is gone in short steps.
        steps = max(math.ceil(learned / SHORT_STEP), 1)
        for step in range(steps):
            rho_now, gradient, self._left, self._right = spectral(
                shrunk, self._left, self._right, FIRST_ITERATIONS if step == 0 else NEXT_ITERATIONS
            )
            rho = rho_now if step == 0 else rho
            shrunk = np.maximum(shrunk - learned / steps * (self._sparsity + self.weight * gradient), 0.0)
        return Verdict(self._factors(B, shrunk), rho, acyclic, int(graph.sum()))

    def shrink(self, B: Array, learned: float, sparsity: float) -> Verdict:
        """Return the verdict where the graph is settled: sparsity alone."""
        B = self._checked(B)
        graph = np.greater(B, self._threshold)
        return Verdict(
            self._factors(B, np.maximum(B - learned * sparsity, 0.0)), 0.0, is_acyclic(graph), int(graph.sum())
        )

    def _checked(self, B: Array) -> Array:
        if not np.isfinite(B).all():
            what, remedy = "edge strengths are no longer finite", "lower the learning rate"
            raise RunError(what, where="validator", remedy=remedy, told=True)
        return np.where(self._forbidden, 0.0, np.maximum(B, 0.0))

    def _factors(self, before: Array, after: Array) -> Array:
        """Return what takes edges from one strength to the other (proximal: an edge that would cross 0 stops there)."""
        factors = np.divide(after, before, out=np.zeros_like(before), where=before > 0)
        factors[self._required] = 1.0
        return factors

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
