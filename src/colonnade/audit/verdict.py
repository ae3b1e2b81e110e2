"""What may be said about an audit: the strongest attack of those tried, in its own numbers, and nothing beyond."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from colonnade.audit.rows import BASELINE, EVERYBODY, Row


def verdict(frame: pd.DataFrame, settings: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each defense and party.

    Args:
        frame: the means over seeds of an audit.
        settings: of the audit; `candidates` says among how many a record had to be found.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in frame.to_dict("records"):
        if row["knowledge"] != BASELINE and not math.isnan(row["skill"]):
            key = (row["defense"], row["defense_settings"], row["party"])
            groups.setdefault(key, []).append({str(name): value for name, value in row.items()})
    several = len({key[:2] for key in groups}) > 1
    sentences = [_sentence(group, several, settings) for group in groups.values()]
    return sentences or ["no attack was scored: this says nothing about the uploads"]


def _sentence(tried: Sequence[Row], several: bool, settings: Mapping[str, Any]) -> str:
    best = max(tried, key=lambda row: float(row["skill"]))
    whose = "whole pictures" if best["party"] == EVERYBODY else best["party"]
    under = f" under {_defense(best)}" if several else ""
    which = "the only attack tried" if len(tried) == 1 else f"the strongest of {len(tried)} attacks tried"
    start = f"{whose}{under}: {best['attack']} ({best['knowledge']}), {which},"
    chance = best["skill_ci"]
    if best["skill"] <= (0 if math.isnan(chance) else chance):
        told = _percent(best, "skill")
        return f"{start} was not seen to do better than a blind guess (skill {told}); another attack may"
    gone = f"{start} takes away {_percent(best, 'skill')} of a blind guess's error"
    among = settings.get("candidates")
    if not among:
        return gone
    found, by_chance = _percent(best, "identification"), f"{100 / among:.2g} %"
    return f"{gone} and finds the true record among {among} in {found} of the cases (by chance {by_chance})"


def _percent(row: Row, name: str) -> str:
    told, half = f"{100 * row[name]:.1f}", row[f"{name}_ci"]
    return f"{told} %" if math.isnan(half) else f"{told} ± {100 * half:.1f} %"


def _defense(row: Row) -> str:
    strength = ", ".join(f"{key} {value}" for key, value in json.loads(row["defense_settings"]).items())
    return f"{row['defense']} ({strength})" if strength else str(row["defense"])
