"""Draw what defenses cost and what they leave to a reader, from a result of `keystone-frontier` or one of its parts.

    python bench/draw_frontier.py docs/results/keystone-frontier.json docs/pictures/keystone-frontier.svg

One panel for each place where the network is cut, or for each party that holds columns of a table. A filled mark is the
strong oracle with one upload; a line leads to the hollow mark of whoever read best, with many uploads of a record or
with all of the training.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

WIDE, HIGH, LEFT, TOP, BOTTOM, LABELS = 560, 460, 62, 44, 56, 230
CHEAPEST, DEAREST = -1.0, 10.0
"""Points of accuracy; what costs more stands at the right edge, and its name says how much."""
OURS, OTHERS, INK, FAINT = "#b3471d", "#4a6072", "#1f2933", "#d5dbe1"
LINE = 14.5


@dataclass(frozen=True)
class Mark:
    """One defense at one strength: its cost in points, and the skill of the oracle and of the best reader."""

    name: str
    ours: bool
    cost: float
    skill: float
    worst: float

    @property
    def x(self) -> float:
        share = (min(max(self.cost, CHEAPEST), DEAREST) - CHEAPEST) / (DEAREST - CHEAPEST)
        return LEFT + share * WIDE

    @property
    def label(self) -> str:
        beyond = f", {self.cost:.0f} points" if self.cost > DEAREST else ""
        return f"{self.name}{beyond}"


def drawn(rows: Sequence[dict[str, Any]]) -> str:
    """Return the picture, an SVG."""
    panels = {title: list(_marks([row for row in rows if _title(row) == title])) for title in _titles(rows)}
    tall = TOP + HIGH + BOTTOM
    body = "".join(_panel(title, marks, place * tall) for place, (title, marks) in enumerate(panels.items()))
    width, height = LEFT + WIDE + LABELS, tall * len(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-size="12" '
        f'font-family="system-ui, sans-serif" aria-label="Accuracy cost against oracle skill of every defense">'
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>{body}</svg>\n'
    )


def _titles(rows: Sequence[dict[str, Any]]) -> list[str]:
    pictures = {_title(row) for row in rows if row["party"] == "all"}
    return [*sorted(pictures, reverse=True), *sorted({_title(row) for row in rows} - pictures)]


def _title(row: dict[str, Any]) -> str:
    name = {"cifar10": "CIFAR-10", "adult": "Adult", "diabetes130": "Diabetes-130"}.get(row["dataset"], row["dataset"])
    return f"{name} halves, cut {row['cut']}" if row["party"] == "all" else f"{name}, columns of the {row['party']}"


def _marks(rows: Sequence[dict[str, Any]]) -> Iterator[Mark]:
    """Yield the mark of every defense and strength that has both a cost and an oracle."""
    by_defense: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["knowledge"] != "baseline":
            by_defense.setdefault((row["defense"], row["defense_settings"]), []).append(row)
    for (defense, _), same in by_defense.items():
        first, skills = same[0], [row["skill"] for row in same if row["skill"] is not None]
        if first["oracle_skill"] is None or first["accuracy_cost"] is None:
            continue
        name = " ".join(part for part in (defense.replace("_", "-"), _strength(first)) if part)
        yield Mark(name, defense == "keystone", 100 * first["accuracy_cost"], first["oracle_skill"], max(skills))


def _strength(row: dict[str, Any]) -> str:
    settings = json.loads(row["defense_settings"])
    if row["defense"] == "keystone" and settings.get("levels"):
        bits = round(row["capacity_bits"])
        return "1 bit" if bits == 1 else f"{bits} bits"
    mode = {"paper": " as published"}.get(settings.get("mode"), "")
    return f"{row['strength']:g}{mode}" if row["strength"] is not None else ""


def _panel(title: str, marks: Sequence[Mark], top: float) -> str:
    parts = [
        f'<text x="{LEFT}" y="{top + 24}" font-size="15" font-weight="600" fill="{INK}">{title}</text>',
        *_axes(top),
        *_front([mark for mark in marks if mark.ours], top),
        *(_mark(mark, top) for mark in sorted(marks, key=lambda mark: mark.ours)),
        *_labels(marks, top),
    ]
    return "".join(parts)


def _y(skill: float, top: float) -> float:
    return top + TOP + (1 - max(skill, 0.0)) * HIGH


def _axes(top: float) -> Iterator[str]:
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10, top)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y}" y2="{y}" stroke="{FAINT}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="{INK}">{tenth / 10:g}</text>'
    for cost in range(int(CHEAPEST) + 1, int(DEAREST) + 1, 2):
        x = Mark("", False, cost, 0, 0).x
        yield f'<text x="{x}" y="{top + TOP + HIGH + 18}" text-anchor="middle" fill="{INK}">{cost}</text>'
    middle, low = LEFT + WIDE / 2, top + TOP + HIGH + 38
    yield f'<text x="{middle}" y="{low}" text-anchor="middle" fill="{INK}">points of accuracy that it costs</text>'
    side = top + TOP + HIGH / 2
    yield (
        f'<text transform="translate(18 {side}) rotate(-90)" text-anchor="middle" fill="{INK}">'
        "skill of a reader: ● one upload, ○ the best there is</text>"
    )


def _front(ours: Sequence[Mark], top: float) -> Iterator[str]:
    """Draw the steps of what ours leaves to the best reader for at most some cost."""
    points, least = [], 1.0
    for mark in sorted(ours, key=lambda mark: mark.cost):
        if mark.worst < least:
            points += [(mark.x, _y(least, top)), (mark.x, _y(mark.worst, top))]
            least = mark.worst
    if points:
        points = [*points[1:], (LEFT + WIDE, _y(least, top))]
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{way}" fill="none" stroke="{OURS}" stroke-dasharray="3 3"/>'


def _mark(mark: Mark, top: float) -> str:
    colour, high, low = OURS if mark.ours else OTHERS, _y(mark.worst, top), _y(mark.skill, top)
    return (
        f'<g stroke="{colour}"><title>{escape(mark.label)}: one upload {mark.skill:.3f}, best {mark.worst:.3f}, '
        f"{mark.cost:.2f} points</title>"
        f'<line x1="{mark.x:.1f}" x2="{mark.x:.1f}" y1="{high:.1f}" y2="{low:.1f}"/>'
        f'<circle cx="{mark.x:.1f}" cy="{high:.1f}" r="4.5" fill="#fff"/>'
        f'<circle cx="{mark.x:.1f}" cy="{low:.1f}" r="3.5" fill="{colour}"/></g>'
    )


def _labels(marks: Sequence[Mark], top: float) -> Iterator[str]:
    """Write names right of the panel, as near to the height of their marks as they fit, and lead to them."""
    ordered = sorted(marks, key=lambda mark: (-mark.worst, mark.cost))
    heights = spread([_y(mark.worst, top) for mark in ordered], top + TOP - 6, top + TOP + HIGH)
    x = LEFT + WIDE + 14
    for mark, height in zip(ordered, heights, strict=True):
        colour = OURS if mark.ours else OTHERS
        at = f"{mark.x + 5:.1f},{_y(mark.worst, top):.1f} {LEFT + WIDE:.1f},{height:.1f} {x - 3},{height:.1f}"
        yield f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-opacity=".25"/>'
        weight = ' font-weight="600"' if mark.ours else ""
        yield f'<text x="{x}" y="{height + 4:.1f}" fill="{colour}"{weight}>{escape(mark.label)}</text>'


def spread(wanted: Sequence[float], first: float, last: float) -> list[float]:
    """Return heights at least a line apart, in order, between two others: from the top down, then pushed up again.

    >>> spread([10.0, 11.0, 100.0], 0.0, 105.0)
    [10.0, 24.5, 100.0]
    """
    line = min(LINE, (last - first) / max(len(wanted) - 1, 1))
    heights: list[float] = []
    for height in wanted:
        heights.append(max(height, first, heights[-1] + line if heights else first))
    for place in range(len(heights) - 1, -1, -1):
        below = heights[place + 1] - line if place + 1 < len(heights) else last
        heights[place] = min(heights[place], below)
    return heights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    given.picture.write_text(drawn(json.loads(given.result.read_text())["rows"]))


if __name__ == "__main__":
    main()
