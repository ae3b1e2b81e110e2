"""`colonnade watch`: a run as it goes, in the terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Group

    from colonnade.run import Run

_EXAMPLE = "Example: [bold]colonnade watch runs/train[/bold], or once only [bold]colonnade watch runs --once[/bold]"
_LAST = 12
"""So many of the last lines are shown."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch", epilog=_EXAMPLE)(watch)


def watch(
    root: Annotated[Path, typer.Argument(help="A run folder, or a folder of them.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Show how the runs of a folder go, until all of them have ended. It only reads; stop it at any time."""
    from rich.console import Console, Group
    from rich.live import Live

    from colonnade.cli.runs import find_runs
    from colonnade.errors import RunError
    from colonnade.run import Run

    if not root.is_dir() or not (found := list(find_runs(root))):
        remedy = "name a run folder; 'colonnade runs' lists them"
        raise RunError("there is no run to watch", where=str(root), remedy=remedy)
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            runs = [Run.open(folder) for folder in found]
            live.update(Group(*(_view(run) for run in runs)), refresh=True)
            if once or all(run.status != "running" for run in runs):
                return
            time.sleep(every)


def _view(run: Run) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from colonnade.progress import describe_bytes

    metrics = run.metrics()
    if "epoch" in metrics:  # looks at weights come between epochs, and would push them out of sight
        metrics = metrics.dropna(subset=["epoch"])
    metrics = metrics.tail(_LAST)
    sent = f"{run.ledger.messages:,} messages, {describe_bytes(run.ledger.sent_bytes)} sent"
    title = Text(f"{run.path}: {run.status}; {sent}", style="bold")
    if metrics.empty:  # a coordinator measures nothing, and a run that has just begun nothing yet
        return Group(title)
    table = Table(box=None, pad_edge=False)
    for name in metrics.columns:
        table.add_column(str(name), justify="right")
    for row in metrics.itertuples(index=False):
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row))
    return Group(title, table)
