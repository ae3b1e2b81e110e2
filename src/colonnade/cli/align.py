"""`colonnade align`: find the records that all parties hold, without showing the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = (
    "Example: [bold]colonnade align federation.yaml --party clinic.yaml --party lab.yaml[/bold] in one process, or "
    "[bold]colonnade align federation.yaml --party clinic.yaml[/bold] at every party over the network"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("align", epilog=_EXAMPLE)(align)


def align(
    federation: Annotated[Path, typer.Argument(help="The federation file.")],
    party: Annotated[list[Path], typer.Option(help="One party file: over the network. All of them: in one process.")],
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the other parties to start.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Align the parties' records by private set intersection and say how many they share."""
    from colonnade.align import align as align_over
    from colonnade.align.simulate import align_federation
    from colonnade.learn.join import Place
    from colonnade.learn.simulate import federation_of, places_of

    if len(party) > 1:
        aligned = align_federation(
            federation_of(places := places_of(federation, party)), places[0].federation.task.missing
        )
        rows = aligned.rows or {}
        found = {name: int((row >= 0).sum()) for name, row in rows.items()}
        records, digest = len(next(iter(rows.values()))), None
    else:
        place = Place.read(federation, party[0])
        own, _ = place.records()
        agreed = place.agreement
        with place.new_run("align") as folder, place.connect(".align", wait) as channel:
            channel.observe(folder.ledger.record)
            alignment = align_over(
                channel, own.ids, active=agreed.active, order=agreed.parties, policy=agreed.task.missing
            )
            folder.finish({"records": alignment.records, "digest": alignment.digest})
        found, records, digest = {place.name: int(alignment.held.sum())}, alignment.records, alignment.digest
    if as_json:
        typer.echo(json.dumps({"records": records, "held": found, "digest": digest}))
        return
    typer.echo(f"{records} aligned records" + (f", digest {digest[:16]}…" if digest else ""))
    for name, held in found.items():
        typer.echo(f"  {name} holds {held} of them")
