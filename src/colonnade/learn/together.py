"""Run several parties as threads of one process: the same role code, another channel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from colonnade.errors import PeerLostError
from colonnade.wire.channel import Channel
from colonnade.wire.local import local_channels

T = TypeVar("T")


def run_together(roles: Mapping[str, Callable[[Channel], T]], run: str) -> dict[str, T]:
    """Give every role its channel and its thread; return what each role returns.

    If a role fails, the others are told and end too; the error that came first in substance is raised,
    not the echo of it that the others heard.
    """
    channels = local_channels(tuple(roles), run)
    results: dict[str, T] = {}
    errors: list[BaseException] = []

    def live(party: str) -> None:
        try:
            with channels[party] as channel:
                results[party] = roles[party](channel)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(party,), name=party, daemon=True) for party in roles]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for channel in channels.values():
            channel.abort("interrupted")
        raise
    if errors:
        raise next((error for error in errors if not isinstance(error, PeerLostError)), errors[0])
    return {party: results[party] for party in roles}
