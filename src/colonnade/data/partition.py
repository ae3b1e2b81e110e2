"""Vertical partitions for simulations: one data set handed out to parties that each see a part of every record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from colonnade.data.records import Records, by_id, check_channels
from colonnade.data.split import id_shares
from colonnade.errors import ConfigError, DataError, nearest

Block = pd.DataFrame | npt.NDArray[np.generic]


def by_column(
    frame: pd.DataFrame,
    parties: Mapping[str, Sequence[str]],
    *,
    label: tuple[str, str] | None = None,
    secrets: Mapping[str, Sequence[str]] | None = None,
    id_column: str | None = None,
) -> dict[str, Records]:
    """Give each party its columns; DataError tells every problem at once.

    Args:
        frame: all parties' columns, one row a record.
        parties: the columns of each party; only the party that holds the label may have none.
        label: the party that holds the label, and the label's column.
        secrets: sensitive columns of parties; features too where `parties` lists them at the same party.
        id_column: the column with the ids; None takes the frame's index.
    """
    if not all(isinstance(name, str) for name in frame.columns):
        remedy = "frame.columns = frame.columns.map(str) makes them so"
        raise DataError("column names must be text", where="frame", remedy=remedy)
    kept = dict(secrets or {})
    problems = _column_problems(frame, parties, label, id_column) + _secret_problems(frame, parties, label, kept)
    if problems:
        raise DataError("; ".join(problems), where="parties")
    return {
        party: Records.from_frame(
            frame,
            id_column=id_column,
            columns=list(columns),
            label=label[1] if label is not None and label[0] == party else None,
            secrets=kept.get(party, ()),
            where=party,
        )
        for party, columns in parties.items()
    }


def by_strip(
    images: npt.NDArray[np.generic],
    parties: Sequence[str],
    *,
    label: tuple[str, pd.Series] | None = None,
    ids: pd.Index | None = None,
) -> dict[str, Records]:
    """Cut images `(records, channels, height, width)` into equal vertical strips; the last takes the remainder.

    A label holder that is not among `parties` becomes a label-only party.
    """
    if images.ndim != 4:
        raise DataError(
            f"images have shape {images.shape}", where="images", remedy="give (records, channels, height, width)"
        )
    check_channels(images, "images")
    _check_parties(parties)
    width = images.shape[3] // len(parties)
    if width == 0:
        raise DataError(
            f"images {images.shape[3]} pixels wide cannot be cut for {len(parties)} parties", where="images"
        )
    edges = [number * width for number in range(len(parties))] + [images.shape[3]]
    blocks: dict[str, Block] = {
        party: images[..., start:stop] for party, start, stop in zip(parties, edges[:-1], edges[1:], strict=True)
    }
    return by_modality(blocks, label=label, ids=ids)


def by_modality(
    blocks: Mapping[str, Block],
    *,
    label: tuple[str, pd.Series] | None = None,
    ids: pd.Index | None = None,
) -> dict[str, Records]:
    """Give each party one block: a frame, an array `(records, features)`, or images.

    Args:
        blocks: each party's block.
        label: the party that holds the label, and the label; a party without a block becomes label-only.
        ids: the ids of every block's rows; None takes a frame's index, and 0, 1, ... for arrays. What is indexed by the
            ids goes by them; arrays and rows that are merely numbered go by position.
    """
    _check_parties(list(blocks))
    parts = {party: _block_records(party, block, ids) for party, block in blocks.items()}
    if label is None:
        return parts
    party, values = label
    if party in parts:
        held = parts[party]
        parts[party] = Records(held.ids, table=held.table, images=held.images, label=values)
    else:
        parts[party] = Records(values.index if ids is None else ids, label=values)
    return parts


def evenly(columns: Sequence[str], parties: Sequence[str]) -> dict[str, list[str]]:
    """Deal columns to parties in their order, as evenly as their number allows.

    Example:
        >>> evenly(["a", "b", "c"], ["bank", "shop"])
        {'bank': ['a', 'b'], 'shop': ['c']}
    """
    _check_parties(parties)
    if len(columns) < len(parties):
        raise DataError(f"{len(columns)} columns cannot be dealt to {len(parties)} parties", where="parties")
    parts = np.array_split(np.arange(len(columns)), len(parties))
    return {party: [columns[i] for i in part] for party, part in zip(parties, parts, strict=True)}


def thin(records: Records, overlap: float, seed: int) -> Records:
    """Keep a share of a party's records, chosen by id, in their order.

    Smaller shares are contained in larger ones, so that a study of overlap changes nothing else. Parties that thin
    with one seed keep the same ids; give each its own seed to thin them independently.
    """
    if not 0 < overlap <= 1:
        raise ConfigError(f"overlap {overlap} is no share", where="overlap", remedy="give more than 0 and at most 1")
    count = max(1, round(overlap * len(records))) if len(records) else 0
    chosen = np.argsort(id_shares(records.ids, seed, "thin"), kind="stable")[:count]
    return records.take(np.sort(chosen))


def _column_problems(
    frame: pd.DataFrame,
    parties: Mapping[str, Sequence[str]],
    label: tuple[str, str] | None,
    id_column: str | None,
) -> list[str]:
    known = [str(name) for name in frame.columns]
    problems = [] if parties else ["there are no parties"]
    owner: dict[str, str] = {}
    for party, columns in parties.items():
        if isinstance(columns, str):
            problems.append(f"columns of party '{party}' must be a list, not the text '{columns}'")
            continue
        if not columns and (label is None or label[0] != party):
            problems.append(f"party '{party}' has neither columns nor the label (give it columns, or leave it out)")
        for column in columns:
            if column not in known:
                problems.append(f"party '{party}' has unknown column {_shown(column)} ({nearest(column, known)})")
            elif column in owner:
                problems.append(f"column '{column}' is at party '{owner[column]}' and again at party '{party}'")
            owner.setdefault(column, party)
    if label is not None:
        problems += _label_problems(label, owner, parties, known)
    if id_column is not None and id_column not in known:
        problems.append(f"unknown id column {_shown(id_column)} ({nearest(id_column, known)})")
    if id_column in owner:
        problems.append(f"id column '{id_column}' is listed at party '{owner[id_column]}'")
    return problems


def _label_problems(
    label: tuple[str, str], owner: Mapping[str, str], parties: Mapping[str, Sequence[str]], known: list[str]
) -> list[str]:
    party, column = label
    problems = []
    if party not in parties:
        problems.append(f"the label is at unknown party '{party}' ({nearest(party, parties)})")
    if column not in known:
        problems.append(f"unknown label column {_shown(column)} ({nearest(column, known)})")
    if column in owner:
        problems.append(f"the label column '{column}' is also a feature of party '{owner[column]}'")
    return problems


def _secret_problems(
    frame: pd.DataFrame,
    parties: Mapping[str, Sequence[str]],
    label: tuple[str, str] | None,
    secrets: Mapping[str, Sequence[str]],
) -> list[str]:
    known = [str(name) for name in frame.columns]
    owner = {column: party for party, columns in parties.items() for column in columns}
    problems = []
    for party, columns in secrets.items():
        if isinstance(columns, str):
            problems.append(f"secrets of party '{party}' must be a list, not the text '{columns}'")
            continue
        if party not in parties:
            problems.append(f"secrets are at unknown party '{party}' ({nearest(party, parties)})")
        for column in columns:
            if column not in known:
                problems.append(f"party '{party}' has unknown secret {_shown(column)} ({nearest(column, known)})")
            elif owner.get(column, party) != party:
                problems.append(f"secret '{column}' of party '{party}' is a column of party '{owner[column]}'")
            elif label is not None and column == label[1]:
                problems.append(f"secret '{column}' of party '{party}' is the label")
    return problems


def _shown(column: object) -> str:
    """Return a name in quotes, and what is no text without: 0 is not the column '0'."""
    return f"'{column}'" if isinstance(column, str) else str(column)


def _check_parties(parties: Sequence[str]) -> None:
    if not parties:
        raise DataError("there are no parties", where="parties")
    twice = sorted({party for party in parties if list(parties).count(party) > 1})
    if twice:
        raise DataError(f"parties are named twice: {', '.join(twice)}", where="parties")


def _block_records(party: str, block: Block, ids: pd.Index | None) -> Records:
    if isinstance(block, pd.DataFrame):
        return Records.from_frame(block if ids is None else by_id(block, ids, "block", party), where=party)
    found = pd.RangeIndex(len(block)) if ids is None else ids
    if block.ndim == 4:
        return Records(found, images=block)
    if block.ndim != 2:
        raise DataError(
            f"block has shape {block.shape}",
            where=party,
            remedy="give (records, features) or (records, channels, height, width)",
        )
    if len(found) != len(block):
        raise DataError(f"block has {len(block)} rows for {len(found)} ids", where=party)
    names = [f"{party}_{number}" for number in range(block.shape[1])]
    return Records.from_frame(pd.DataFrame(block, index=found, columns=names), where=party)
