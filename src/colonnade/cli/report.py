"""`colonnade report`: any run, audit or bench as one page for the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = (
    "Example: [bold]colonnade report runs/train[/bold], or to compare [bold]colonnade report study/a study/b[/bold]"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", epilog=_EXAMPLE)(report)


def report(
    folder: Annotated[list[Path], typer.Argument(help="Folders that a run, an audit, a bench or the demo wrote.")],
    out: Annotated[Path | None, typer.Option(help="The page to write; report.html in the first folder.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one page about one folder, or a comparison of several; it needs no network and no other file."""
    from colonnade.report import write_report

    written = write_report(folder, out or folder[0] / "report.html")
    typer.echo(f"report: {written} ({written.stat().st_size / 1e6:.1f} MB)")
    if show:
        import webbrowser

        webbrowser.open(written.resolve().as_uri())
