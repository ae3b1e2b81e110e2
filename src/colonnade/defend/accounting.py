"""What released noise is worth in differential privacy, and how often each record was released."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping

import torch
from scipy.optimize import brentq
from torch import Tensor

from colonnade.defend.base import PrivacySpend

DELTA = 1e-5
# Of one Laplace release. Above it composing saves 3 % of the plain sum at most, and the accountant's grid fails.
LARGE_EPSILON = 20
# The accountant's usual grid, and how many points it may have: thirty thousand releases at ε = 10 would fill a memory.
FINE, MOST_POINTS = 1e-4, 1_000_000


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the least noise deviation, per unit of L2 sensitivity, that makes one release (ε, δ)-private.

    This is the exact condition, not the classic sqrt(2 ln(1.25/δ))/ε, which is too large below ε = 1 and not proven
    above it.

    >>> round(gaussian_multiplier(1.0, 1e-5), 2)
    3.73
    """
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    loss = GaussianPrivacyLoss.from_privacy_guarantee(DifferentialPrivacyParameters(epsilon, delta))
    return float(loss.standard_deviation)


def composed_epsilon(spend: PrivacySpend, delta: float = DELTA) -> float:
    """Return ε at `delta` of all releases of one record together.

    >>> round(composed_epsilon(PrivacySpend("gaussian", 3.73, 10), DELTA), 1)
    3.6
    """
    if spend.releases == 0:
        return 0.0
    if spend.mechanism == "gaussian":
        return _gaussian_epsilon(spend.noise_multiplier, spend.releases, delta)
    return _laplace_epsilon(spend.noise_multiplier, spend.releases, delta)


def _gaussian_epsilon(multiplier: float, releases: int, delta: float) -> float:
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    # k releases with noise s tell as much as one with noise s / sqrt(k): no numerical composition is needed.
    loss = GaussianPrivacyLoss(multiplier / math.sqrt(releases))

    def excess(epsilon: float) -> float:
        return float(loss.get_delta_for_epsilon(epsilon)) - delta

    if excess(0.0) <= 0:
        return 0.0
    upper = 1.0
    while excess(upper) > 0:
        upper *= 2
    return float(brentq(excess, 0.0, upper))


def _laplace_epsilon(multiplier: float, releases: int, delta: float) -> float:
    from dp_accounting import LaplaceDpEvent
    from dp_accounting.pld import PLDAccountant

    simple = releases / multiplier
    if 1 / multiplier > LARGE_EPSILON:
        return simple
    # A coarser grid rounds up, so what is returned still bounds the truth.
    accountant = PLDAccountant(value_discretization_interval=max(FINE, 2 * simple / MOST_POINTS))
    accountant.compose(LaplaceDpEvent(multiplier), releases)
    return min(simple, float(accountant.get_epsilon(delta)))


class Releases:
    """Counts how often each record was uploaded, by a digest of its prepared numbers.

    The state is as private as the records: who holds it can test whether a record was among them.
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    @property
    def most(self) -> int:
        """How often the record that was released most often was released."""
        return max(self._counts.values(), default=0)

    def count(self, x: Tensor) -> None:
        """Note that the records `x` are released once more; equal records count as one, which errs on the safe side."""
        records = x.detach().float().flatten(1).cpu().numpy()
        self._counts.update(_digest(record.tobytes()) for record in records)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the digests and their counts."""
        return {
            "digests": torch.tensor(list(self._counts), dtype=torch.int64),
            "counts": torch.tensor(list(self._counts.values()), dtype=torch.int64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` returned; what was released since then stays released."""
        stored = dict(zip(state["digests"].tolist(), state["counts"].tolist(), strict=True))
        # Early stopping goes back to the best weights, but no upload comes back.
        self._counts |= Counter(stored)


def _digest(record: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(record, digest_size=8).digest(), signed=True)
