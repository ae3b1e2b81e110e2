"""How parties talk: messages, frames, channels in one process and between hosts, TLS material, one deadline policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.wire.channel import Channel, Observer
from colonnade.wire.deadline import Deadline
from colonnade.wire.header import Limits
from colonnade.wire.local import LocalChannel, local_channels
from colonnade.wire.message import Array, Message

if TYPE_CHECKING:
    from colonnade.wire.network import NetworkChannel
    from colonnade.wire.preflight import Peer, check_peer
    from colonnade.wire.tls import Credentials

__all__ = [
    "Array",
    "Channel",
    "Credentials",
    "Deadline",
    "Limits",
    "LocalChannel",
    "Message",
    "NetworkChannel",
    "Observer",
    "Peer",
    "check_peer",
    "local_channels",
]

_LATER = {"NetworkChannel": "network", "Peer": "preflight", "check_peer": "preflight", "Credentials": "tls"}


def __getattr__(name: str) -> Any:
    """Import what needs gRPC or cryptography when it is first asked for: a simulation needs neither."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
