"""`colonnade join`: take part in a real federation as one party."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.line_file import json_line

_EXAMPLE = "Example: [bold]colonnade join federation.yaml --party clinic.yaml[/bold], at the same time at every party"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("join", epilog=_EXAMPLE)(join)


def join(
    federation: Annotated[Path, typer.Argument(help="The federation file, the same at every party.")],
    party: Annotated[Path, typer.Option(help="This party's own file.")],
    run: Annotated[str | None, typer.Option(help="Name of the run, the same at every party.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last step that all parties hold.")] = False,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the other parties to start.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines.")] = False,
) -> None:
    """Align, train and test with the other parties over mutual TLS."""
    from colonnade.learn.join import TrainingPlace
    from colonnade.learn.join import join as take_part
    from colonnade.learn.spread import help_out
    from colonnade.learn.team import gathered, is_helper
    from colonnade.progress import make_progress

    if is_helper():  # started by torchrun beside the process that is the party
        help_out()
        return
    place = TrainingPlace.read(federation, party, run)
    with gathered(place.device) as team, make_progress("json" if as_json else "auto") as progress:
        part = take_part(place, progress, resume, wait, team)
    folder = place.party.runs / place.run_name
    if as_json:
        result = {"event": "result", "party": place.name, "run": str(folder), "test": part.result.get("test")}
        typer.echo(json_line(result).decode())
        return
    typer.echo(f"{place.name}: finished; run folder {folder}")
    for name, value in part.result.get("test", {}).items():
        typer.echo(f"  test {name} {value:.4f}")
    for name, share in part.result.get("contributions", {}).items():
        typer.echo(f"  contribution of {name} {share:.1%}")
