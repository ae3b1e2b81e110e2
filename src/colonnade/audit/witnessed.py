"""The uploads of a training, for an attack that reads those: the training is repeated, and nothing is forgotten.

A finished model may upload otherwise than it did while it trained, and uploads a record once where training uploaded it
in every epoch. Whoever was trained on has left the party in those uploads.
"""

from __future__ import annotations

import numpy as np

from colonnade.attack.base import Attack
from colonnade.attack.witness import Memory
from colonnade.audit.attacks import defenses_of, require_training
from colonnade.audit.held_out import FEWEST, audited_parties, people_at, split_of
from colonnade.audit.shown import Shown
from colonnade.audit.stage import Stage
from colonnade.errors import DataError
from colonnade.federation.federation import Federation
from colonnade.learn.timetable import Timetable
from colonnade.learn.train import train


def witnessed(attack: Attack, stage: Stage, federation: Federation | None) -> Shown:
    """Repeat the training of the stage's model with an honest active party that keeps every upload.

    The people who were trained on are divided as those held out are: the attack knows some of them, and wants others.
    """
    model, settings = stage.model, stage.settings
    whole = require_training(attack, model, federation)
    agreement = model.agreement
    task = agreement.task
    timetable = Timetable(split_of(agreement, whole), task.batch_size, task.epochs, agreement.seed)
    trained = np.random.default_rng(stage.seed).permutation(timetable.train)
    if len(trained) < FEWEST:
        remedy = f"an attack on them needs at least {FEWEST}"
        raise DataError(f"{len(trained)} records were trained on", where=f"attack '{attack.name}'", remedy=remedy)
    memory = Memory(timetable)
    train(
        whole,
        defenses_of(model),
        task=task,
        seed=agreement.seed,
        device=settings.device,
        progress=False,
        curious=memory,
    )
    count = int(np.clip(round(settings.auxiliary * len(trained)), 2, len(trained) - 2))
    known, wanted = trained[:count], trained[count : count + settings.targets]
    parties = audited_parties(model)
    uploads = {party: (memory.of(party, known), memory.of(party, wanted)) for party in parties}
    auxiliary, targets = (people_at(whole, parties, positions) for positions in (known, wanted))
    return Shown(model, settings, auxiliary, targets, stage.seed, uploads)
