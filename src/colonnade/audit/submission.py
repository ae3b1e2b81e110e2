"""The other half of a challenge: the truth, for whoever scores, and the scores of anyone's guesses."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.attack import Knowledge, Strength
from colonnade.audit.attacks import bottom_of
from colonnade.audit.book import Book
from colonnade.audit.evidence import prepared
from colonnade.audit.result import AuditResult
from colonnade.audit.rows import Row
from colonnade.audit.sealed import seal, unseal
from colonnade.audit.stage import Stage
from colonnade.audit.truth import check_guesses, natural, truth_of
from colonnade.data.preparation import LabelPreparation, preparation_from_dict
from colonnade.errors import DataError, RunError

GUESSES = "guesses"
"""The array that a file of guesses must hold."""


def seal_truth(folder: Path, stage: Stage, victim: str, granted: Iterable[Knowledge], challenge: str) -> None:
    """Write what guesses are held against; `challenge` is the digest of the challenge that it belongs to."""
    bottom = bottom_of(stage.model, victim)
    known, wanted = (prepared(bottom, part.records[victim]) for part in (stage.auxiliary, stage.targets))
    described = {
        "challenge": challenge,
        "strength": strength_of_knowledge(granted),
        "keys": stage.keys(victim),
        "seeds": stage.seeds,
        "accuracy": stage.model.scores.get("accuracy"),
        "settings": stage.described(),
        "preparation": bottom.preparation.to_dict(),
    }
    seal(folder, "truth", described, {"truth": {"records": wanted, "auxiliary_mean": known.double().mean(0)}})


def score_challenge(truth: Path | str, guesses: Path | str, *, attack: str = "submission") -> AuditResult:
    """Score anyone's guesses: an `.npz` with an array `guesses`, one for each upload, in their order.

    Guesses are in the units that auxiliary records have in a challenge: standardised pixels or columns.

    Args:
        truth: the folder that `export_challenge` wrote for the scorer.
        guesses: the file.
        attack: what the attack is called in the result.
    """
    described, things = unseal(Path(truth), "truth")
    try:
        preparation = preparation_from_dict(described["preparation"])
        records, mean = (things["truth"][name].numpy() for name in ("records", "auxiliary_mean"))
        keys, seeds, settings = (_restored(described[name]) for name in ("keys", "seeds", "settings"))
        book = Book(described["accuracy"], settings["threshold"])
        own: Row = {**keys, "attack": attack, "knowledge": described["strength"], "attack_settings": "{}"}
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError("does not fit its files", where=str(truth), remedy="export the challenge anew") from error
    if isinstance(preparation, LabelPreparation):
        raise RunError("tells of labels, not of records", where=str(truth), remedy="export the challenge anew")
    held = truth_of(preparation, records, mean[None])
    given = check_guesses(_read_guesses(Path(guesses)), records.shape, str(guesses))
    book.add_attack(own, seeds, held, natural(preparation, given), pictures=True)
    book.add_baselines(keys, seeds, held)
    return book.result(settings)


def strength_of_knowledge(granted: Iterable[Knowledge]) -> Strength:
    """Return how strong an attack is that knows this: true pairs, or the victim's weights, make it an oracle.

    >>> strength_of_knowledge([Knowledge.UPLOADS, Knowledge.ARCHITECTURE])
    'published'
    """
    known = set(granted)
    if known & {Knowledge.AUXILIARY_UPLOADS, Knowledge.WEIGHTS}:
        return "oracle"
    return "adaptive" if Knowledge.DEFENSE_OPERATOR in known else "published"


def _read_guesses(path: Path) -> npt.NDArray[np.generic]:
    remedy = f"numpy.savez(file, {GUESSES}=array) writes such a file"
    if not path.is_file():
        raise DataError("there is no such file", where=str(path), remedy=remedy)
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile) or GUESSES not in archive.files:
                raise DataError(f"there is no array '{GUESSES}'", where=str(path), remedy=remedy)
            found: npt.NDArray[np.generic] = archive[GUESSES]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, TypeError, AttributeError) as error:
        raise DataError("this is no .npz file of numbers", where=str(path), remedy=remedy) from error
    return found


def _restored(row: Mapping[str, Any]) -> Row:
    """Return a row as it was before it became JSON, which has no NaN."""
    return {name: math.nan if value is None else value for name, value in row.items()}
