"""If this fails, the picture of the frontier shows fewer defenses than were measured, or others than it names."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

BENCH = Path(__file__).parents[1] / "bench" / "draw_frontier.py"
SPECIFICATION = importlib.util.spec_from_file_location("draw_frontier", BENCH)
draw_frontier = importlib.util.module_from_spec(SPECIFICATION)

sys.modules["draw_frontier"] = draw_frontier  # a dataclass looks itself up there
SPECIFICATION.loader.exec_module(draw_frontier)

SVG = "{http://www.w3.org/2000/svg}"


def row(defense, cost, skill, attack="decoder-strong", knowledge="oracle", settings="{}", cut=6, **where):
    return {
        "dataset": "cifar10", "party": "all", "cut": cut,
        "defense": defense, "defense_settings": settings, "attack": attack, "knowledge": knowledge,
        "strength": 1.0, "capacity_bits": None, "accuracy_cost": cost, "skill": skill, "oracle_skill": 0.5,
        **where,
    }  # fmt: skip


def drawn(rows):
    return ElementTree.fromstring(draw_frontier.drawn(rows))


def test_every_defense_is_drawn_once_and_the_best_reader_counts():
    picture = drawn(
        [
            row("prune", 0.02, 0.5),
            row("prune", 0.02, 0.9, attack="witness"),
            row("keystone", 0.01, 0.5, settings='{"veil": 1}'),
            row("keystone", 0.03, 0.5, settings='{"veil": 2}'),
            row("none", 0.0, 0.0, attack="mean record", knowledge="baseline"),
        ]
    )
    titles = [found.text for found in picture.iter(f"{SVG}title")]
    assert sorted(titles) == [
        "keystone 1: one upload 0.500, best 0.500, 1.00 points",
        "keystone 1: one upload 0.500, best 0.500, 3.00 points",
        "prune 1: one upload 0.500, best 0.900, 2.00 points",
    ]


def test_what_costs_more_than_the_panel_is_wide_says_how_much():
    labels = [found.text for found in drawn([row("prune", 0.26, 0.5), row("disco", 0.0, 0.5)]).iter(f"{SVG}text")]
    assert "prune 1, 26 points" in labels and "disco 1" in labels


def test_each_party_that_holds_columns_has_a_panel():
    """What one party's columns tell would stand among what another's do."""
    rows = [row("prune", 0.0, 0.5, dataset="adult", cut=4, party=party) for party in ("registry", "employer")]
    picture = drawn([*rows, row("disco", 0.0, 0.5)])
    labels = [found.text for found in picture.iter(f"{SVG}text") if found.get("font-size") == "15"]
    assert labels == [
        "CIFAR-10 halves, cut 6", "Adult, columns of the employer", "Adult, columns of the registry",
    ]  # fmt: skip
    assert len(list(picture.iter(f"{SVG}title"))) == 3


def test_each_cut_has_a_panel():
    labels = [found.text for found in drawn([row("prune", 0.0, 0.5), row("prune", 0, 0.5, cut=4)]).iter(f"{SVG}text")]
    assert [label for label in labels if label.startswith("CIFAR")] == [
        "CIFAR-10 halves, cut 6", "CIFAR-10 halves, cut 4",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 5, 60])
def test_names_neither_overlap_nor_leave_the_panel(count):
    heights = draw_frontier.spread([100.0] * count, 0.0, 460.0)
    gaps = [below - above for above, below in pairwise(heights)]
    assert all(gap > 7 for gap in gaps) and all(-1e-9 < height < 460 + 1e-9 for height in heights)
