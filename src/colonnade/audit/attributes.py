"""The audit of secrets: can fresh attackers read a sensitive attribute off the uploads of a trained model?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from colonnade.attack.attribute import ATTRIBUTE_ATTACKERS, FEWEST_PAIRS, MOST_PAIRS, make_attribute_attacker
from colonnade.audit.attribute_result import AttributeResult, leak_row
from colonnade.audit.attribute_secrets import Columns, LeftOut, columns_of
from colonnade.audit.attribute_views import Secrets, views
from colonnade.audit.evidence import working_copy
from colonnade.audit.held_out import HeldOut, divide, held_out_of
from colonnade.audit.rows import Row
from colonnade.audit.settings import Settings, seeds_from
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.federation import Federation
from colonnade.learn.model import Frames, VerticalModel
from colonnade.nets.device import require_device
from colonnade.progress import Progress, make_progress
from colonnade.strength import number

ATTACKERS = ("linear", "mlp", "boosting", "conv")
TARGETS = 10_000
"""At most so many: among a thousand records an accuracy would be sure to three points only."""


def audit_attributes(
    model: VerticalModel,
    federation: Federation | None = None,
    *,
    secrets: Mapping[str, Columns] | None = None,
    records: Frames | None = None,
    attackers: str | Sequence[str] = ATTACKERS,
    seeds: int | Sequence[int] = 3,
    progress: bool | Progress = True,
    auxiliary: float = 0.5,
    targets: int = TARGETS,
    pairs: int = MOST_PAIRS,
    dataset: str = "",
    device: str = "cpu",
) -> AttributeResult:
    """Let fresh attackers guess the secrets of each party from what it uploads, and from all uploads together.

    The records that the model was tested on are divided into auxiliary records, whose secrets and uploads the attacker
    knows, and targets; each seed divides them anew. The uploads of both come from the final model: the attacker can
    query the victim, or colludes with some of its people. The same attackers on the raw columns are the ceiling, the
    commonest class of the auxiliary records is the floor. Where several parties are audited, the client `all` has all
    their uploads at once, as the active party does: hiding a secret at one party is in vain where another tells it.
    The active party's own uploads leave it where labels are shared; there it is audited like the others.

    A secret that too few of the auxiliary records have, or that is the same in all of them, is left out, and `notes` of
    the result says so.

    Args:
        model: a trained model, or one party's part of it.
        federation: whom the model was trained with, where the model does not remember it.
        secrets: sensitive columns of audited parties: a frame or series indexed by the records' ids, or names of
            columns that the party's records have. None takes those that the records name (`Records.secrets`).
        records: instead of the federation's test records, others that the model was not trained on.
        attackers: names of `ATTRIBUTE_ATTACKERS`; one that reads maps only is left out where there are none.
        seeds: how many divisions and trainings of each attacker, or the seeds themselves.
        progress: show a bar when the output is a terminal; or a `Progress` of your own.
        auxiliary: the share of the held-out records that the attacker knows.
        targets: at most so many of the others are attacked.
        pairs: an attacker learns from at most so many auxiliary records.
        dataset: what the records are called in the result.
        device: where attackers that are networks compute, `cpu` or `cuda`.
    """
    chosen, numbers = _chosen(attackers), seeds_from(seeds)
    require_device(device)
    how = Settings(auxiliary=auxiliary, targets=targets)
    number("pairs", pairs, at_least=FEWEST_PAIRS, whole=True)
    held = held_out_of(model, federation, records)
    hidden = _secrets_of(model, held, secrets)
    bar = progress if isinstance(progress, Progress) else make_progress("auto" if progress else "silent")
    copied = working_copy(model, held.records)
    known = {"dataset": dataset, "model_seed": model.agreement.seed, "target": _target(model)}
    rows: list[Row] = []
    left_out, tried = LeftOut(), False
    bar.start(len(numbers), "attribute audit")
    for played, seed in enumerate(numbers, start=1):
        parts = divide(held, how.auxiliary, how.targets, seed)
        fresh = partial(make_attribute_attacker, seed=seed, pairs=pairs, device=device)
        for view in views(copied, parts, hidden, seed):
            for new in left_out.add(view.client, view.refused, seed):
                bar.message(f"left out: {new}")
            for secret in view.secrets:
                tried = True
                for leak in view.leaks(secret, chosen, fresh):
                    keys = {"method": view.method, "client": view.client, "secret": secret.name, "seed": seed}
                    rows.append({**known, **keys, **leak_row(leak)})
        bar.advance(played, seed=seed)
    bar.close()
    if not tried:
        raise left_out.error()
    if not rows:
        what = f"{', '.join(chosen)} can't read uploads that are no maps"
        raise ConfigError(what, where="attackers", remedy="choose linear, mlp or boosting")
    counted = {"records": len(held), "auxiliary": len(parts[0]), "targets": len(parts[1]), "pairs": pairs}
    about = {**counted, "attackers": chosen, "seeds": numbers, "left_out": left_out.told(numbers)}
    return AttributeResult(pd.DataFrame(rows), about)


def _secrets_of(model: VerticalModel, held: HeldOut, given: Mapping[str, Columns] | None) -> Secrets:
    """Return the sensitive columns of the audited parties: those given, or those that their records name."""
    if given is not None and not isinstance(given, Mapping):
        remedy = 'give {"<party>": frame}, one row per record, indexed by the records\' ids'
        raise ConfigError(
            f"{type(given).__name__} does not say whose secrets these are", where="secrets", remedy=remedy
        )
    for party in given or {}:
        if party not in held.records:
            raise _not_audited(model, held, party)
    named = {party: records.secrets for party, records in held.records.items()}
    if given is not None:
        named = {party: columns_of(party, columns, held.records[party]) for party, columns in given.items()}
    found = {party: frame for party, frame in named.items() if frame is not None and len(frame.columns)}
    if not found:
        shared = model.agreement.task.labels == "shared"
        remedy = f"name sensitive columns of {' or '.join(held.records) if shared else 'a passive party'}"
        raise ConfigError("no audited party has a secret", where="secrets", remedy=remedy)
    for party, frame in found.items():
        if not frame.index.is_unique or not held.records[party].ids.isin(frame.index).any():
            remedy = "index the sensitive columns by the records' ids"
            raise DataError("no record can be found, or one twice", where=f"{party}: secrets", remedy=remedy)
    return found


def _not_audited(model: VerticalModel, held: HeldOut, party: str) -> ConfigError:
    """Return what is wrong with secrets of a party whose uploads are not attacked here."""
    remedy = nearest(party, held.records)
    if party not in model.agreement.parties:
        return ConfigError(f"there is no party '{party}'", where="secrets", remedy=remedy)
    shown = party != model.agreement.active or model.agreement.task.labels == "shared"
    part = model.parts.get(party)
    why = "it uploads nothing"
    if part is None:
        why = "its part of the model is not here"
    elif shown and part.bottom is not None:
        why = "its records are not here"
    return ConfigError(f"'{party}' is not audited: {why}", where="secrets", remedy=remedy)


def _chosen(attackers: str | Sequence[str]) -> list[str]:
    listed = [attackers] if isinstance(attackers, str) else list(attackers)
    if not listed:
        raise ConfigError("no attacker was chosen", where="attackers", remedy=f"known: {', '.join(ATTACKERS)}")
    for name in listed:
        ATTRIBUTE_ATTACKERS[name]  # an unknown one is an error before anything is computed
    return listed


def _target(model: VerticalModel) -> float:
    """Return the model's score on its test records: accuracy, or R²; NaN where it is not known here."""
    return model.scores.get("accuracy", model.scores.get("r2", math.nan))
