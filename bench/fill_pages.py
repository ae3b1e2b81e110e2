"""Write measured numbers into the documentation: nobody copies them by hand, and none outlives its measurement.

    python bench/fill_pages.py [--check]

A page asks for a table with a comment, and has it right below:

    <!-- numbers: equilibrium-table.json; dataset=adult, best=True; method, strength, target, leak -->

names a file of `docs/results`, which of its rows are wanted (`method=none|nashcoder` takes either), and the keys that
become columns, `key as heading` where the key is no good heading. A measured number stands with its interval. A fourth
part, `leak by attack`, gives every attack a column of its own, and what was not measured one line. With `--check`
nothing is written, and pages that would change are named.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]
DOCS = Path(__file__).resolve().parents[1] / "docs"
_ASKED = re.compile(r"(<!-- numbers: (?P<asked>[^>]*?) -->\n\n)(?P<table>(?:\|[^\n]*\n)*)\n?")


def filled(page: str, results: Path = DOCS / "results") -> str:
    """Return the text of a page with all its tables as they are measured."""
    return _ASKED.sub(lambda found: f"{found[1]}{_table(found['asked'], results)}\n", page)


def cell(row: Row, key: str) -> str:
    """Return what stands in a table for one number, with its interval where there is one.

    >>> cell({"leak": 0.6936, "leak_ci": 0.0251}, "leak"), cell({"strength": None}, "strength")
    ('.694 ± .025', '–')
    """
    value, interval = row.get(key), row.get(f"{key}_ci")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return _number(value, measured=f"{key}_ci" in row) + ("" if interval is None else f" ± {_number(interval, True)}")


def _number(value: float, measured: bool) -> str:
    """Three digits behind the point, and no zero before it; a chosen number as it was chosen."""
    if not measured:
        return re.sub(r"^(-?)0\.", r"\1.", f"{value:g}")
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:z.3f}") if abs(value) < 100 else f"{value:,.0f}"


def _table(asked: str, results: Path) -> str:
    name, where, columns, *spread = (part.strip() for part in asked.split(";"))
    pairs = (one.strip().split("=") for one in where.split(",") if one.strip())
    wanted = {key: values.split("|") for key, values in pairs}
    rows = json.loads((results / name).read_text())["rows"]
    chosen = [row for row in rows if all(str(row.get(key)) in values for key, values in wanted.items())]
    if not chosen:
        raise SystemExit(f"{name} has no row with {where}")
    keys, heads = ([one.strip().split(" as ")[side] for one in columns.split(",")] for side in (0, -1))
    for one in spread:
        chosen, more = _spread(chosen, keys, *one.split(" by "))
        keys, heads = keys + more, heads + more
    numbers = [all(not isinstance(row.get(key), str | bool) for row in chosen) for key in keys]
    lines = [heads, ["---:" if right else "---" for right in numbers]]
    lines += [[cell(row, key) for key in keys] for row in chosen]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _spread(rows: list[Row], keys: list[str], measure: str, by: str) -> tuple[list[Row], list[str]]:
    """Return rows in which each value of `by` has a column for its `measure`, and the names of these columns."""
    lines: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        same = tuple(row.get(key) for key in keys if f"{key}_ci" not in row)
        found = {row[by]: row[measure], f"{row[by]}_ci": row.get(f"{measure}_ci")}
        lines.setdefault(same, dict(row)).update(found)
    return list(lines.values()), list(dict.fromkeys(row[by] for row in rows))


def main() -> int:
    """Fill every page, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        if (new := filled(text)) != text:
            stale.append(page)
            if not check:
                page.write_text(new)
    for page in stale:
        print("out of date:" if check else "filled:", page.relative_to(DOCS.parent))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
