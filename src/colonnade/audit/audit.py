"""The audit of one trained model: every attack on every party that uploads, scored beside trivial guesses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from colonnade.audit.attacks import AttackChoice, chosen_attacks
from colonnade.audit.book import Book
from colonnade.audit.evidence import working_copy
from colonnade.audit.held_out import held_out_of
from colonnade.audit.result import AuditResult
from colonnade.audit.rows import attack_keys
from colonnade.audit.settings import seeds_from, settings_from
from colonnade.audit.stage import Guess, Stage
from colonnade.audit.witnessed import witnessed
from colonnade.errors import ColonnadeError
from colonnade.federation.federation import Federation
from colonnade.learn.model import Frames, VerticalModel
from colonnade.nets.device import require_device
from colonnade.progress import Progress, make_progress


def audit(
    model: VerticalModel,
    attacks: AttackChoice | Iterable[AttackChoice] = ("decoder",),
    *,
    federation: Federation | None = None,
    records: Frames | None = None,
    seeds: int | Sequence[int] = 3,
    progress: bool | Progress = True,
    **settings: Any,
) -> AuditResult:
    """Attack what the parties of a trained model upload, and say what was found.

    The records that the model was tested on are divided into auxiliary records, which the attacker knows, and targets,
    which it wants; each seed divides them anew. Each attack is granted what its knowledge names and nothing else. An
    attack that takes part in training gets a training of its own, and one that reads the uploads of training a
    repetition, with targets among those who were trained on; utility always comes from the honest model. One of several
    attacks that can't be run, or breaks its training, is left out, and named in `notes`. The active party's own uploads
    leave it where labels are shared; there it is attacked like the others.

    Args:
        model: a trained model, or one party's part of it.
        attacks: names, `{"name": ..., parameters...}`, or attacks.
        federation: whom the model was trained with, where the model does not remember it.
        records: instead of the federation's test records, others that the model was not trained on, as
            `model.predict` takes them. With these a party can audit its own part alone.
        seeds: how many divisions and attacks of each kind, or the seeds themselves.
        progress: show a bar when the output is a terminal; or a `Progress` of your own.
        settings: fields of `Settings`: auxiliary, targets, repeats, threshold, dataset, device.
    """
    listed, how, numbers = chosen_attacks(attacks), settings_from(settings), seeds_from(seeds)
    require_device(how.device)
    held = held_out_of(model, federation, records)
    known = None if records is not None else federation or model.federation
    bar = progress if isinstance(progress, Progress) else make_progress("auto" if progress else "silent")
    copied = working_copy(model, held.records)
    book = Book(model.scores.get("accuracy"), how.threshold)
    left_out: list[tuple[int, ColonnadeError]] = []
    candidates_of: dict[str, int] = {}
    bar.start(len(numbers) * len(listed), "audit")
    for played, seed in enumerate(numbers):
        stage = Stage.of(copied, held, how, seed)
        for place, attack in enumerate(listed, start=1):
            guesses: list[Guess] = []
            try:
                played_on = witnessed(attack, stage, known) if attack.of_training else stage
                guesses = list(played_on.attacked_by(attack, known))
                if played_on is not stage:
                    candidates_of[attack.name] = played_on.candidates
            except ColonnadeError as error:  # what other attacks have found, or will find, must not go with it
                left_out.append((seed, error))
            for guess in guesses:
                keys = {**stage.keys(guess.party), **attack_keys(attack)}
                book.add_attack(keys, stage.seeds, guess.truth, guess.guesses, pictures=played == 0)
            bar.advance(played * len(listed) + place, attack=attack.name)
        for party, truth in {**stage.truths, **stage.whole}.items():
            book.add_baselines(stage.keys(party), stage.seeds, truth)
    bar.close()
    if len(left_out) == len(numbers) * len(listed):
        raise left_out[0][1]
    about = {"records": len(held), **stage.described(), "seeds": numbers, "left_out": _told(left_out, numbers)}
    return book.result({**about, "candidates_of": candidates_of} if candidates_of else about)


def _told(left_out: Sequence[tuple[int, ColonnadeError]], seeds: Sequence[int]) -> list[str]:
    """Return each reason once, with its seeds where others went well."""
    reasons: dict[str, list[int]] = {}
    for seed, error in left_out:
        reasons.setdefault(str(error), []).append(seed)
    of_all = len(seeds)
    return [
        reason if len(spoiled) == of_all else f"{reason} (seed {', '.join(map(str, spoiled))})"
        for reason, spoiled in reasons.items()
    ]
