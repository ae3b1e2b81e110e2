"""The numbers of one attack on one party, and those of the trivial guesses beside it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from colonnade.audit.truth import Column, Truth
from colonnade.errors import ConfigError
from colonnade.measure import image
from colonnade.measure.baseline import constant_grey, per_record_mean, random_other
from colonnade.measure.classify import accuracy
from colonnade.measure.reconstruct import Floats, identification_rate, skill, squared_error
from colonnade.measure.success import asr

CANDIDATES = 1000
"""Among so many records, or all targets where there are fewer, a guess has to find the true one."""
THRESHOLD = 0.025
"""The published error below which a record counts as found; at the other published one, .1, plain grey passes too."""

MEASURES = ("mse", "psnr", "ssim", "lpips", "skill", "identification", "asr")


def scores(truth: Truth, guesses: Floats, threshold: float = THRESHOLD) -> dict[str, float]:
    """Return all measures of `guesses`, which are in the units of `truth`; NaN where one means nothing for a table."""
    errors = squared_error(guesses, truth.records)
    blind = squared_error(truth.blind, truth.records)
    return {
        "mse": float(errors.mean()),
        "psnr": _picture_mean(image.psnr, truth, guesses),
        "ssim": _picture_mean(image.ssim, truth, guesses),
        "lpips": _picture_mean(_lpips, truth, guesses),
        "skill": skill(float(errors.mean()), float(blind.mean())),
        "identification": identification_rate(guesses, truth.records, CANDIDATES),
        "asr": asr(errors, threshold),
    }


def trivial_guesses(truth: Truth, seed: int) -> dict[str, Floats]:
    """Return what can be guessed without any attack; `per-record mean` knows more than an attacker does."""
    guesses = {"mean record": np.broadcast_to(truth.blind, truth.records.shape)}
    if truth.image:
        guesses["constant grey"] = np.broadcast_to(constant_grey(truth.blind.shape), truth.records.shape)
    guesses["random other"] = random_other(truth.records, seed)
    guesses["per-record mean"] = per_record_mean(truth.records)
    return guesses


def trivial_scores(truth: Truth, seed: int, threshold: float = THRESHOLD) -> dict[str, dict[str, float]]:
    """Return all measures of every trivial guess.

    They say nothing of a defense or an attack, so all cells of a matrix with one seed share them: to score pictures
    takes a processor longer than some attacks take a GPU.
    """
    content = hashlib.sha256(repr((truth.image, truth.blind.shape, truth.records.shape)).encode())
    for part in (truth.blind, truth.records):
        content.update(np.ascontiguousarray(part).tobytes())
    found = _trivial_scores(_Known(content.hexdigest(), truth), seed, threshold)
    return {name: dict(numbers) for name, numbers in found.items()}


@dataclass(frozen=True)
class _Known:
    """A truth that is equal to another one with the same content."""

    content: str
    truth: Truth = field(compare=False)


@lru_cache(maxsize=8)
def _trivial_scores(known: _Known, seed: int, threshold: float) -> dict[str, dict[str, float]]:
    guesses = trivial_guesses(known.truth, seed)
    return {name: scores(known.truth, guess, threshold) for name, guess in guesses.items()}


def column_scores(truth: Truth, guesses: Floats) -> Iterator[dict[str, Any]]:
    """Yield how much of each column of a table was found.

    For numbers `skill`, the share of the blind guess's error that is gone (R² against the auxiliary records' mean).
    For categories `hits`, the share of records whose category was found, beside `majority`, that of always guessing
    the category which is commonest among the auxiliary records.
    """
    for column in truth.columns:
        guess, true, blind = (values[..., column.places] for values in (guesses, truth.records, truth.blind))
        yield {"column": column.name, "kind": column.kind, **_column(column, guess, true, blind)}


def why_no_lpips() -> str | None:
    """Return why the perceptual distance can't be measured here, None where it can."""
    from colonnade.measure.perceptual import weights

    try:
        weights()
    except ConfigError as error:
        return f"lpips was not measured: {error}"
    return None


def _column(column: Column, guess: Floats, true: Floats, blind: Floats) -> dict[str, float]:
    if column.kind == "number":
        found = skill(float(squared_error(guess, true).mean()), float(squared_error(blind, true).mean()))
        return {"skill": found, "hits": math.nan, "majority": math.nan}
    seen = true.any(axis=1)  # a category that training never saw is all zeros: there is nothing to hit
    if not seen.any():
        return {"skill": math.nan, "hits": math.nan, "majority": math.nan}
    classes = true[seen].argmax(axis=1)
    hits, majority = (accuracy(found, classes) for found in (guess[seen].argmax(axis=1), _always(blind, classes)))
    return {"skill": math.nan, "hits": hits, "majority": majority}


def _always(blind: Floats, classes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    return np.full(len(classes), blind.argmax())


def _picture_mean(measure: Callable[[Floats, Floats], Floats], truth: Truth, guesses: Floats) -> float:
    return float(measure(guesses, truth.records).mean()) if truth.image else math.nan


def _lpips(guesses: Floats, images: Floats) -> Floats:
    if why_no_lpips() or images.shape[1] not in (1, 3):
        return np.full(len(images), math.nan)
    from colonnade.measure.perceptual import lpips

    return lpips(guesses, images)
