"""How an attack gets its turn: afterwards on what was uploaded, or inside a training that is repeated for it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from torch import Tensor

from colonnade.attack import Attack, Insider, Knowledge, make_attack, run_attack
from colonnade.attack.evidence import Evidence
from colonnade.audit.evidence import before_training, draw_noise_on, uploads_of
from colonnade.audit.held_out import HeldOut
from colonnade.errors import ConfigError, RunError
from colonnade.federation.federation import Federation
from colonnade.learn.model import VerticalModel
from colonnade.learn.part import BottomPart
from colonnade.learn.train import train

AttackChoice = str | Attack | Mapping[str, Any]
"""A name, `{"name": ..., parameters...}`, or an attack."""


class SpoiledTrainingError(RunError):
    """An attack drove its victims until their numbers ran away: it has found nothing, and others may have."""


A = TypeVar("A", bound=Attack)
Inside = TypeVar("Inside", bound=Insider)


def chosen_attacks(choices: AttackChoice | Iterable[AttackChoice]) -> list[Attack]:
    """Return the attacks that were chosen, all made before any of them runs."""
    listed = [choices] if isinstance(choices, str | Attack | Mapping) else list(choices)
    if not listed:
        raise ConfigError("no attack was chosen", where="attacks", remedy="co.attacks() lists them")
    return [_made(choice) for choice in listed]


def bottom_of(model: VerticalModel, party: str) -> BottomPart:
    """Return the bottom part of an audited party."""
    bottom = model.parts[party].bottom
    assert bottom is not None, "audited parties have a bottom model"
    return bottom


def attack_afterwards(attack: Attack, evidence: Mapping[str, Evidence], seed: int, device: str) -> dict[str, Tensor]:
    """Return the guesses for every party's targets of an attack that works on what was uploaded."""
    return {party: run_attack(fresh(attack, seed, device), held).cpu() for party, held in evidence.items()}


def attack_inside(
    insider: Insider,
    model: VerticalModel,
    federation: Federation | None,
    auxiliary: HeldOut,
    targets: HeldOut,
    *,
    seed: int,
    device: str,
) -> dict[str, Tensor]:
    """Repeat the training with `insider` as its active party; return its guesses for the targets' uploads.

    Everything else is as it was: federation, task, seed, defenses. The honest model is not touched.
    """
    if getattr(insider, "needs_top", False):
        # Who asks the top model needs an upload of everybody it joins: the active party knows its own.
        auxiliary, targets = auxiliary.with_own(), targets.with_own()
    defenses = defenses_of(model)
    curious, attacked = train_inside(insider, model, federation, auxiliary, defenses, seed=seed, device=device)
    uploads = {party: _uploads(bottom_of(attacked, party), targets, party, seed) for party in auxiliary.records}
    for party, upload in uploads.items():
        if not upload.isfinite().all():  # a gradient of the last step, after which nobody looked
            raise _spoiled(insider, f"{party}: uploads are no numbers")
    labels = targets.labels if Knowledge.LABELS in insider.knowledge else None
    return {party: guesses.cpu() for party, guesses in curious.reconstruct_all(uploads, labels=labels).items()}


def train_inside(
    insider: Inside,
    model: VerticalModel,
    federation: Federation | None,
    auxiliary: HeldOut,
    defenses: Mapping[str, Any],
    *,
    seed: int,
    device: str,
) -> tuple[Inside, VerticalModel]:
    """Repeat the training of `model` under these defenses; return the insider, who has learned, and the victims."""
    whole = require_training(insider, model, federation)
    curious, agreement = fresh(insider, seed, device), model.agreement
    task = agreement.task
    known = {
        party: replace(
            before_training(party, bottom_of(model, party), auxiliary, seed=seed), moved=task.augment == "shift"
        )
        for party in auxiliary.records
    }
    curious.meet(known)
    if Knowledge.GRADIENTS_CONTROL in insider.knowledge:
        # The top model learns nothing under such an attack, and who attacks does not stop early for that.
        task = task.model_copy(update={"patience": None})
    try:
        attacked = train(
            whole, defenses, task=task, seed=agreement.seed, device=device, progress=False, curious=curious
        )
    except RunError as error:
        raise _spoiled(insider, f"{error.where}: {error.what}") from error
    curious.finish()
    return curious, attacked


def _spoiled(insider: Insider, how: str) -> SpoiledTrainingError:
    what = f"the training that it took part in broke down, which nobody overlooks: {how}"
    return SpoiledTrainingError(what, where=f"attack '{insider.name}'", remedy="lower its learning rate")


def require_training(attack: Attack, model: VerticalModel, federation: Federation | None) -> Federation:
    """Return whom the model was trained with; raise where its training can't be repeated."""
    if federation is None or not set(model.agreement.parties) <= set(model.parts):
        remedy = "audit the whole model with its federation, or choose an attack that comes afterwards"
        what = "it takes part in training, which can't be repeated here"
        raise ConfigError(what, where=f"attack '{attack.name}'", remedy=remedy)
    return federation


def defenses_of(model: VerticalModel) -> dict[str, dict[str, Any]]:
    """Return every party's defense, as a training takes it."""
    return {party: part.bottom.defense.describe() for party, part in model.parts.items() if part.bottom}


def wants_repeats(attack: Attack) -> bool:
    """Return whether the attack averages several uploads of the same record."""
    return attack.takes_repeats


def fresh(attack: A, seed: int, device: str) -> A:
    """Return a copy that has learned nothing yet, with a random stream of its own."""
    own = copy.deepcopy(attack)
    own.seed(seed, device)
    return own


def _made(choice: AttackChoice) -> Attack:
    if isinstance(choice, Mapping):
        if not isinstance(choice.get("name"), str):
            raise ConfigError(f"{dict(choice)} names no attack", where="attacks", remedy='give {"name": ...}')
        parameters = dict(choice)
        return make_attack(parameters.pop("name"), **parameters)
    return make_attack(choice)


def _uploads(bottom: BottomPart, targets: HeldOut, party: str, seed: int) -> Tensor:
    records = targets.records[party]
    draw_noise_on(records, party, bottom, seed)
    return uploads_of(bottom, records)
