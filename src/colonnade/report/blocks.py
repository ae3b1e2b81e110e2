"""What a report is made of: sections of tables, charts, pictures and plain sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows under headings; numbers are set to the right.

    Attributes:
        title: what the rows are.
        columns: the headings.
        rows: one value for each heading.
        folded: shown only when asked for: it repeats what a chart or a picture beside it shows.
        anchor: where a script finds its rows.
        shaded: headings whose numbers, from 0 to 1, are shaded: the fuller the nearer to 1.
    """

    kind: ClassVar[str] = "table"
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    folded: bool = False
    anchor: str = ""
    shaded: Sequence[str] = ()

    @classmethod
    def of(cls, title: str, frame: pd.DataFrame, folded: bool = False, shaded: Sequence[str] = ()) -> Table:
        """Return a frame as a table."""
        rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
        return cls(title, [str(name) for name in frame.columns], rows, folded, shaded=shaded)


@dataclass(frozen=True)
class Chart:
    """A figure that plotly draws, and the same numbers as a table.

    Attributes:
        title: what it shows, in one line; also what a screen reader says.
        data: plotly's traces.
        layout: plotly's layout, without colours: the page sets them.
        table: every number of the figure.
    """

    kind: ClassVar[str] = "chart"
    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    table: Table


@dataclass(frozen=True)
class Drawing:
    """A picture in SVG, with a word for those who can't see it."""

    kind: ClassVar[str] = "drawing"
    title: str
    svg: str
    controls: str = ""


@dataclass(frozen=True)
class Shot:
    """A few records as they were and as an attack guessed them, as sources of images."""

    title: str
    originals: Sequence[str]
    guesses: Sequence[str]


@dataclass(frozen=True)
class Gallery:
    """Pictures of attacks."""

    kind: ClassVar[str] = "gallery"
    title: str
    shots: Sequence[Shot]


@dataclass(frozen=True)
class Sentences:
    """Plain sentences; `title` may be empty. `code` says that they are commands."""

    kind: ClassVar[str] = "sentences"
    title: str
    lines: Sequence[str]
    code: bool = False


Block = Table | Chart | Drawing | Gallery | Sentences


@dataclass(frozen=True)
class Section:
    """One part of a report, under a heading that one can jump to."""

    anchor: str
    title: str
    lead: str
    blocks: Sequence[Block]


def shown(value: Cell) -> str:
    """Return a value as people read it.

    >>> shown(0.123456), shown(1234567), shown(float("nan")), shown(float("inf")), shown(-0.0)
    ('0.1235', '1,234,567', '–', '∞', '0')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, float):
        return f"{value:z.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def share(value: float) -> str:
    """Return how much of a cell's shade a number is worth; the fullest still lets its text be read.

    >>> share(0.5), share(-3.0), share(float("nan"))
    ('30%', '0%', '0%')
    """
    return f"{round(60 * min(max(value, 0), 1))}%" if math.isfinite(value) else "0%"


def _cell(value: Any) -> Cell:
    """Return a value of a frame as Python's own."""
    plain = value.item() if hasattr(value, "item") else value
    if plain is None or isinstance(plain, str | int | float):
        return plain
    return str(plain)
