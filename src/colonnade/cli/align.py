"""`colonnade align`: find the records that all parties hold, without showing the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from colonnade.align.alignment import Policy
    from colonnade.federation.files import FederationFile

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
    from colonnade.align.alignment import align as align_over
    from colonnade.align.courier import ALIGN_KINDS
    from colonnade.align.together import align_together
    from colonnade.place import Place, places_of

    if len(party) > 1:
        places = places_of(Place, federation, party)
        ids = {place.name: place.ids() for place in places}
        rows = align_together(ids, places[0].lead, _policy(places[0].federation))
        found = {name: int(own.held.sum()) for name, own in rows.items()}
        records, digest = next(iter(rows.values())).records, None
    else:
        place = Place.read(federation, party[0])
        own, order = place.ids(), tuple(place.federation.parties)
        with (
            place.new_run("align") as folder,
            place.open_channel(order, lambda _: frozenset(ALIGN_KINDS), ".align", wait) as channel,
        ):
            channel.observe(folder.ledger.record)
            alignment = align_over(channel, own, active=place.lead, order=order, policy=_policy(place.federation))
            folder.finish({"records": alignment.records, "digest": alignment.digest})
        found, records, digest = {place.name: int(alignment.held.sum())}, alignment.records, alignment.digest
    if as_json:
        typer.echo(json.dumps({"records": records, "held": found, "digest": digest}))
        return
    typer.echo(f"{records} aligned records" + (f", digest {digest[:16]}…" if digest else ""))
    for name, held in found.items():
        typer.echo(f"  {name} holds {held} of them")


def _policy(federation: FederationFile) -> Policy:
    """Return what happens to records that a party lacks: without a label all parties count alike."""
    return federation.task.missing if federation.active else "drop"
