"""`colonnade check`: every problem at once, before anything is sent."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from colonnade.federation.check import Inspection
    from colonnade.federation.problems import Problem

_EXAMPLE = "Example: [bold]colonnade check federation.yaml --party clinic.yaml[/bold]"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check", epilog=_EXAMPLE)(check)


def check(
    federation: Annotated[Path, typer.Argument(help="The federation file.")],
    party: Annotated[
        Path | None, typer.Option(help="The party file; without it, only the federation file is checked.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not try to reach the other parties.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Tell every problem of the files, the records, the keys and the peers. Exit code 3 if there are any."""
    problems = check_everything(federation, party, network=not offline)
    if as_json:
        typer.echo(json.dumps([problem.to_dict() for problem in problems], indent=2))
    else:
        _print(problems)
    if any(problem.severity == "problem" for problem in problems):
        raise typer.Exit(3)


def check_everything(federation: Path, party: Path | None, *, network: bool) -> list[Problem]:
    """Return every problem that can be known now; with `network`, the other parties are tried too."""
    from colonnade.cli.inspections import (
        inspect_credentials,
        inspect_defense,
        inspect_discovery,
        inspect_peers,
        suggest_defense,
    )
    from colonnade.federation.check import check as check_files

    discovery = partial(inspect_discovery, federation_path=federation)
    inspections: list[Inspection] = [inspect_defense, discovery, inspect_credentials]
    if network:
        inspections.append(inspect_peers)
    problems = check_files(federation, party, inspections, suggest_defense)
    return problems + [problem for problem in _public_knowledge(federation) if problem not in problems]


def _public_knowledge(federation: Path) -> list[Problem]:
    """Check what all may know even where there is no party file, or none that can be used."""
    from colonnade.cli.inspections import inspect_public_knowledge
    from colonnade.federation.files import read_federation
    from colonnade.federation.problems import ProblemsError

    try:
        return inspect_public_knowledge(read_federation(federation), federation)
    except ProblemsError:
        return []  # told already


def _print(problems: list[Problem]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    serious = sum(problem.severity == "problem" for problem in problems)
    if problems:
        table = Table("", "file", "field", "what is wrong, and what to do", box=None, pad_edge=False)
        for problem in sorted(problems, key=lambda problem: problem.severity == "note"):
            style = "bold red" if problem.severity == "problem" else "yellow"
            told = Text(problem.what, overflow="fold")
            if problem.remedy:
                told.append(f"\n{problem.remedy}", style="dim")
            table.add_row(Text(problem.severity, style=style), Text(problem.file.name), Text(problem.field), told)
        Console().print(table)
    typer.echo("no problems" if not serious else "1 problem" if serious == 1 else f"{serious} problems")
