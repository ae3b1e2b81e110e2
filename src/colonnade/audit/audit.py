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
from colonnade.audit.stage import Stage
from colonnade.audit.witnessed import witnessed
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
    repetition, with targets among those who were trained on; utility always comes from the honest model. The active
    party's own uploads leave it where labels are shared; there it is attacked like the others.

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
    bar.start(len(numbers) * len(listed), "audit")
    for played, seed in enumerate(numbers):
        stage = Stage.of(copied, held, how, seed)
        for place, attack in enumerate(listed, start=1):
            played_on = witnessed(attack, stage, known) if attack.of_training else stage
            for guess in played_on.attacked_by(attack, known):
                keys = {**stage.keys(guess.party), **attack_keys(attack)}
                book.add_attack(keys, stage.seeds, guess.truth, guess.guesses, pictures=played == 0)
            bar.advance(played * len(listed) + place, attack=attack.name)
        for party, truth in {**stage.truths, **stage.whole}.items():
            book.add_baselines(stage.keys(party), stage.seeds, truth)
    bar.close()
    return book.result({"records": len(held), **stage.described(), "seeds": numbers})
