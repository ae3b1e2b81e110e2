"""Alignment inside a run: done once, remembered in the run folder, reused when a run is resumed."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from colonnade.align.alignment import Alignment, Policy, align
from colonnade.errors import AlignmentError
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
    with channel.patiently():  # somebody may still wait for another party to start
        if channel.name == active:
            fresh, agreed = _compare(channel, [party for party in order if party != active], token)
        else:
            fresh, agreed = _ask(channel, active, token)
    if agreed and remembered:
        return remembered.alignment
    own_secret = secret if channel.name == active else None
    alignment = align(channel, ids, active=active, order=order, policy=policy, secret=own_secret)
    _write(run.path, alignment, fresh, held)
    return replace(alignment, anew=True)


def _compare(channel: Channel, passive: Sequence[str], token: str | None) -> tuple[str, bool]:
    """Return the name of the run's alignment, and whether it is one that all parties remember; tell the others."""
    theirs = [_token(channel.recv(party, MEMORY, 0).meta, party) for party in passive]
    agreed = token is not None and all(other == token for other in theirs)
    fresh = token if token is not None and agreed else secrets.token_hex(16)
    for party in passive:
        channel.send(party, MEMORY, 0, meta={"token": fresh, "reuse": agreed})
    return fresh, agreed


def _ask(channel: Channel, active: str, token: str | None) -> tuple[str, bool]:
    """Tell the active party what is remembered here, and return what `_compare` returns there."""
    channel.send(active, MEMORY, 0, meta={"token": token})
    answer = channel.recv(active, MEMORY, 0).meta
    fresh, agreed = _token(answer, active), answer.get("reuse")
    if fresh is None or not isinstance(agreed, bool) or (agreed and fresh != token):
        raise _not_understood(active)
    return fresh, agreed


def _token(meta: Mapping[str, object], sender: str) -> str | None:
    """Return the name of the alignment that `sender` speaks of, None for none."""
    token = meta.get("token", 0)
    if token is not None and not isinstance(token, str):
        raise _not_understood(sender)
    return token


def _not_understood(sender: str) -> AlignmentError:
    what = "did not say in a known way which alignment it remembers"
    return AlignmentError(what, where=sender, remedy="run the same version of Colonnade at every party")


def _digest(ids: pd.Index) -> str:
    return hashlib.sha256("\0".join(map(repr, ids)).encode()).hexdigest()


def _read(folder: Path, ids: str) -> _Remembered | None:
    path = folder / "alignment.npz"
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            if about["ids"] != ids:
                return None
            return _Remembered(Alignment(stored["rows"], about["digest"], about["policy"]), about["token"])
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError):
        return None  # a damaged file: aligning again costs minutes, and nothing is lost


def _write(folder: Path, alignment: Alignment, token: str, ids: str) -> None:
    about = {"digest": alignment.digest, "policy": alignment.policy, "token": token, "ids": ids}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, rows=alignment.rows, about=np.array(json.dumps(about)))
    write_atomically(folder / "alignment.npz", buffer.getvalue())
