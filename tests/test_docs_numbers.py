"""If this fails, the documentation tells numbers that nobody measured, or no longer those that were."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench" / "fill_pages.py"
SPECIFICATION = importlib.util.spec_from_file_location("fill_pages", BENCH)
fill_pages = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(fill_pages)

PAGES = [page for page in sorted(fill_pages.DOCS.rglob("*.md")) if "<!-- numbers:" in page.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_table_holds_the_stored_numbers(page):
    text = page.read_text()
    assert fill_pages.filled(text) == text, "run python bench/fill_pages.py"


def test_there_are_pages_with_numbers():
    assert PAGES


def test_a_table_is_made_of_the_rows_that_are_asked_for(tmp_path):
    rows = [
        {"method": "a", "strength": 0.5, "leak": 0.25, "leak_ci": 0.1, "best": True, "bytes": 1200},
        {"method": "b", "strength": None, "leak": None, "leak_ci": None, "best": True, "bytes": 7},
        {"method": "c", "strength": 1.0, "leak": 0.5, "leak_ci": None, "best": False, "bytes": 7},
    ]
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    asked = "<!-- numbers: some.json; best=True; method, strength, leak as told, bytes -->\n\n"
    page = f"Before\n\n{asked}| old |\n\nAfter\n"
    assert fill_pages.filled(page, tmp_path) == (
        f"Before\n\n{asked}| method | strength | told | bytes |\n| --- | ---: | ---: | ---: |\n"
        "| a | .5 | .250 ± .100 | 1,200 |\n| b | – | – | 7 |\n\nAfter\n"
    )


def test_a_table_may_want_one_value_or_another(tmp_path):
    rows = [{"method": name, "strength": strength} for name in "abc" for strength in (None, 1.0)]
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    page = fill_pages.filled("<!-- numbers: some.json; method=a|c, strength=None; method -->\n\n", tmp_path)
    assert page.endswith("-->\n\n| method |\n| --- |\n| a |\n| c |\n\n")


def test_a_measure_may_have_a_column_for_each_attack(tmp_path):
    rows = [
        {"method": method, "attack": attack, "cost": 0.1, "cost_ci": 0.01 * place, "leak": 0.1 * place, "leak_ci": None}
        for method in "ab"
        for place, attack in enumerate(["one", "two"])
        if (method, attack) != ("b", "two")
    ]
    (tmp_path / "some.json").write_text(json.dumps({"rows": rows}))
    page = fill_pages.filled("<!-- numbers: some.json; ; method, cost; leak by attack -->\n\n", tmp_path)
    assert page.endswith(
        "| method | cost | one | two |\n| --- | ---: | ---: | ---: |\n"
        "| a | .100 ± .000 | .000 | .100 |\n| b | .100 ± .000 | .000 | – |\n\n"
    )


def test_a_table_without_rows_is_a_mistake(tmp_path):
    (tmp_path / "some.json").write_text(json.dumps({"rows": [{"method": "a"}]}))
    with pytest.raises(SystemExit, match="no row"):
        fill_pages.filled("<!-- numbers: some.json; method=b; method -->\n\n", tmp_path)
