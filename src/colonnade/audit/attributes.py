"""The audit of secrets: can fresh attackers read a sensitive attribute off the uploads of a trained model?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pandas as pd

from colonnade.attack.attribute import ATTRIBUTE_ATTACKERS, FEWEST_PAIRS, MOST_PAIRS, make_attribute_attacker
from colonnade.audit.attribute_result import AttributeResult, leak_row
from colonnade.audit.attribute_views import Secrets, views
from colonnade.audit.evidence import working_copy
from colonnade.audit.held_out import HeldOut, divide, held_out_of
from colonnade.audit.rows import Row
from colonnade.audit.settings import Settings, seeds_from
from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.federation import Federation
from colonnade.learn.model import Frames, VerticalModel
from colonnade.progress import Progress, make_progress
from colonnade.strength import number

ATTACKERS = ("linear", "mlp", "boosting", "conv")
TARGETS = 10_000
"""At most so many: among a thousand records an accuracy would be sure to three points only."""


def audit_attributes(
    model: VerticalModel,
    federation: Federation | None = None,
    *,
    secrets: Secrets | None = None,
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
    """Let fresh attackers guess the secrets of each passive party from its uploads, and from all uploads together.

    The records that the model was tested on are divided into auxiliary records, whose secrets and uploads the attacker
    knows, and targets; each seed divides them anew. The uploads of both come from the final model: the attacker can
    query the victim, or colludes with some of its people. The same attackers on the raw columns are the ceiling, the
    commonest class of the auxiliary records is the floor. Where several parties are audited, the client `all` has all
    their uploads at once, as the active party does: hiding a secret at one party is in vain where another tells it.

    Args:
        model: a trained model, or one party's part of it.
        federation: whom the model was trained with, where the model does not remember it.
        secrets: sensitive columns of audited parties; None takes those that their records name (`Records.secrets`).
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
    how = Settings(auxiliary=auxiliary, targets=targets)
    number("pairs", pairs, at_least=FEWEST_PAIRS, whole=True)
    held = held_out_of(model, federation, records)
    hidden = _secrets_of(held, secrets)
    bar = progress if isinstance(progress, Progress) else make_progress("auto" if progress else "silent")
    copied = working_copy(model, held.records)
    known = {"dataset": dataset, "model_seed": model.agreement.seed, "target": _target(model)}
    rows: list[Row] = []
    bar.start(len(numbers), "attribute audit")
    for played, seed in enumerate(numbers, start=1):
        parts = divide(held, how.auxiliary, how.targets, seed)
        fresh = partial(make_attribute_attacker, seed=seed, pairs=pairs, device=device)
        for view in views(copied, parts, hidden, seed):
            for secret in view.secrets:
                for leak in view.leaks(secret, chosen, fresh):
                    keys = {"method": view.method, "client": view.client, "secret": secret.name, "seed": seed}
                    rows.append({**known, **keys, **leak_row(leak)})
        bar.advance(played, seed=seed)
    bar.close()
    if not rows:
        what = f"{', '.join(chosen)} can't read uploads that are no maps"
        raise ConfigError(what, where="attackers", remedy="choose linear, mlp or boosting")
    counted = {"records": len(held), "auxiliary": len(parts[0]), "targets": len(parts[1]), "pairs": pairs}
    return AttributeResult(pd.DataFrame(rows), {**counted, "attackers": chosen, "seeds": numbers})


def _secrets_of(held: HeldOut, given: Secrets | None) -> dict[str, pd.DataFrame]:
    """Return the sensitive columns of the audited parties: those given, or those that their records name."""
    for party in given or {}:
        if party not in held.records:
            remedy = nearest(party, held.records)
            raise ConfigError(f"'{party}' is not audited: it uploads nothing", where="secrets", remedy=remedy)
    named = {party: records.secrets for party, records in held.records.items()} if given is None else given
    found = {party: frame for party, frame in named.items() if frame is not None and len(frame.columns)}
    if not found:
        remedy = "name sensitive columns of a passive party"
        raise ConfigError("no audited party has a secret", where="secrets", remedy=remedy)
    for party, frame in found.items():
        if not frame.index.is_unique or not held.records[party].ids.isin(frame.index).any():
            remedy = "index the sensitive columns by the records' ids"
            raise DataError("no record can be found, or one twice", where=f"{party}: secrets", remedy=remedy)
    return found


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
