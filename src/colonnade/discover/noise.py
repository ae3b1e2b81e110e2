"""Noise that nobody can take off again, and what it is worth in differential privacy.

All of it comes from the system's secure randomness: noise that could be computed again could be subtracted again.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from colonnade.secure.norms import NormScale
from colonnade.secure.ring import random_words
from colonnade.wire.message import Array

Floats = npt.NDArray[np.float64]
DELTA = 1e-5


def gaussian(shape: tuple[int, ...], deviation: float) -> Floats:
    """Return normal noise."""
    return deviation * np.asarray(ndtri(_uniform(shape)), np.float64)


def laplace(shape: tuple[int, ...], scale: float) -> Floats:
    """Return Laplace noise of density exp(-|x| / scale) / (2 · scale)."""
    centred = _uniform(shape) - 0.5
    noise: Floats = -scale * np.sign(centred) * np.log1p(-2 * np.abs(centred))
    return noise


def with_laplace(squares: Array, scale: float) -> Array:
    """Add Laplace noise to squared edge strengths: to numbers, or to one party's shares of them."""
    if squares.dtype != np.uint64:
        return squares + laplace(squares.shape, scale)
    # Two parties hold shares and both add noise: 1/√2 each keeps its size (Appendix H.6 with K = 2), and either one's
    # noise is left if the other tells the coordinator its own.
    form = NormScale()
    whole = np.rint(np.ldexp(laplace(squares.shape, scale / math.sqrt(2)), 2 * form.kept)).astype(np.int64)
    return squares + whole.view(np.uint64) & form.mask


def strength_spend(epsilon: float, looks: int, edges: int, shared: bool) -> float:
    """Return ε at δ = 1e-5 of all looks at all edges, against a coordinator who knows one of two parties' noise.

    Every edge has noise of its own, of the size that hides one number; one record may move all of them. So each edge
    of each look is an event. The sensitivity of a squared strength is taken to be 1, as the published analysis does for
    strengths; nobody has shown that one record changes it by no more.
    """
    from dp_accounting import LaplaceDpEvent
    from dp_accounting.rdp import RdpAccountant

    each, numbers = epsilon * (math.sqrt(2) if shared else 1.0), looks * edges
    accountant = RdpAccountant()  # an upper bound, but for any number of events: others' grids fill a memory
    accountant.compose(LaplaceDpEvent(1 / each), numbers)
    return min(float(accountant.get_epsilon(DELTA)), each * numbers)


def feature_spend(deviation: float, sensitivity: float, exchanges: int) -> float:
    """Return ε at δ = 1e-5 for one record's features, seen in so many exchanges, against its target party.

    Args:
        deviation: of the noise on each feature.
        sensitivity: the largest distance between two records' features.
        exchanges: how often each record comes by.
    """
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(GaussianDpEvent(deviation / sensitivity), exchanges)
    return float(accountant.get_epsilon(DELTA))


def _uniform(shape: tuple[int, ...]) -> Floats:
    words = random_words(int(np.prod(shape)), 53).astype(np.float64)
    uniform: Floats = ((words + 0.5) * 2.0**-53).reshape(shape)
    return uniform
