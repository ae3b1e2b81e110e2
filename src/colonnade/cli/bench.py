"""`colonnade bench`: regenerate a table or figure, next to what it has to be compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from colonnade.line_file import json_line

_EXAMPLE = "Example: [bold]colonnade bench run secure-matmul --preset smoke --out results/secure-matmul[/bold]"
_LIST = "Example: [bold]colonnade bench list[/bold]"

bench = typer.Typer(
    help="Regenerate a published table or figure, next to what it has to be compared with.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(bench, name="bench", epilog=_EXAMPLE)


@bench.command("list", epilog=_LIST)
def list_benches(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the benches, one line each."""
    from colonnade.bench import BENCHES

    if as_json:
        typer.echo(json.dumps([{"name": name, "summary": _summary(BENCHES[name].__doc__)} for name in BENCHES]))
    else:
        typer.echo(repr(BENCHES))


@bench.command("run", epilog=_EXAMPLE)
def run(
    name: Annotated[str, typer.Argument(help="The bench; 'colonnade bench list' names them.")],
    *,
    preset: Annotated[str, typer.Option(help="smoke, small, medium, default or paper: how much.")] = "default",
    out: Annotated[Path, typer.Option(help="The folder to write result.json and table.md into.")],
    engine: Annotated[str, typer.Option(help="local, or ray: each row a task, where a bench has many.")] = "local",
    jobs: Annotated[int, typer.Option(min=1, help="Rows to run at once, where a bench has many.")] = 1,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; without it one is started here.")] = None,
    gather: Annotated[bool, typer.Option(help="Run nothing: make the table of the rows that are in OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Progress as JSON lines, then the result.")] = False,
) -> None:
    """Run a bench; write result.json and table.md."""
    from colonnade.bench import Workers, run_bench
    from colonnade.progress import make_progress

    workers = Workers(engine, jobs, address, gather)
    with make_progress("json" if as_json else "auto") as progress:
        result = run_bench(name, preset, out, progress, workers)
    if as_json:
        typer.echo(json_line({"event": "result", **result}).decode())
    else:
        typer.echo((out / "table.md").read_text("utf-8"), nl=False)


def _summary(text: str | None) -> str:
    return (text or "").strip().split("\n")[0]
