"""Whom a matcher names: by one upload, by many of the finished model, by all that were sent while it learned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from torch import Tensor

from colonnade.attack.evidence import Evidence
from colonnade.attack.matcher import Matcher
from colonnade.attack.witness import readings_of
from colonnade.audit.attacks import bottom_of, fresh
from colonnade.audit.evidence import prepared
from colonnade.audit.shown import Shown
from colonnade.bench.keystone.setting import MATCHED_BY_MANY, MATCHED_BY_ONE, MATCHED_BY_TRAINING

Fits = dict[str, Tensor]
"""Of each party how well each candidate (columns) fits what was uploaded about each target (rows)."""


def fits_of_finished(
    matcher: Matcher, once: Shown, often: Shown | None, again: Callable[[str], Iterable[Tensor]]
) -> Iterator[tuple[str, Fits]]:
    """Yield what fits one upload of each target, and in two ways what fits many.

    Once a record is known its uploads are independent, coins and noise being drawn anew: what fits many of them is the
    sum of what fits each. Where one upload teaches a matcher nothing, the mean of many may.

    Args:
        matcher: is trained on uploads of everybody who is known.
        once: one upload of everybody, by the finished model.
        often: the mean of many; None where all uploads of a record are the same.
        again: a party's further uploads of all targets.
    """
    one, many = {}, {}
    for party in once.truths:
        own, evidence, candidates = _at(matcher, once, party)
        own.fit(evidence)
        one[party] = many[party] = own.scores(evidence.uploads, candidates)
        if often is not None:
            many[party] = sum((own.scores(uploads, candidates) for uploads in again(party)), one[party])
    yield MATCHED_BY_ONE, one
    yield MATCHED_BY_MANY, many
    if often is not None:
        yield MATCHED_BY_MANY, {party: _best(matcher, often, party)[1] for party in often.truths}


def fits_of_training(matcher: Matcher, stage: Shown) -> Iterator[tuple[str, Fits]]:
    """Yield what fits all uploads of training: their mean or their sequence, whichever pairs held back are matched by.

    Networks change while they learn: what one matcher learns of them all tells more than a sum.
    """
    yield MATCHED_BY_TRAINING, {party: _best(matcher, stage, party)[1] for party in stage.truths}


def _best(matcher: Matcher, stage: Shown, party: str) -> tuple[float, Tensor]:
    """Return how much the best reading of several uploads leaves unexplained, and what fits them by it."""
    tried = []
    for reading in readings_of(stage.uploads[party][1]):
        own, evidence, candidates = _at(matcher, _read(stage, party, reading), party)
        own.fit(evidence)
        tried.append((own.surprise, own.scores(evidence.uploads, candidates)))
    return min(tried, key=lambda one: one[0])


def _at(matcher: Matcher, stage: Shown, party: str) -> tuple[Matcher, Evidence, Tensor]:
    """Return a matcher that has learned nothing yet, what it is shown of a party, and the candidates."""
    candidates = prepared(bottom_of(stage.model, party), stage.targets.records[party])
    return fresh(matcher, stage.seed, stage.settings.device), stage.evidence(party), candidates


def _read(stage: Shown, party: str, reading: Callable[[Tensor], Tensor]) -> Shown:
    known, wanted = stage.uploads[party]
    return replace(stage, uploads={party: (reading(known), reading(wanted))})
