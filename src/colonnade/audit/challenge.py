"""Challenges: exactly what an attack may know, in a folder that anyone's program can read; the truth lies elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from colonnade.attack import Attack, Evidence, Insider, Knowledge
from colonnade.audit.architecture import describe_architecture, factory_of
from colonnade.audit.attacks import bottom_of, wants_repeats
from colonnade.audit.evidence import operator_seed, twin_of, working_copy
from colonnade.audit.held_out import held_out_of
from colonnade.audit.sealed import check_free, seal, unseal
from colonnade.audit.settings import settings_from
from colonnade.audit.stage import Stage
from colonnade.audit.submission import seal_truth
from colonnade.defend.base import Defense
from colonnade.errors import ConfigError, RunError, nearest
from colonnade.federation.federation import Federation
from colonnade.learn.model import Frames, VerticalModel
from colonnade.nets import build_bottom

_TENSORS = (
    Knowledge.UPLOADS,
    Knowledge.LABELS,
    Knowledge.AUXILIARY_RECORDS,
    Knowledge.AUXILIARY_LABELS,
    Knowledge.AUXILIARY_UPLOADS,
)
"""Knowledge that is one tensor: one file each, with one tensor of the same name."""

_RECIPE = ("family", "input_shape", "cut", "hidden")
"""What of an architecture tells on which bottom a defense was built: its operator may follow from that."""


def export_challenge(
    model: VerticalModel,
    knowledge: Attack | Iterable[str],
    folder: Path | str,
    *,
    truth: Path | str,
    party: str | None = None,
    federation: Federation | None = None,
    records: Frames | None = None,
    seed: int = 0,
    **settings: Any,
) -> Path:
    """Write what an attack on one party may know into `folder`, and what its guesses are held against into `truth`.

    Args:
        model: the trained model.
        knowledge: an attack, or the names of what is granted; uploads always are.
        folder: for the attacker; holds the granted things and nothing else.
        truth: for whoever scores the guesses; never give it to the attacker.
        party: whose uploads; may be left out where one party is audited.
        federation: as for `audit`.
        records: as for `audit`.
        seed: of the division into auxiliary records and targets, and of the defense's noise.
        settings: fields of `Settings`, as for `audit`.
    """
    target, sealed = Path(folder), Path(truth)
    _check_folders(target, sealed)
    how, granted = settings_from(settings), _granted(knowledge)
    held = held_out_of(model, federation, records)
    stage = Stage.of(working_copy(model, held.records), held, how, seed)
    victim = _victim(list(stage.targets.records), party)
    repeats = how.repeats if isinstance(knowledge, Attack) and wants_repeats(knowledge) else None
    evidence = stage.evidence(victim, repeats).only(granted, where="challenge")
    if evidence.imitation is not None:
        what = f"what '{bottom_of(stage.model, victim).defense.name}' does hangs on a bottom model, which no folder has"
        raise ConfigError(what, where="challenge", remedy="run the attack with co.audit, or grant no defense_operator")
    described = {
        "knowledge": sorted(granted),
        "input_shape": list(evidence.input_shape),
        "targets": len(stage.targets),
        "repeats": repeats,
        **_plans(stage, victim, granted),
    }
    things: dict[str, dict[str, Tensor]] = {name: {name: evidence.held[name]} for name in _TENSORS if name in granted}
    if Knowledge.WEIGHTS in granted:
        things[Knowledge.WEIGHTS] = evidence.bottom.state_dict()
    digest = seal(target, "challenge", described, things)
    seal_truth(sealed, stage, victim, granted, digest)
    return target


def read_challenge(folder: Path | str) -> Evidence:
    """Return a challenge as the evidence that our own attacks take: `run_attack(attack, read_challenge(folder))`."""
    described, things = unseal(Path(folder), "challenge")
    try:
        granted = {Knowledge(name) for name in described["knowledge"]}
        held: dict[str, Any] = {name: things[name][name] for name in _TENSORS if name in granted}
        if Knowledge.ARCHITECTURE in granted:
            known = held.get(Knowledge.AUXILIARY_RECORDS)
            held[Knowledge.ARCHITECTURE] = factory_of(described["architecture"], known)
        if Knowledge.WEIGHTS in granted:
            network = factory_of(described["architecture"])(0)
            network.load_state_dict(things[Knowledge.WEIGHTS])
            held[Knowledge.WEIGHTS] = network.eval()
        if Knowledge.DEFENSE_OPERATOR in granted:
            fitted = described.get("fitted", {})  # older folders have no such key, and most defenses need none
            twin = _twin(described["defense"], described["recipe"], fitted)
            twin.seed(described.get("operator_seed", 0))  # nor this one
            held[Knowledge.DEFENSE_OPERATOR] = twin.operator()
        return Evidence(tuple(described["input_shape"]), held)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        where = str(Path(folder) / "challenge.json")
        raise RunError(f"does not fit its files: {error}", where=where, remedy="get the folder anew") from error


def _check_folders(target: Path, truth: Path) -> None:
    """Look at both folders before anything is written: half a challenge would stand in the way of the whole one."""
    if truth.resolve().is_relative_to(target.resolve()):
        raise ConfigError("lies in the attacker's folder", where=str(truth), remedy="put the truth elsewhere")
    if target.resolve().is_relative_to(truth.resolve()):
        raise ConfigError("lies in the folder of the truth", where=str(target), remedy="put the challenge elsewhere")
    for folder in (target, truth):
        check_free(folder)


def _twin(defense: Mapping[str, Any], recipe: Mapping[str, Any], fitted: Mapping[str, float]) -> Defense:
    """Return a defense of the same kind, built as the victim's was: some treat tables and pictures unlike."""
    twin = twin_of(defense, 0)
    twin.extend(build_bottom(**recipe, seed=0), tuple(recipe["input_shape"]))
    twin.load_fitted(fitted)
    return twin


def _granted(knowledge: Attack | Iterable[str]) -> frozenset[Knowledge]:
    names = knowledge.knowledge if isinstance(knowledge, Attack) else list(knowledge)
    for name in names:
        if name not in set(Knowledge):
            raise ConfigError(f"unknown knowledge '{name}'", where="challenge", remedy=nearest(name, set(Knowledge)))
    if isinstance(knowledge, Insider):
        what = f"attack '{knowledge.name}' takes part in training, which can't be put into a folder"
        raise ConfigError(what, where="challenge", remedy="run it with co.audit")
    if Knowledge.GRADIENTS_CONTROL in names:
        remedy = "it has to take part in a training: run it with co.audit"
        raise ConfigError("control over gradients can't be put into a folder", where="challenge", remedy=remedy)
    if isinstance(knowledge, Attack) and knowledge.of_training:
        remedy = "it reads a training that is repeated for it: run it with co.audit"
        raise ConfigError("a challenge holds uploads of the finished model", where="challenge", remedy=remedy)
    return frozenset(Knowledge(name) for name in names) | {Knowledge.UPLOADS}


def _victim(parties: list[str], party: str | None) -> str:
    if party is None and len(parties) == 1:
        return parties[0]
    if party not in parties:
        what = "several parties could be attacked" if party is None else f"no audited party '{party}'"
        raise ConfigError(what, where="party", remedy=f"choose one of {', '.join(parties)}")
    return party


def _plans(stage: Stage, victim: str, granted: frozenset[Knowledge]) -> dict[str, Any]:
    """Return the knowledge that is no tensor: how the bottom is built, which defense it was, on what, how fitted."""
    plans: dict[str, Any] = {}
    if not granted & {Knowledge.ARCHITECTURE, Knowledge.WEIGHTS, Knowledge.DEFENSE_OPERATOR}:
        return plans
    bottom = bottom_of(stage.model, victim)
    building = describe_architecture(bottom)
    if granted & {Knowledge.ARCHITECTURE, Knowledge.WEIGHTS}:
        plans["architecture"] = building
    if Knowledge.DEFENSE_OPERATOR in granted:
        plans["defense"] = bottom.defense.describe()
        plans["recipe"] = {name: building[name] for name in _RECIPE}
        plans["fitted"] = bottom.defense.fitted()
        plans["operator_seed"] = operator_seed(victim, stage.seed)
    return plans
