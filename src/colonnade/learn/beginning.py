"""Where a run begins, and with what: a resumed one goes on with the same, or is refused before anything is lost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.preparation import FeaturePreparation
from colonnade.errors import RunError

_WHAT = {
    "records": "belongs to other records, or to these in another order",
    "split": "belongs to another split of the records",
    "columns": "belongs to other columns, to these in another order, or to other values in them",
}


def beginning_of(
    preparation: FeaturePreparation | None,
    split: npt.NDArray[np.uint8],
    ids: pd.Index,
    rows: npt.NDArray[np.int64],
) -> dict[str, str]:
    """Return a digest of each thing that weights and batches of a run depend on; no names and no values.

    Args:
        preparation: of this party's columns, as fitted; None where it has none.
        split: for each aligned position what its record is for.
        ids: of this party's records.
        rows: for each aligned position this party's row, -1 where it lacks the record.
    """
    held = ids.take(rows[rows >= 0]).tolist()
    columns = {} if preparation is None else {"columns": _digest(json.dumps(preparation.to_dict()).encode())}
    standing = np.packbits(rows >= 0).tobytes() + "\0".join(map(repr, held)).encode("utf-8", "surrogatepass")
    return {**columns, "split": _digest(split.tobytes()), "records": _digest(standing)}


def require_beginning(noted: Mapping[str, Any], now: Mapping[str, str], folder: Path | None) -> None:
    """Refuse to go on from a checkpoint in `folder` that another beginning led to; what it does not note is passed by.

    Other records are split otherwise, and another split gives columns other statistics: the cause is named.
    """
    for thing, what in _WHAT.items():
        if thing in noted and thing in now and noted[thing] != now[thing]:
            remedy = "resume with the files the run was started with"
            raise RunError(what, where=str(folder), remedy=remedy)


def common_start(held: Mapping[str, Sequence[int]], forgivable: int) -> int:
    """Return the last step that all parties hold a checkpoint of, 0 where training begins anew.

    Args:
        held: each party's steps.
        forgivable: as for `refuse_loss`.
    """
    start = max(set.intersection(*map(set, held.values())), default=0)
    if start == 0:
        lacking = [party for party, steps in held.items() if not steps]
        for steps in held.values():
            refuse_loss(steps, forgivable, " and ".join(lacking))
    return start


def refuse_loss(steps: Sequence[int], forgivable: int, lacking: str = "") -> None:
    """Refuse to begin anew where checkpoints of `steps` are held: they would be cleared away at every party.

    Args:
        steps: held by one party.
        forgivable: checkpoints up to this step are no loss; see `Role.forgivable`.
        lacking: who holds none, if known.
    """
    if max(steps, default=0) > forgivable:
        who = lacking or "another party"
        what = f"{who} holds no checkpoint to go on from with the others, and training would begin anew"
        remedy = "bring its run folder back, or start a new run with --run NAME at every party"
        raise RunError(what, where="resume", remedy=remedy, told=True)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
