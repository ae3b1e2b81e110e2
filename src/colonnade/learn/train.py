"""Train a federation that lives in one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from colonnade.align.alignment import Alignment
from colonnade.defend import make_defense
from colonnade.defend.base import Defense
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.federation import Federation
from colonnade.federation.task import Task
from colonnade.federation.yaml_file import known_keys
from colonnade.learn.active import Active, Curious
from colonnade.learn.agreement import Agreement
from colonnade.learn.choices import require_choices
from colonnade.learn.model import VerticalModel
from colonnade.learn.part import Part
from colonnade.learn.passive import Passive
from colonnade.learn.role import Seat, require_labels, require_secrets
from colonnade.nets.device import require_device
from colonnade.progress import Progress, make_progress
from colonnade.run import Run, party_runs
from colonnade.wire.channel import Channel
from colonnade.wire.together import run_together

DefenseChoice = str | Defense | Mapping[str, Any]


def train(
    federation: Federation,
    defense: DefenseChoice = "none",
    *,
    task: Task | None = None,
    seed: int = 0,
    device: str = "cpu",
    run: Path | str | None = None,
    resume: bool = False,
    progress: bool | Progress = True,
    curious: Curious | None = None,
    **settings: Any,
) -> VerticalModel:
    """Train one model over the columns of all parties.

    Args:
        federation: who takes part; aligned, or with ids that `co.align` can align.
        defense: a name, `{"name": ..., strength...}`, or one such choice per passive party.
        task: what is learned; or give its settings as keywords (`epochs=5, network={"family": "resnet18"}`).
        seed: every random choice comes from it.
        device: where networks live, `cpu` or `cuda`.
        run: folder to keep checkpoints, metrics and each party's ledger in; None keeps nothing.
        resume: go on from the last step that all parties hold in `run`.
        progress: show a bar when the output is a terminal; or a `Progress` of your own.
        curious: an active party that looks closer; used by attacks.
        settings: fields of `Task`.

    Returns:
        The trained model, whose `scores` are those of the test records.
    """
    computing = require_device(device)
    if federation.active is None:
        raise DataError("no party holds a label", where="label", remedy="give label=(party, column)")
    if federation.rows is None:
        raise DataError("the records are not aligned", where="federation", remedy="call co.align(federation) first")
    agreed = Agreement("local", federation.parties, federation.active, _task(task, settings), seed)
    _require_split(federation, agreed.task)
    chosen = _defenses(defense, agreed)
    for party in agreed.parties:
        require_labels(chosen[party], agreed, party)
        require_secrets(chosen[party], federation.records[party], party)
        if resume and run is not None:
            require_choices(Path(run) / party, chosen[party], federation.records[party], party)
    agreed.task.weights.require_room(sum(federation.records[party].has_features for party in agreed.parties))
    bar = progress if isinstance(progress, Progress) else make_progress("auto" if progress else "silent")
    with ExitStack() as stack:
        folders = {party: stack.enter_context(folder) for party, folder in _run_folders(run, agreed, resume)}
        roles = {}
        for party in agreed.parties:
            seat = Seat(
                party,
                federation.records[party],
                Alignment(federation.rows[party], "local", agreed.task.missing),
                chosen[party],
                computing,
                folders.get(party),
                resume,
                split=federation.split if party == agreed.active else None,
            )
            roles[party] = partial(_live, agreement=agreed, seat=seat, progress=bar, curious=curious)
        return VerticalModel(agreed, run_together(roles, agreed.run), federation)


def _live(channel: Channel, agreement: Agreement, seat: Seat, progress: Progress, curious: Curious | None) -> Part:
    if seat.run:
        channel.observe(seat.run.ledger.record)
    return take_part(channel, agreement, seat, progress, curious)


def take_part(
    channel: Channel, agreement: Agreement, seat: Seat, progress: Progress, curious: Curious | None = None
) -> Part:
    """Live one party's training run over `channel`; with a run folder, keep its part of the model there."""
    if seat.party == agreement.active:
        part = Active(channel, agreement, seat, progress, curious).run()
    else:
        part = Passive(channel, agreement, seat).run()
    if seat.run:
        part.save(seat.run.path / "model")
        # The ending itself counts what all attempts of a resumed run have sent.
        traffic = {"sent_bytes": channel.sent_bytes, "received_bytes": channel.received_bytes}
        seat.run.finish({**part.result, "last_attempt": traffic})
    return part


def _task(task: Task | None, settings: Mapping[str, Any]) -> Task:
    if task is not None and settings:
        raise ConfigError("give a task or its settings, not both", where="task")
    if task is not None:
        return task
    network = settings.get("network")
    if isinstance(network, str):
        settings = {**settings, "network": {"family": network}}
    try:
        return Task.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        location = [str(part) for part in first["loc"]]
        known = first["type"] != "extra_forbidden"
        raise ConfigError(
            first["msg"] if known else "unknown setting",
            where=".".join(location),
            remedy=None if known else nearest(location[-1], known_keys(Task, location[:-1])),
        ) from error


def _require_split(federation: Federation, task: Task) -> None:
    """Refuse a task that names a column of parts where the federation has set none aside, or another one.

    A random split in its place would test on records that should have been held out, and nobody would notice.
    """
    column = task.split.column
    if column is None or (federation.split is not None and federation.split.name in (None, column)):
        return
    remedy = "name it as split= of Federation.from_frame or from_frames"
    raise ConfigError("this federation has no such column", where="task.split.column", remedy=remedy)


def _defenses(choice: DefenseChoice, agreed: Agreement) -> dict[str, Defense]:
    """Return one defense per party: a defense belongs to one party and keeps its own random stream."""
    if isinstance(choice, Defense) and len(agreed.passive) > 1:
        raise ConfigError("one defense object can't serve several parties", where="defense", remedy="give its name")
    if isinstance(choice, Mapping) and "name" not in choice:
        chosen: Mapping[str, DefenseChoice] = choice
        if unknown := set(chosen) - set(agreed.parties):
            name = min(unknown)
            raise ConfigError(f"no party '{name}'", where="defense", remedy=nearest(name, agreed.parties))
    else:
        # What the active party computes from its own columns leaves it only where labels are shared: name it then.
        chosen = dict.fromkeys(agreed.passive, choice)
    return {party: _one_defense(chosen.get(party, "none")) for party in agreed.parties}


def _one_defense(choice: DefenseChoice) -> Defense:
    return named_defense(choice) if isinstance(choice, Mapping) else make_defense(choice)


def named_defense(described: Mapping[str, Any]) -> Defense:
    """Return the defense that `{"name": ..., strength...}` describes."""
    strength = dict(described)
    return make_defense(strength.pop("name"), **strength)


def _run_folders(root: Path | str | None, agreed: Agreement, resume: bool) -> Iterator[tuple[str, Run]]:
    config: dict[str, Any] = {
        "task": agreed.task.model_dump(mode="json"),
        "parties": list(agreed.parties),
        "active": agreed.active,
        "seed": agreed.seed,
    }
    return party_runs(root, agreed.parties, config, resume)
