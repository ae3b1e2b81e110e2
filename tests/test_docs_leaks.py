"""If this fails, the picture of leaks shows a weak attack where a strong one was measured, or loses a mitigation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

BENCH = Path(__file__).parents[1] / "bench" / "draw_leaks.py"
SPECIFICATION = importlib.util.spec_from_file_location("draw_leaks", BENCH)
draw_leaks = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(draw_leaks)

SVG = "{http://www.w3.org/2000/svg}"


def row(attack, r2, mitigation="none", strength=None, known=None, f1=0.8, **other):
    return {
        "parties": 3, "secure": True, "attackers": "one party", "attack": attack, "known_records": known, "r2": r2,
        "mitigation": mitigation, "strength": strength, "f1": f1, **other,
    }  # fmt: skip


def test_the_best_attack_counts_and_every_mitigation_has_a_line():
    rows = [
        row("unsplit", 0.2),
        row("verdict", 0.9),
        row("unsplit", 0.3, "feature_noise", 1.0, f1=0.5),
        row("verdict", 0.1, "feature_noise", 1.0, f1=0.5),
        row("ica", None, "hidden", 2),
        row("verdict", 1.0, secure=False),
        row("coordinator", 1.0, attackers="party and coordinator"),
        row("known_records", 0.95, known=30),
        row("known_records", 1.0, known=100),
        row("known_records", 0.7, "feature_noise", 1.0, known=30, f1=0.5),
    ]
    picture = ElementTree.fromstring(draw_leaks.drawn(rows))
    assert [found.text for found in picture.iter(f"{SVG}title")] == [
        "no mitigation: F1 0.800, R² 0.900",
        "1: F1 0.500, R² 0.300",
        "no mitigation: F1 0.800, R² 0.950",
        "1: F1 0.500, R² 0.700",
    ]
    assert len(list(picture.iter(f"{SVG}polyline"))) == 2
