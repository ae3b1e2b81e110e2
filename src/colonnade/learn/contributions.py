"""What each party's uploads bring to the test records: Shapley values of how well these are predicted.

What a coalition S of parties is worth is how well the top model predicts the test records when it sees their own
uploads h from S, and from everybody else those of another record m:

    v(S) = mean over records i of  log mean over others m of  p(y_i | h_ki for k∈S, h_km for k∉S)

Averaged over others, the top model predicts as widely as it must without them. Mean uploads would be cheaper, but the
top model stays just as sure of them and is punished for it without bound: that charged parties whom the model needs.

The mean prediction for all records joins the others as one more voice, whoever is present. There are too few others to
name every class: among a hundred classes, 32 of them missed the right one most of the time, and its log had no bound
again. Where one party knew which fifth of the classes and another the rest, the first got .41 from 32 others alone, .36
with that voice, and .36 from 2,000 others.

A regression predicts a mean and no spread, so there is no likelihood. Its predictions are averaged, and v(S) is minus
the squared error of the average: who is to name one number, and does not know the rest, names that. Where what parties
bring adds up and does not depend on each other, a party's value is the variance that it explains.

Where a party lacks a record, its mean upload is what the top model sees, as its own and as somebody else's.

Where parties' columns depend on each other, somebody else's uploads fit badly beside one's own: a coalition is then
worth less than what could be predicted from its columns alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.data.batches import Positions
from colonnade.learn.top import Top
from colonnade.measure.shapley import EXACT_UP_TO, shapley
from colonnade.nets import split
from colonnade.nets.blocks import Dense

ROWS_AT_ONCE = 4096
"""Records times others in one pass: more of them fall out of the processor's cache."""
MOST_RECORDS, FEWEST_RECORDS = 2048, 64

Answer = Callable[[Sequence[bool], Tensor], Tensor]
"""Takes which parties are present and, (other, record), whose uploads the rest have; returns raw outputs for each."""


class Effort(NamedTuple):
    """How many test records judge the parties, at most, and how many others stand in for each."""

    records: int
    others: int


def effort(network: split.Top, parties: int) -> Effort:
    """Return what is spent on judging `parties`: the more coalitions there are, the fewer records.

    Up to six parties are judged by 2,048 records and eight by 512, which takes a second. Networks that go on with maps
    cost a thousand times as much a record: there are four others then, and two parties are judged by 512 records.
    """
    passes, others = (1 << 22, 32) if isinstance(network.body[0], Dense) else (1 << 13, 4)
    records = passes // (others << min(parties, EXACT_UP_TO))
    return Effort(min(max(records, FEWEST_RECORDS), MOST_RECORDS), others)


class Jury:
    """The test records that judge, drawn by the seed, and everybody's uploads for them as they come.

    Args:
        top: the trained top model.
        parties: who uploads.
        test: all test records.
        seed: draws records, and orders where parties are many.
    """

    def __init__(self, top: Top, parties: Sequence[str], test: Positions, seed: int) -> None:
        self._top, self._parties, self._seed = top, parties, seed
        most = min(len(test), effort(top.network, len(parties)).records)
        self._drawn = np.random.default_rng(seed).choice(test, most, replace=False)
        self._heard: list[tuple[list[Tensor], Tensor]] = []

    def hear(self, positions: Positions, rows: Sequence[Tensor], labels: Tensor) -> None:
        """Keep what belongs to records that judge: one row for every record and party, and labels."""
        chosen = torch.from_numpy(np.isin(positions, self._drawn)).to(labels.device)
        if chosen.any():
            self._heard.append(([row[chosen] for row in rows], labels[chosen]))

    def contributions(self) -> dict[str, float]:
        """Return each party's share of what all uploads bring; see the function."""
        if not self._heard:
            return {}
        by_party = zip(*(rows for rows, _ in self._heard), strict=True)
        labels = torch.cat([labels for _, labels in self._heard])
        return contributions(self._top, [torch.cat(rows) for rows in by_party], labels, self._parties, seed=self._seed)


def contributions(
    top: Top, rows: Sequence[Tensor], labels: Tensor, parties: Sequence[str], *, seed: int
) -> dict[str, float]:
    """Return each party's share of what all uploads bring; they sum to 1. Empty where these bring nothing.

    Args:
        top: the trained top model.
        rows: each party's upload for every record that judges.
        labels: of these records.
        parties: who uploads, in the order of `rows`.
        seed: of the sampled orders, where parties are many.
    """
    if len(labels) < 2 or not all(bool(row.isfinite().all()) for row in rows):
        return {}
    others = _others(len(labels), effort(top.network, len(parties)).others).to(labels.device)
    with top.at_rest():
        answer = _answer(top.network, rows)
        value = _closeness(labels) if top.regression else _likelihood(answer, len(rows), labels, len(others))
        shares = shapley(
            lambda present: value(_answered(answer, [party in present for party in parties], others)),
            parties,
            seed=seed,
        )
    return shares.fractions() if math.isfinite(shares.total) and shares.total > 0 else {}


def _others(records: int, most: int) -> Tensor:
    """Return, (other, record), whose uploads stand in: from near and far, since neighbours may be alike."""
    shifts = np.unique(np.linspace(1, records - 1, most).astype(np.int64))
    return torch.from_numpy((np.arange(records) + shifts[:, None]) % records)


def _answered(answer: Answer, present: Sequence[bool], others: Tensor) -> Tensor:
    """Return raw outputs (other, record, output); where nobody is absent, all others would say the same."""
    asked = others[:1] if all(present) else others
    parts = torch.split(asked, max(1, ROWS_AT_ONCE // asked.shape[1]))
    return torch.cat([answer(present, part) for part in parts]).float()


def _closeness(labels: Tensor) -> Callable[[Tensor], float]:
    """Return what outputs of a regression are worth."""
    return lambda outputs: -float((outputs.squeeze(2).mean(0) - labels).square().mean())


def _likelihood(answer: Answer, parties: int, labels: Tensor, others: int) -> Callable[[Tensor], float]:
    """Return what raw outputs for classes are worth, beside the one voice of the mean prediction."""
    everybody = torch.arange(len(labels), device=labels.device)[None]
    mean = _answered(answer, [True] * parties, everybody).softmax(2).mean((0, 1))[labels]

    def worth(outputs: Tensor) -> float:
        chances = outputs.softmax(2).mean(0).gather(1, labels[:, None]).squeeze(1)
        heard = (others * chances + mean) / (others + 1)
        return float(heard.clamp_min(torch.finfo(heard.dtype).tiny).log().mean())

    return worth


def _answer(network: split.Top, rows: Sequence[Tensor]) -> Answer:
    if isinstance(network.body[0], Dense) and not network.by_width:
        return _from_first_layer(network, rows)
    return partial(_from_uploads, network, rows)


def _from_uploads(network: split.Top, rows: Sequence[Tensor], present: Sequence[bool], others: Tensor) -> Tensor:
    own = torch.arange(others.shape[1], device=others.device).expand_as(others)
    whose = [own if here else others for here in present]
    outputs: Tensor = network([row[chosen.flatten()] for row, chosen in zip(rows, whose, strict=True)])
    return outputs.view(*others.shape, -1)


def _from_first_layer(network: split.Top, rows: Sequence[Tensor]) -> Answer:
    """Pass the first layer once for each party instead of once for each coalition: before its ReLU, parties add up."""
    first, rest = network.body[0], network.body[1:]
    assert isinstance(first, Dense)
    blocks = torch.split(first.weight, [row[0].numel() for row in rows], dim=1)
    brought = torch.stack([row.flatten(1) @ block.T.to(row) for row, block in zip(rows, blocks, strict=True)])

    def answer(present: Sequence[bool], others: Tensor) -> Tensor:
        here = torch.tensor(present, device=brought.device)
        own, strange = brought[here].sum(0) + first.bias, brought[~here].sum(0)
        outputs: Tensor = rest((own + strange[others]).flatten(0, 1))
        return outputs.view(*others.shape, -1)

    return answer
