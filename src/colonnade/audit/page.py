"""An audit as one page for the browser, which needs nothing but itself."""

from __future__ import annotations

import base64
import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.audit.rows import BASELINE

if TYPE_CHECKING:
    from colonnade.audit.result import AuditResult, Pixels

_MAGNIFIED = 96
"""Pictures are shown at least so many pixels high: strips of 16 pixels are hard to judge."""
_HEAD = ("defense", "strength", "attack", "knowledge", "party", "seeds")

_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Audit</title><style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1c1c1c }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .15rem .7rem; text-align: right }
th { border-bottom: 1px solid #888 } td:first-child, th:first-child { text-align: left }
tr.baseline { color: #777 } figure { margin: 1rem 0 } img { image-rendering: pixelated; margin-right: 4px }
</style></head><body>
<h1>Audit</h1>
<ul>{% for sentence in verdict %}<li>{{ sentence }}</li>{% endfor %}</ul>
<p>{% for name, value in settings.items() %}{{ name }} {{ value }}{{ "; " if not loop.last }}{% endfor %}</p>
{% for note in notes %}<p>{{ note }}</p>{% endfor %}
{% for table in tables %}<h2>{{ table.title }}</h2>
<table><tr>{% for name in table.names %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in table.rows %}<tr class="{{ row.kind }}">{% for cell in row.cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>{% endfor %}
{% if pictures %}<h2>Pictures</h2><p>Above the records, below the guesses.</p>{% endif %}
{% for one in pictures %}<figure><figcaption>{{ one.title }}</figcaption>
{% for line in one.lines %}<div>{% for source in line %}<img alt="" src="{{ source }}">{% endfor %}</div>{% endfor %}
</figure>{% endfor %}
</body></html>
"""


def page(result: AuditResult) -> str:
    """Return the page; names come from outside, so everything is escaped."""
    from jinja2 import Environment

    settings = {name: value for name, value in result.settings.items() if name not in ("notes", "left_out")}
    template = Environment(autoescape=True).from_string(_TEMPLATE)
    return template.render(
        verdict=result.verdict,
        settings=settings,
        notes=result.notes,
        tables=[_table("Attacks and trivial guesses", result.frame), *_columns(result)],
        pictures=[_figure(one.keys, one.originals, one.guesses) for one in result.pictures],
    )


def _columns(result: AuditResult) -> list[dict[str, Any]]:
    return [_table("Columns", result.columns)] if len(result.columns) else []


def _table(title: str, frame: Any) -> dict[str, Any]:
    numbers = [name for name in frame.columns if f"{name}_ci" in frame.columns and not frame[name].isna().all()]
    heads = [name for name in (*_HEAD, "column", "kind") if name in frame.columns and not frame[name].isna().all()]
    rows = [
        {
            "kind": BASELINE if row["knowledge"] == BASELINE else "attack",
            "cells": [
                *(_plain(row[name]) for name in heads),
                *(_with_interval(row[name], row[f"{name}_ci"]) for name in numbers),
            ],
        }
        for row in frame.to_dict("records")
    ]
    return {"title": title, "names": [*heads, *numbers], "rows": rows}


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:g}"
    return str(value)


def _with_interval(value: float, half: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.4f}" if math.isnan(half) else f"{value:.4f} ± {half:.4f}"


def _figure(keys: Any, originals: Pixels, guesses: Pixels) -> dict[str, Any]:
    title = f"{keys['attack']} ({keys['knowledge']}) on {keys['party']}, defense {keys['defense']}"
    return {"title": title, "lines": [[picture_source(picture) for picture in line] for line in (originals, guesses)]}


def picture_source(picture: Pixels) -> str:
    """Return a picture as the text that a page can hold."""
    from PIL import Image

    values = np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8)
    # Pictures of one channel are grey; of others than three, the first is shown.
    shown = Image.fromarray(values.transpose(1, 2, 0) if len(values) == 3 else values[0])
    factor = max(1, math.ceil(_MAGNIFIED / shown.height))
    file = io.BytesIO()
    shown.resize((shown.width * factor, shown.height * factor), Image.Resampling.NEAREST).save(file, "png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
