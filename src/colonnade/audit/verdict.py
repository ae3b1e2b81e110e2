"""What may be said about an audit: the strongest attack of those tried, in its own numbers, and nothing beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from colonnade.audit.rows import BASELINE, EVERYBODY, Row, defense_names, of_whole_pictures


def verdict(frame: pd.DataFrame, settings: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each defense and party; of several defenses the one that leaves least comes first.

    Where several defenses were tried on pictures, whole ones stand for their strips.

    Args:
        frame: the means over seeds of an audit.
        settings: of the audit; `candidates` says among how many a record had to be found, `candidates_of` the same of
            attacks that want other people.
    """
    attacked = frame[(frame["knowledge"] != BASELINE) & frame["skill"].notna()]
    attacked = of_whole_pictures(attacked)
    attacked = attacked.assign(under=defense_names(attacked))
    several = attacked["under"].nunique() > 1
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in attacked.to_dict("records"):
        groups.setdefault((row["party"], row["under"]), []).append({str(name): value for name, value in row.items()})
    parties = list(dict.fromkeys(party for party, _ in groups))
    told = [(parties.index(party), *_told(group, several, settings)) for (party, _), group in groups.items()]
    if several:
        told.sort(key=lambda one: one[:2])
    return [sentence for *_, sentence in told] or ["no attack was scored: this says nothing about the uploads"]


def _told(tried: Sequence[Row], several: bool, settings: Mapping[str, Any]) -> tuple[float, str]:
    """Return the skill of the strongest attack, and what is said of it."""
    best = max(tried, key=lambda row: float(row["skill"]))
    return float(best["skill"]), _sentence(best, len(tried), several, settings)


def _sentence(best: Row, tried: int, several: bool, settings: Mapping[str, Any]) -> str:
    whose = "whole pictures" if best["party"] == EVERYBODY else best["party"]
    under = f" under {best['under']}" if several else ""
    which = "the only attack tried" if tried == 1 else f"the strongest of {tried} attacks tried"
    start = f"{whose}{under}: {best['attack']} ({best['knowledge']}), {which},"
    chance = best["skill_ci"]
    if best["skill"] <= (0 if math.isnan(chance) else chance):
        told = _percent(best, "skill")
        return f"{start} was not seen to do better than a blind guess (skill {told}); another attack may"
    gone = f"{start} takes away {_percent(best, 'skill')} of a blind guess's error"
    among = settings.get("candidates_of", {}).get(best["attack"], settings.get("candidates"))
    if not among:
        return gone
    found, by_chance = _percent(best, "identification"), f"{100 / among:.2g} %"
    return f"{gone} and finds the true record among {among} in {found} of the cases (by chance {by_chance})"


def _percent(row: Row, name: str) -> str:
    told, half = f"{100 * row[name]:z.1f}", row[f"{name}_ci"]
    return f"{told} %" if math.isnan(half) else f"{told} ± {100 * half:.1f} %"
