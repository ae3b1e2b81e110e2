"""Alignment of parties that live in one process: for simulations, notebooks and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt
import pandas as pd

from colonnade.align.alignment import Alignment, Policy, align
from colonnade.wire.together import run_together


def align_together(
    ids: Mapping[str, pd.Index | pd.Series | npt.NDArray[Any] | Sequence[Any]],
    active: str,
    policy: Policy = "drop",
    *,
    secret: bytes | None = None,
) -> dict[str, Alignment]:
    """Align all parties of `ids` in this process, with the very protocol that runs between hosts.

    >>> aligned = align_together({"clinic": [7, 3, 5], "lab": [5, 7, 9]}, active="clinic")
    >>> aligned["clinic"].rows.tolist(), aligned["lab"].rows.tolist()
    ([2, 0], [0, 1])
    """
    order = list(ids)
    roles = {
        party: partial(align, ids=own, active=active, order=order, policy=policy, secret=secret)
        for party, own in ids.items()
    }
    return run_together(roles)
