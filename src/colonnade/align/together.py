"""Alignment of parties that live in one process: for simulations, notebooks and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy.typing as npt
import pandas as pd

from colonnade.align.alignment import Alignment, Policy, align
from colonnade.errors import PeerLostError
from colonnade.wire.channel import Channel
from colonnade.wire.local import local_channels


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
    channels = local_channels(order)

    def live(party: str) -> Alignment:
        with channels[party] as channel:
            return align(channel, ids[party], active=active, order=order, policy=policy, secret=secret)

    with ThreadPoolExecutor(max_workers=len(order)) as pool:
        futures = {party: pool.submit(live, party) for party in order}
        _wait(list(futures.values()), list(channels.values()))
    _raise_cause([future.exception() for future in futures.values()])
    return {party: future.result() for party, future in futures.items()}


def _wait(futures: Sequence[Future[Alignment]], channels: Sequence[Channel]) -> None:
    try:
        wait(futures)
    except BaseException:  # Ctrl-C here must not leave the parties waiting for each other
        for channel in channels:
            channel.abort("interrupted")
        raise


def _raise_cause(errors: Sequence[BaseException | None]) -> None:
    """Raise the error that stopped the others, not the news of it."""
    raised = [error for error in errors if error is not None]
    if raised:
        raise min(raised, key=lambda error: isinstance(error, PeerLostError))
