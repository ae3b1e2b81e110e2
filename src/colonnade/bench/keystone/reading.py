"""What every reader finds in the uploads of one training: of one upload, of a hundred, and of all that were trained on.

One training serves all of them: its active party is honest, and remembers everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.attack import Attack, Decoder, Ridge
from colonnade.attack.matcher import Matcher, identified
from colonnade.attack.witness import Memory, Witness
from colonnade.audit.attacks import bottom_of
from colonnade.audit.evidence import draw_noise_from, uploads_of, working_copy
from colonnade.audit.held_out import audited_parties, people_at
from colonnade.audit.rows import EVERYBODY, attack_keys, baseline_keys
from colonnade.audit.score import MEASURES, scores, trivial_guesses
from colonnade.audit.settings import Settings
from colonnade.audit.shown import Shown, Uploads
from colonnade.audit.stage import Guess
from colonnade.bench.images.setting import UNDEFENDED, Choice
from colonnade.bench.keystone.matching import fits_of_finished, fits_of_training
from colonnade.bench.keystone.setting import Size
from colonnade.bench.registry import Row
from colonnade.data.batches import Positions
from colonnade.data.records import Records
from colonnade.data.split import split_from_column
from colonnade.defend.keystone import Keystone
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.learn.model import VerticalModel
from colonnade.learn.part import BottomPart
from colonnade.learn.timetable import Timetable
from colonnade.learn.train import train
from colonnade.line_file import plain

_ALIKE = 64  # so many records are uploaded twice, to see whether uploads of a record differ at all
_FURTHER = 3  # the stream of further uploads' noise


@dataclass(frozen=True)
class Found:
    """What came of one victim.

    Attributes:
        scores: of the task, on records that were not trained on.
        rows: one for each attack and party.
    """

    scores: Mapping[str, float]
    rows: list[Row]


@dataclass(frozen=True)
class Division:
    """Who is attacked, and whose records are known instead, as aligned positions.

    Attributes:
        known: whose true pairs an oracle has: people who were held out, then people who were trained on.
        wanted: people who were held out.
        known_trained: half of those who were trained on.
        wanted_trained: of the other half.
    """

    known: Positions
    wanted: Positions
    known_trained: Positions
    wanted_trained: Positions

    @classmethod
    def of(cls, timetable: Timetable, size: Size, seed: int) -> Division:
        """Divide people at random."""
        rng = np.random.default_rng(seed)
        tested, trained = rng.permutation(timetable.test), rng.permutation(timetable.train)
        half = len(trained) // 2
        return cls(
            known=np.concatenate([tested[size.targets :], trained])[: size.pairs],
            wanted=tested[: size.targets],
            known_trained=trained[:half][: size.pairs],
            wanted_trained=trained[half:][: size.targets],
        )


@dataclass(frozen=True)
class Crowd:
    """A trained model and the people whose records went in.

    Attributes:
        model: a working copy, whose defenses will draw other noise.
        federation: who holds the records.
        settings: of the audit.
        seed: of the noise and of the attacks.
    """

    model: VerticalModel
    federation: Federation
    settings: Settings
    seed: int

    def once(self, known: Positions, wanted: Positions) -> Shown:
        """Return the stage on which every record was uploaded once."""
        return self._shown(known, wanted, uploads_of)

    def often(self, known: Positions, wanted: Positions, times: int) -> Shown | None:
        """Return the stage with the mean of many uploads of each record, on an axis of its own.

        None where all uploads of a record are the same.
        """
        if all(self._is_constant(party, wanted) for party in self._parties):
            return None
        return self._shown(known, wanted, lambda bottom, records: _averaged(bottom, records, times)[:, None])

    def remembered(self, known: Positions, wanted: Positions, memory: Memory) -> Shown:
        """Return the stage with all uploads of training."""
        uploads = {party: (memory.of(party, known), memory.of(party, wanted)) for party in self._parties}
        return self._stage(known, wanted, uploads)

    def again(self, party: str, positions: Positions, times: int) -> Iterator[Tensor]:
        """Yield so many further uploads of a party, of which no noise has been seen yet."""
        bottom = bottom_of(self.model, party)
        draw_noise_from(party, bottom, self.seed, stream=_FURTHER)
        uploads = bottom.uploads(self._records(party, positions))
        return (upload.float().cpu() for upload in islice(uploads, times))

    @property
    def _parties(self) -> list[str]:
        return audited_parties(self.model)

    def _shown(self, known: Positions, wanted: Positions, upload: Callable[[BottomPart, Records], Tensor]) -> Shown:
        uploads = {}
        for party in self._parties:
            bottom = bottom_of(self.model, party)
            draw_noise_from(party, bottom, self.seed)
            uploads[party] = (
                upload(bottom, self._records(party, known)),
                upload(bottom, self._records(party, wanted)),
            )
        return self._stage(known, wanted, uploads)

    def _stage(self, known: Positions, wanted: Positions, uploads: Mapping[str, Uploads]) -> Shown:
        auxiliary, targets = (people_at(self.federation, self._parties, part) for part in (known, wanted))
        return Shown(self.model, self.settings, auxiliary, targets, self.seed, uploads)

    def _records(self, party: str, positions: Positions) -> Records:
        assert self.federation.rows is not None
        return self.federation.records[party].take(self.federation.rows[party][positions])

    def _is_constant(self, party: str, positions: Positions) -> bool:
        bottom, records = bottom_of(self.model, party), self._records(party, positions[:_ALIKE])
        return torch.equal(bottom.upload(records), bottom.upload(records))


def read(
    federation: Federation, task: Task, choice: Choice, *, size: Size, dataset: str, seed: int, device: str
) -> Found:
    """Train under the defense `choice` and let everybody read; whole pictures are scored, or each party's columns.

    Args:
        federation: who takes part; aligned, with a split, and every party holds every record.
        task: what is learned.
        choice: the defense.
        size: how much is attacked.
        dataset: what rows call the records.
        seed: of everything.
        device: where networks live.
    """
    timetable = _timetable(federation, task, seed)
    memory, division = Memory(timetable), Division.of(timetable, size, seed)
    model = train(federation, dict(choice), task=task, seed=seed, device=device, progress=False, curious=memory)
    settings = Settings(targets=size.targets, dataset=dataset, device=device)
    crowd = Crowd(working_copy(model, audited_parties(model)), federation, settings, seed)
    once = crowd.once(division.known, division.wanted)
    trained = crowd.remembered(division.known_trained, division.wanted_trained, memory)
    often = crowd.often(division.known, division.wanted, size.repeats)
    rows = [
        *_readings(once, often, trained, size),
        *_matched(once, often, trained, partial(crowd.again, positions=division.wanted, times=size.repeats - 1), size),
    ]
    if dict(choice) == UNDEFENDED:
        rows += _trivial(once)
    about = {party: _about(once, party) for party in _shown_parties(once)}
    return Found(model.scores, plain([{**row, **about[row["party"]]} for row in rows]))


def _timetable(federation: Federation, task: Task, seed: int) -> Timetable:
    assert federation.rows is not None and federation.split is not None and federation.active is not None
    parts = federation.split.iloc[federation.rows[federation.active]]
    split = split_from_column(parts, validation=task.split.validation, seed=seed)
    return Timetable(split, task.batch_size, task.epochs, seed)


def _readings(once: Shown, often: Shown | None, trained: Shown, size: Size) -> Iterator[Row]:
    """Yield the rows of all that guess records: of one upload, of many, of all of training."""
    recipe: dict[str, Any] = {"epochs": size.decoder_epochs, "mixed": _mixed(once.settings.device)}
    strong, repeated, witness = Decoder("strong", **recipe), Decoder("repeated", **recipe), Witness(**recipe)
    guesses = list(once.attacked_by(strong, None))
    yield from _scored(strong, once, guesses)
    if often is None:  # the mean of equal uploads is what was read already
        yield from _scored(repeated, once, guesses)
    else:
        yield from _scored(repeated, often, often.attacked_by(repeated, None))
    yield from _scored(witness, trained, trained.attacked_by(witness, None))
    if not once.whole:  # of pictures, whose uploads are long, it would take minutes
        yield from _scored(Ridge(), once, once.attacked_by(Ridge(), None))


def _scored(attack: Attack, stage: Shown, guesses: Iterable[Guess]) -> Iterator[Row]:
    for guess in guesses:
        if guess.party in _shown_parties(stage):
            yield {**_keys(stage, guess.party, attack_keys(attack)), **scores(guess.truth, guess.guesses)}


def _matched(
    once: Shown, often: Shown | None, trained: Shown, again: Callable[[str], Iterable[Tensor]], size: Size
) -> Iterator[Row]:
    """Yield how many people were named: by both halves of a picture together, or by one party's columns.

    Of two ways to read the same uploads, the one that names more.
    """
    matcher = Matcher(size.matcher_epochs, mixed=_mixed(once.settings.device))
    found: dict[tuple[str, str], float] = {}
    for name, fits in (*fits_of_finished(matcher, once, often, again), *fits_of_training(matcher, trained)):
        for party, fit in ({EVERYBODY: torch.stack(list(fits.values())).sum(0)} if once.whole else fits).items():
            found[name, party] = max(found.get((name, party), 0.0), identified(fit))
    for (name, party), share in found.items():
        unknown = dict.fromkeys(MEASURES, math.nan)
        keys = {**attack_keys(matcher), "attack": name}
        yield {**_keys(once, party, keys), **unknown, "identification": share}


def _trivial(stage: Shown) -> Iterator[Row]:
    for party, truth in {**stage.truths, **stage.whole}.items():
        if party in _shown_parties(stage):
            for name, guesses in trivial_guesses(truth, stage.seed).items():
                yield {**_keys(stage, party, baseline_keys(name)), **scores(truth, guesses)}


def _shown_parties(stage: Shown) -> list[str]:
    """Return whose rows are shown: whole pictures where parties hold strips of them, else each party."""
    return list(stage.whole or stage.truths)


def _keys(stage: Shown, party: str, tried: Row) -> Row:
    return {**stage.keys(party), **tried, **stage.seeds}


def _about(stage: Shown, party: str) -> Row:
    """Return how many numbers a party uploads for a record, and how many bits they can carry where that is known."""
    one = next(iter(stage.truths)) if party == EVERYBODY else party
    defense = bottom_of(stage.model, one).defense
    bits = defense.capacity_bits() if isinstance(defense, Keystone) else math.nan
    return {"upload_numbers": stage.uploads[one][1][0].numel(), "capacity_bits": bits}


def _averaged(bottom: BottomPart, records: Records, times: int) -> Tensor:
    """Return the mean of so many uploads; only their sum is kept, because all of them would fill the memory."""
    uploads = bottom.uploads(records)
    total = next(uploads).float()
    for _ in range(times - 1):
        total += next(uploads)
    return (total / times).cpu()


def _mixed(device: str) -> bool:
    return device != "cpu"
