"""Alignment inside a run: done once, remembered in the run folder, reused when a run is resumed."""

from __future__ import annotations

import io
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from colonnade.align import Alignment, align
from colonnade.data.records import Records
from colonnade.learn.agreement import Agreement
from colonnade.run import Run, write_atomically
from colonnade.wire.channel import Channel

MEMORY = "memory"


@dataclass(frozen=True)
class _Remembered:
    alignment: Alignment
    token: str


def align_for_run(
    channel: Channel, agreement: Agreement, records: Records, *, run: Run, resume: bool, secret: bytes
) -> Alignment:
    """Align with the others; when resuming and everybody remembers the same alignment, take that one.

    A token that the active party draws names an alignment, so that parties can compare without showing records.
    """
    remembered = _read(run.path) if resume else None
    token = remembered.token if remembered else None
    if channel.name == agreement.active:
        theirs = [channel.recv(party, MEMORY, 0).meta["token"] for party in agreement.passive]
        agreed = token is not None and all(other == token for other in theirs)
        fresh = token if agreed else secrets.token_hex(16)
        for party in agreement.passive:
            channel.send(party, MEMORY, 0, meta={"token": fresh, "reuse": agreed})
    else:
        channel.send(agreement.active, MEMORY, 0, meta={"token": token})
        answer = channel.recv(agreement.active, MEMORY, 0).meta
        fresh, agreed = answer["token"], answer["reuse"]
    if agreed and remembered:
        return remembered.alignment
    alignment = align(
        channel,
        records.ids,
        active=agreement.active,
        order=agreement.parties,
        policy=agreement.task.missing,
        secret=secret if channel.name == agreement.active else None,
    )
    _write(run.path, alignment, str(fresh))
    return alignment


def _read(folder: Path) -> _Remembered | None:
    path = folder / "alignment.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as stored:
        about = json.loads(str(stored["about"]))
        return _Remembered(Alignment(stored["rows"], about["digest"], about["policy"]), about["token"])


def _write(folder: Path, alignment: Alignment, token: str) -> None:
    about = {"digest": alignment.digest, "policy": alignment.policy, "token": token}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, rows=alignment.rows, about=np.array(json.dumps(about)))
    write_atomically(folder / "alignment.npz", buffer.getvalue())
