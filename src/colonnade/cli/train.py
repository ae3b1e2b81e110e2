"""`colonnade train`: a whole federation in one process, from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.line_file import json_line

_EXAMPLE = (
    "Example: [bold]colonnade train federation.yaml --party clinic.yaml --party lab.yaml --out model[/bold]; "
    "between hosts, every party runs 'colonnade join' instead"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", epilog=_EXAMPLE)(train)


def train(
    federation: Annotated[Path, typer.Argument(help="The federation file.")],
    party: Annotated[list[Path], typer.Option(help="Every party's file, one option each.")],
    out: Annotated[Path | None, typer.Option(help="Folder to save the whole model in.")] = None,
    run: Annotated[Path, typer.Option(help="Folder for the parties' run folders.")] = Path("runs/train"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last step that all parties hold.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines.")] = False,
) -> None:
    """Align, train and test, all parties in this process; nothing goes over a network."""
    from colonnade.align.simulate import align_federation
    from colonnade.learn.join import TrainingPlace
    from colonnade.learn.simulate import federation_of, simulate
    from colonnade.learn.team import require_no_team
    from colonnade.place import places_of
    from colonnade.progress import make_progress
    from colonnade.run import require_folder

    require_no_team("train")
    if out is not None:
        require_folder(out)
    places = places_of(TrainingPlace, federation, party)
    device = places[0].device  # before records are read: a GPU that is not here should not cost the time to align
    with make_progress("json" if as_json else "auto") as progress:
        progress.message("aligning records")
        aligned = align_federation(federation_of(places), places[0].federation.task.missing)
        model = simulate(places, aligned, run, progress, resume=resume, device=device)
    if out is not None:
        model.save(out)
    if as_json:
        result = {"event": "result", "test": model.scores, "run": str(run), "model": str(out or "")}
        typer.echo(json_line(result).decode())
    else:
        typer.echo(repr(model))
        typer.echo(f"run folders: {run}" + (f"; model: {out}" if out else ""))
