"""A party as a process of its own: `python wire_peer.py '{"name": "b", ...}'`. Prints what happens, a line each."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np

from colonnade.errors import WireError
from colonnade.wire.deadline import Deadline
from colonnade.wire.network import NetworkChannel
from colonnade.wire.preflight import Peer
from colonnade.wire.tls import Credentials


def say(**words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def exchange(channel: NetworkChannel, steps: int) -> None:
    """Everybody sends everybody something, at every step."""
    for step in range(steps):
        for peer in channel.peers:
            channel.send(peer, "upload", step, {"x": np.full(20_000, step, dtype=np.float32)})
        for peer in channel.peers:
            assert channel.recv(peer, "upload", step).tensors["x"][0] == step
        if step == 5:
            say(event="running")


def hold_interpreter(channel: NetworkChannel, seconds: int) -> None:
    """Hold Python's lock as a long call into C does: no thread of this process runs Python meanwhile."""
    channel.connect()
    say(event="holding")
    ctypes.PyDLL(None).usleep(seconds * 1_000_000)
    channel.send("a", "upload", 0)
    channel.recv("a", "thanks", 0)


def wait(channel: NetworkChannel, seconds: int) -> None:
    """Do nothing."""
    channel.connect()
    say(event="waiting")
    time.sleep(seconds)


ROLES = {"exchange": exchange, "hold": hold_interpreter, "wait": wait}


def main() -> None:
    """Live as the settings say."""
    settings = json.loads(sys.argv[1])
    name, names = settings["name"], settings["names"]
    ports = settings["ports"]
    channel = NetworkChannel(
        name,
        {other: Peer(f"127.0.0.1:{ports[other]}" if other in ports else None) for other in names if other != name},
        "test",
        Credentials.in_folder(Path(settings["folder"]) / name),
        order=names,
        listen=None if name == names[-1] else "127.0.0.1:0",
        deadline=Deadline(connect=30, reply=60, heartbeat=settings["heartbeat"]),
    )
    say(event="listening", port=channel.port)
    try:
        with channel:
            ROLES[settings["role"]](channel, settings["amount"])
        say(event="done")
    except WireError as error:
        say(event="failed", kind=type(error).__name__, peer=getattr(error, "peer", None), what=str(error))


if __name__ == "__main__":
    main()
