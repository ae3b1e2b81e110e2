"""Charts as plotly draws them, each beside a table of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from colonnade.report.blocks import Chart, Table
from colonnade.report.palette import COLOURS, DASHES, SYMBOLS

Marks = Mapping[str, str]


def lines(title: str, frame: pd.DataFrame, axis: str, names: Sequence[str], across: str = "epoch") -> Chart:
    """Return one line for each of the columns `names` of `frame`, over its column `across`."""
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": _plain(frame[across]),
            "y": _plain(frame[name]),
            "line": {"color": COLOURS[place % len(COLOURS)], "dash": DASHES[place % len(DASHES)]},
            "marker": {"symbol": SYMBOLS[place % len(SYMBOLS)]},
        }
        for place, name in enumerate(names)
    ]
    layout = {"xaxis": {"title": {"text": across}}, "yaxis": {"title": {"text": axis}}}
    return Chart(title, data, layout, Table.of(title, frame[[across, *names]], folded=True))


def bars(
    title: str, frame: pd.DataFrame, over: str, value: str, *, group: str | None = None, marks: Marks | None = None
) -> Chart:
    """Return one bar for each row: `value` over the names in `over`, with its interval where `<value>_ci` is there.

    Args:
        title: what is shown.
        frame: one row a bar.
        over: the column of names.
        value: the column of lengths.
        group: a column whose values stand side by side, in colours of their own.
        marks: further columns to mark on each bar, and what each is called: floors and ceilings.
    """
    half = f"{value}_ci"
    groups = [(value, frame)] if group is None else [(str(name), rows) for name, rows in frame.groupby(group)]
    data: list[dict[str, Any]] = []
    for place, (name, rows) in enumerate(groups):
        shown: dict[str, Any] = {"type": "bar", "name": name, "x": _plain(rows[over]), "y": _plain(rows[value])}
        if half in frame.columns:
            shown["error_y"] = {"type": "data", "array": _plain(rows[half].fillna(0))}
        data.append({**shown, "marker": {"color": COLOURS[place % len(COLOURS)]}})
    for place, (column, name) in enumerate((marks or {}).items(), start=len(groups)):
        lengths = frame.groupby(over, sort=False)[column].max()
        marker = {"symbol": "line-ew-open", "size": 24, "line": {"width": 3}, "color": COLOURS[place % len(COLOURS)]}
        kind = {"type": "scatter", "mode": "markers", "name": name}
        data.append({**kind, "x": lengths.index.tolist(), "y": _plain(lengths), "marker": marker})
    layout = {"yaxis": {"title": {"text": value}}, "xaxis": {"automargin": True}, "barmode": "group"}
    wanted = [*([group] if group else []), over, value, *([half] if half in frame.columns else []), *(marks or {})]
    return Chart(title, data, layout, Table.of(title, frame[wanted], folded=True))


def points(title: str, frame: pd.DataFrame, *, across: str, up: str, group: str, label: str) -> Chart:
    """Return points of `frame`, one colour and mark for each `group`, each with its `label` to hover over."""
    data = []
    for place, (name, rows) in enumerate(frame.groupby(group, sort=False)):
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": str(name),
                "x": _plain(rows[across]),
                "y": _plain(rows[up]),
                "text": [str(text) for text in rows[label]],
                "marker": {
                    "color": COLOURS[place % len(COLOURS)],
                    "symbol": SYMBOLS[place % len(SYMBOLS)],
                    "size": 11,
                },
            }
        )
    layout = {"xaxis": {"title": {"text": across}}, "yaxis": {"title": {"text": up}}}
    return Chart(title, data, layout, Table.of(title, frame[[group, label, across, up]], folded=True))


def _plain(values: pd.Series[Any]) -> list[Any]:
    """Return values as JSON has them: no NaN, no numpy."""
    return [None if pd.isna(value) else value for value in values.tolist()]
