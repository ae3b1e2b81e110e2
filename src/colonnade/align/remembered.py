"""Alignment inside a run: done once, remembered in the run folder, reused when a run is resumed."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.align.alignment import Alignment, Policy, align
from colonnade.run import Run, write_atomically
from colonnade.wire.channel import Channel

MEMORY = "memory"


@dataclass(frozen=True)
class _Remembered:
    alignment: Alignment
    token: str


def align_for_run(
    channel: Channel,
    ids: pd.Index,
    *,
    active: str,
    order: Sequence[str],
    policy: Policy,
    run: Run,
    resume: bool,
    secret: bytes,
) -> Alignment:
    """Align with the others; when resuming and everybody remembers the same alignment, take that one.

    A token that the active party draws names an alignment, so that parties can compare without showing records. Whose
    file has other ids than before, or has them in another order, remembers nothing: what is kept are row numbers.
    """
    held = _digest(ids)
    remembered = _read(run.path, held) if resume else None
    token = remembered.token if remembered else None
    passive = [party for party in order if party != active]
    if channel.name == active:
        theirs = [channel.recv(party, MEMORY, 0).meta["token"] for party in passive]
        agreed = token is not None and all(other == token for other in theirs)
        fresh = token if agreed else secrets.token_hex(16)
        for party in passive:
            channel.send(party, MEMORY, 0, meta={"token": fresh, "reuse": agreed})
    else:
        channel.send(active, MEMORY, 0, meta={"token": token})
        answer = channel.recv(active, MEMORY, 0).meta
        fresh, agreed = answer["token"], answer["reuse"]
    if agreed and remembered:
        return remembered.alignment
    own_secret = secret if channel.name == active else None
    alignment = align(channel, ids, active=active, order=order, policy=policy, secret=own_secret)
    _write(run.path, alignment, str(fresh), held)
    return replace(alignment, anew=True)


def _digest(ids: pd.Index) -> str:
    return hashlib.sha256("\0".join(map(repr, ids)).encode()).hexdigest()


def _read(folder: Path, ids: str) -> _Remembered | None:
    path = folder / "alignment.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as stored:
        about = json.loads(str(stored["about"]))
        if about.get("ids") != ids:
            return None
        return _Remembered(Alignment(stored["rows"], about["digest"], about["policy"]), about["token"])


def _write(folder: Path, alignment: Alignment, token: str, ids: str) -> None:
    about = {"digest": alignment.digest, "policy": alignment.policy, "token": token, "ids": ids}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, rows=alignment.rows, about=np.array(json.dumps(about)))
    write_atomically(folder / "alignment.npz", buffer.getvalue())
