"""What a party's run began with: a run that goes on with other records would end with nobody's graph."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from colonnade.checkpoint import Checkpoints
from colonnade.discover.party import PartySeat
from colonnade.discover.variables import PartyColumns
from colonnade.errors import ConfigError
from colonnade.run import write_atomically

FILE = "beginning.json"
_WHAT = {
    "records": "its records are not those that the run began with",
    "knowledge": "what it knows is not what it knew when the run began",
}


def check_beginning(seat: PartySeat) -> None:
    """Keep digests of what a party brings in its own run folder; when resuming, compare.

    Who holds no checkpoint begins anew: a mistake that stopped the run at its start may be corrected.

    Raises:
        ConfigError: the run began with other records or other knowledge.
    """
    if seat.run is None:
        return
    brought = {"records": _records_digest(seat.columns), "knowledge": _digest(seat.knowledge.model_dump_json())}
    path = seat.run.path / FILE
    if not (seat.resume and path.is_file() and Checkpoints(seat.checkpoint_folder).steps()):
        write_atomically(path, json.dumps(brought).encode())
        return
    began = json.loads(path.read_bytes())
    for name, digest in brought.items():
        if began.get(name) != digest:
            remedy = "put it back as it was, or start a new run"
            raise ConfigError(_WHAT[name], where=seat.party, remedy=remedy, told=True)


def _records_digest(columns: PartyColumns) -> str:
    """Digest what is learned from, in its order; how it was written in a file does not matter."""
    about = [(one.name, one.kind, one.width) for one in columns.variables]
    held = hashlib.sha256(json.dumps(about).encode())
    for values in (columns.plain, columns.target, columns.observed):
        held.update(np.ascontiguousarray(values).tobytes())
    return held.hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
