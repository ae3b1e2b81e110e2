"""Draw what is left of the graph against what one curious party recovers, from a result of `vfedcd-leak`.

    python bench/draw_leaks.py docs/results/vfedcd-leak.json docs/pictures/vfedcd-leak.svg

Each line is one mitigation, from none (●) to its strongest setting; the left panel has the best attack that knows
nothing besides, the right one a regression from thirty known records. Good would be the lower right corner.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
Point = tuple[float, float, str]
"""F1 of the graph, R² of the attack, and the strength of the mitigation."""

SIDE, LEFT, TOP, BOTTOM, BETWEEN = 330, 58, 62, 86, 70
INK, FAINT = "#1f2933", "#d5dbe1"
COLOURS = {"hidden": "#4a6072", "feature_noise": "#b3471d", "reveals": "#2f7d4f", "strength_epsilon": "#7a4fa3"}
BLIND = ("unsplit", "ica", "gram", "verdict")


def drawn(rows: Sequence[Row], parties: int = 3) -> str:
    """Return the picture, an SVG."""
    seen = [row for row in rows if row["parties"] == parties and row["secure"] and row["attackers"] == "one party"]
    blind = [row for row in seen if row["attack"] in BLIND and row["known_records"] is None]
    knowing = [row for row in seen if row["attack"] == "known_records" and row["known_records"] == 30]
    panels = (
        _panel("one party, which knows nothing besides", _lines(blind), LEFT),
        _panel("one party with 30 known records", _lines(knowing), LEFT + SIDE + BETWEEN),
    )
    width, height = LEFT + 2 * SIDE + BETWEEN + 40, TOP + SIDE + BOTTOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-size="12" '
        f'font-family="system-ui, sans-serif" aria-label="F1 of the graph against what an attack recovers">'
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>{"".join(panels)}{_legend(height)}</svg>\n'
    )


def _lines(rows: Sequence[Row]) -> dict[str, list[Point]]:
    """Return the points of every mitigation, from none to the strongest."""
    best: dict[tuple[str, float | None], Row] = {}
    for row in rows:
        key = row["mitigation"], row["strength"]
        if row["r2"] is not None and (key not in best or row["r2"] > best[key]["r2"]):
            best[key] = row
    bare = best["none", None]
    lines = {name: [(bare["f1"], bare["r2"], "")] for name in COLOURS}
    for (name, strength), row in best.items():
        if name != "none":
            lines[name].append((row["f1"], row["r2"], f"{strength:g}"))
    return {name: points for name, points in lines.items() if len(points) > 1}


def _panel(title: str, lines: Mapping[str, Sequence[Point]], left: float) -> str:
    parts = [f'<text x="{left}" y="32" font-size="14" font-weight="600" fill="{INK}">{title}</text>', *_axes(left)]
    for name, points in lines.items():
        way = " ".join(f"{_x(f1, left):.1f},{_y(r2):.1f}" for f1, r2, _ in points)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>')
        parts += [_point(point, COLOURS[name], left) for point in points]
    return "".join(parts)


def _x(f1: float, left: float) -> float:
    return left + f1 * SIDE


def _y(r2: float) -> float:
    return TOP + (1 - r2) * SIDE


def _axes(left: float) -> Iterator[str]:
    for fifth in range(6):
        value = fifth / 5
        x, y = _x(value, left), _y(value)
        yield f'<line x1="{left}" x2="{left + SIDE}" y1="{y}" y2="{y}" stroke="{FAINT}"/>'
        yield f'<text x="{left - 8}" y="{y + 4}" text-anchor="end" fill="{INK}">{value:g}</text>'
        yield f'<text x="{x}" y="{TOP + SIDE + 18}" text-anchor="middle" fill="{INK}">{value:g}</text>'
    middle = left + SIDE / 2
    yield f'<text x="{middle}" y="{TOP + SIDE + 38}" text-anchor="middle" fill="{INK}">F1 of the graph</text>'
    side = f"translate({left - 38} {TOP + SIDE / 2}) rotate(-90)"
    yield f'<text transform="{side}" text-anchor="middle" fill="{INK}">R² of foreign columns</text>'


def _point(point: Point, colour: str, left: float) -> str:
    f1, r2, strength = point
    x, y = _x(f1, left), _y(r2)
    told = f"<title>{strength or 'no mitigation'}: F1 {f1:.3f}, R² {r2:.3f}</title>"
    mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour if strength else INK}">{told}</circle>'
    return (
        f'{mark}<text x="{x:.1f}" y="{y - 7:.1f}" font-size="10" text-anchor="middle" fill="{colour}">{strength}</text>'
    )


def _legend(height: float) -> str:
    parts = []
    for place, (name, colour) in enumerate(COLOURS.items()):
        x, y = LEFT + 170 * place, height - 18
        parts.append(f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 28}" y="{y}" fill="{INK}">{name}</text>')
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    given.picture.write_text(drawn(json.loads(given.result.read_text())["rows"]))


if __name__ == "__main__":
    main()
