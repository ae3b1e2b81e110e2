"""`colonnade doctor`: whether Colonnade can work here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from colonnade.doctor.finding import Finding, State
    from colonnade.place import Place

_EXAMPLE = (
    "Example: [bold]colonnade doctor[/bold], or with keys and peers "
    "[bold]colonnade doctor --party clinic.yaml --federation federation.yaml[/bold]"
)
_STYLES = {"ok": "green", "hint": "dim", "warning": "yellow", "broken": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog=_EXAMPLE)(doctor)


def doctor(
    party: Annotated[Path | None, typer.Option(help="The party file: its keys and peers are looked at too.")] = None,
    federation: Annotated[Path | None, typer.Option(help="The federation file; together with --party.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Tell whether Colonnade works here: packages, machine, speeds, extras, keys, peers, clocks. Exit code 3 if not."""
    from colonnade.errors import ConfigError

    if (party is None) != (federation is None):
        missing = "--federation" if federation is None else "--party"
        raise ConfigError("is missing", where=missing, remedy="keys and peers need both files")
    findings = list(examine(federation, party))
    if as_json:
        typer.echo(json.dumps([finding.to_dict() for finding in findings], indent=2, ensure_ascii=False))
    else:
        _print(findings)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(3)


def examine(federation: Path | None = None, party: Path | None = None) -> Iterator[Finding]:
    """Yield everything that can be found out here; with both files also about this party's keys and its peers."""
    from colonnade.doctor.extras import examine_extras
    from colonnade.doctor.machine import examine_disk, examine_machine, examine_packages
    from colonnade.doctor.speeds import examine_speeds

    place = None
    if federation is not None and party is not None:
        from colonnade.place import Place

        place = Place.read(federation, party)
    yield from examine_packages()
    yield from examine_machine(place.party.device if place else "auto")
    yield examine_disk(place.party.runs if place else Path("runs"))
    yield from examine_speeds()
    yield from examine_extras()
    if place is not None and party is not None:
        yield from _keys_and_peers(place, party)


def _keys_and_peers(place: Place, path: Path) -> Iterator[Finding]:
    from colonnade.cli.inspections import inspect_peers
    from colonnade.doctor.clock import examine_clocks
    from colonnade.doctor.finding import Finding
    from colonnade.doctor.keys import examine_keys

    own = list(examine_keys(place))
    in_order = all(finding.state != "broken" for finding in own)
    yield from own
    problems = {problem.field: problem for problem in inspect_peers(place.federation, place.party, path)}
    for name in place.federation.everybody:
        problem = problems.get(f"peer {name}")
        if name == place.name:
            continue
        if problem is None:
            yield Finding("peers", name, "reached, and it is who it should be" if in_order else "reached")
        else:
            state: State = "warning" if problem.severity == "note" else "broken"
            yield Finding("peers", name, problem.what, state=state, remedy=problem.remedy)
    fits = "; within the validity of this party's certificate" if in_order else ""
    yield Finding("clocks", "here", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC{fits}")
    yield from examine_clocks(place)


def _print(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", "", box=None, pad_edge=False, show_header=False)
    group = None
    for finding in findings:
        if finding.group != group:
            table.add_row(Text(finding.group, style="bold"))
            group = finding.group
        told = Text(finding.shown, overflow="fold")
        if finding.remedy:
            told.append(f"\n{finding.remedy}", style="dim")
        table.add_row(Text(finding.state, style=_STYLES[finding.state]), Text(finding.name), told)
    Console().print(table)
    broken = sum(finding.state == "broken" for finding in findings)
    typer.echo("nothing is broken" if not broken else f"broken: {broken}")
