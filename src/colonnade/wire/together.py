"""Several parties in one process and one thread: the same role code, another channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from greenlet import getcurrent, greenlet

from colonnade.errors import PeerLostError, WireError
from colonnade.wire.channel import Channel
from colonnade.wire.local import LocalChannel, local_channels

T = TypeVar("T")


def run_together(roles: Mapping[str, Callable[[Channel], T]], run: str = "local") -> dict[str, T]:
    """Let every role live on its own channel; return what each role returns, in the order of the roles.

    Roles take turns where they wait for each other anyway. They are greenlets of one thread, not threads: threads that
    compute small things spend most of their time handing the interpreter lock and the cores to and fro, and an order
    that the clock decides is hard to repeat. A role must not wait inside `torch.no_grad()`: that belongs to the thread.

    If a role fails, the others are told and end too; the error that stopped the others is raised, not the news of it.

    >>> def ask(channel):
    ...     channel.send("b", "question", 0, meta={"of": 20})
    ...     return channel.recv("b", "answer", 0).meta["is"]
    >>> def answer(channel):
    ...     channel.send("a", "answer", 0, meta={"is": 2 * channel.recv("a", "question", 0).meta["of"] + 2})
    >>> run_together({"a": ask, "b": answer})["a"]
    42
    """
    channels = local_channels(tuple(roles), run)
    results: dict[str, T] = {}
    errors: list[BaseException] = []

    def live(party: str) -> None:
        try:
            with channels[party] as channel:
                results[party] = roles[party](channel)
        except Exception as error:
            errors.append(error)

    _take_turns({party: greenlet(live) for party in roles}, channels)
    if errors:
        raise min(errors, key=lambda error: isinstance(error, PeerLostError))
    return {party: results[party] for party in roles}


def _take_turns(parties: Mapping[str, greenlet], channels: Mapping[str, LocalChannel]) -> None:
    """Switch from party to party until all have ended; a round in which nothing was sent would go on for ever."""
    main = getcurrent()
    for channel in channels.values():
        channel.give_way = main.switch
    while waiting := [party for party, life in parties.items() if not life.dead]:
        before = [channel.sent_messages for channel in channels.values()]
        for party in waiting:
            parties[party].switch(party)
        still = [party for party in waiting if not parties[party].dead]
        if still == waiting and before == [channel.sent_messages for channel in channels.values()]:
            channels[waiting[0]].fail_all(WireError("all parties wait for each other", where=", ".join(waiting)))
