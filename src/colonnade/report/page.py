"""One page for the browser that needs nothing but itself: no network, no folder beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from colonnade.audit.result import AuditResult
from colonnade.report.blocks import Block, Chart, Section, Table, share, shown
from colonnade.report.chapters import comparison, sections
from colonnade.report.gather import Study, gather
from colonnade.report.verdict import sentences
from colonnade.run import write_atomically

_HERE = Path(__file__).parent


def write_report(folders: Iterable[Path | str], out: Path | str) -> Path:
    """Write the report of one folder, or the comparison of several, to the file `out`."""
    target, page = Path(out), report_page([gather(folder) for folder in folders])
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, page.encode())
    return target


def report_page(studies: Sequence[Study]) -> str:
    """Return the page of one study, or the comparison of several."""
    several = len(studies) > 1
    studies = _told_apart(studies)
    chapters = [comparison(studies)] if several else []
    for place, study in enumerate(studies, start=1):
        chapters += [_named(place, study, section) if several else section for section in sections(study)]
    return _rendered("Comparison" if several else studies[0].name, studies, chapters)


def audit_page(result: AuditResult) -> str:
    """Return the page of an audit alone: that chapter of a report, without charts, whose library would fill it."""
    study = Study("Audit", Path(), audits={"audit": result})
    chapters = [replace(section, blocks=_without_charts(section.blocks)) for section in sections(study)]
    return _rendered(study.name, [study], chapters)


def _without_charts(blocks: Sequence[Block]) -> list[Block]:
    """Return the other blocks, tables unfolded: they are no longer a repetition."""
    return [
        replace(block, folded=False) if isinstance(block, Table) else block
        for block in blocks
        if not isinstance(block, Chart)
    ]


def _rendered(title: str, studies: Sequence[Study], chapters: Sequence[Section]) -> str:
    """Return the page. Everything in it comes from files that others may have written, so all of it is escaped."""
    from jinja2 import Environment, FileSystemLoader

    charts = [block for chapter in chapters for block in chapter.blocks if isinstance(block, Chart)]
    environment = Environment(autoescape=True, loader=FileSystemLoader(_HERE), trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"shown": shown, "share": share}
    return environment.get_template("page.html.j2").render(
        title=title,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Colonnade {version('colonnade')}",
        verdict=[(study.name, sentences(study)) for study in studies],
        several=len(studies) > 1,
        chapters=chapters,
        figures=_script_json([_figure(chart) for chart in charts]),
        plotly=_plotly() if charts else "",
        style=(_HERE / "page.css").read_text("utf-8"),
        script=(_HERE / "page.js").read_text("utf-8"),
        charts_script=(_HERE / "page.charts.js").read_text("utf-8"),
    )


def _told_apart(studies: Sequence[Study]) -> list[Study]:
    """Return the studies, under their whole folder where two have the same name."""
    times = Counter(study.name for study in studies)
    return [replace(study, name=str(study.folder)) if times[study.name] > 1 else study for study in studies]


def _named(place: int, study: Study, section: Section) -> Section:
    """Return a section of one study among several: under its name, with an anchor of its own."""
    return Section(f"{place}-{section.anchor}", f"{study.name}: {section.title}", section.lead, section.blocks)


def _figure(chart: Chart) -> dict[str, Any]:
    return {"data": list(chart.data), "layout": dict(chart.layout)}


def _script_json(value: Any) -> str:
    """Return JSON that can't end the script it stands in."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
