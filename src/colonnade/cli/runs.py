"""`colonnade runs`: what has been run, and how it ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from colonnade.run import Run

_EXAMPLE = "Example: [bold]colonnade runs[/bold], or for machines [bold]colonnade runs study/runs --json[/bold]"
_DEPTH = 3


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("runs", epilog=_EXAMPLE)(runs)


def runs(
    root: Annotated[Path, typer.Argument(help="The folder that holds the runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the runs of a folder, the newest last."""
    from colonnade.errors import RunError

    if not root.is_dir():
        raise RunError("there is no such folder", where=str(root), remedy="name the folder that holds the runs")
    rows = sorted((_row(root, folder) for folder in find_runs(root)), key=lambda row: row["started"] or "")
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif rows:
        _print_table(rows)
    else:
        typer.echo(f"no runs in {root}")


def find_runs(root: Path) -> Iterator[Path]:
    """Yield the run folders in `root`, also those that lie in a folder of their federation or party."""
    for folder, subfolders, files in os.walk(root):
        path = Path(folder)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if "run.json" in files:
            subfolders.clear()
            yield path
        elif len(path.relative_to(root).parts) >= _DEPTH:
            subfolders.clear()


def _row(root: Path, folder: Path) -> dict[str, Any]:
    from colonnade.errors import RunError
    from colonnade.run import Run

    row: dict[str, Any] = {"name": str(folder.relative_to(root)) if folder != root else folder.name}
    try:
        return row | _described(Run.open(folder))
    except RunError as error:  # one damaged run must not hide the others
        nothing = dict.fromkeys(("task", "started", "scores", "sent_bytes"))
        return row | nothing | {"status": "damaged", "reason": str(error)}


def _described(run: Run) -> dict[str, Any]:
    task, result = run.config.get("task"), run.result or {}
    scores = result.get("test", {"edges": result["edges"]} if "edges" in result else None)
    return {
        "status": run.status,
        "task": task.get("kind") if isinstance(task, dict) else None,
        "started": run.started.isoformat(),
        "scores": scores if isinstance(scores, dict) else None,
        "sent_bytes": run.ledger.sent_bytes,
        "reason": run.reason,
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    from datetime import datetime

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from colonnade.progress import describe_bytes, describe_values

    table = Table("name", "status", "task", "started", "test", "sent", box=None, pad_edge=False)
    for row in rows:
        started = datetime.fromisoformat(row["started"]).astimezone() if row["started"] else None
        cells = (
            row["name"],
            row["status"],
            row["task"] or "",
            f"{started:%Y-%m-%d %H:%M}" if started else "",
            describe_values(row["scores"]) if row["scores"] else row["reason"] or "",
            describe_bytes(row["sent_bytes"]) if row["sent_bytes"] is not None else "",
        )
        table.add_row(*map(Text, cells))
    Console().print(table)
