"""`colonnade init`: write a commented federation file and one file per party."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_EXAMPLE = "Example: [bold]colonnade init clinic lab insurer --active clinic --label outcome --out study[/bold]"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init", epilog=_EXAMPLE)(init)


def init(
    parties: Annotated[list[str], typer.Argument(metavar="PARTY", help="The parties, in order; at least two.")],
    *,
    active: Annotated[str | None, typer.Option(help="The party that holds the label; discovery needs none.")] = None,
    label: Annotated[str | None, typer.Option(help="The label's column at the active party.")] = None,
    coordinator: Annotated[
        str | None, typer.Option(help="Who looks at the graph in a discovery; no party, it holds no data.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path(),
    name: Annotated[str, typer.Option(help="The federation's name.")] = "federation",
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
) -> None:
    """Write federation.yaml and one file per party, with a comment at every line."""
    from colonnade.federation.template import coordinator_template, federation_template, party_template

    _check_names(parties, active, label, coordinator, name)
    texts = {"federation.yaml": federation_template(name, parties, active, label, coordinator)}
    texts |= {f"{party}.yaml": party_template(parties, party) for party in parties}
    if coordinator is not None:
        texts[f"{coordinator}.yaml"] = coordinator_template(parties, coordinator)
    _write(out, texts, force)
    for file in texts:
        typer.echo(f"wrote {out / file}")
    typer.echo("next: write where the records are in each party's file, then 'colonnade keys' and 'colonnade check'")


def _check_names(parties: list[str], active: str | None, label: str | None, coordinator: str | None, name: str) -> None:
    from colonnade.errors import ConfigError, nearest
    from colonnade.federation.files import PartyName, Text

    if len(parties) < 2:
        raise ConfigError("a federation needs at least two parties", where="PARTY", remedy="name another one")
    everybody = [*parties, *([] if coordinator is None else [coordinator])]
    for party in everybody:
        _check_value(PartyName, party, "PARTY" if party in parties else "--coordinator")
        if everybody.count(party) > 1:
            raise ConfigError(f"'{party}' is named twice", where="PARTY", remedy="give everybody a name of their own")
    if "federation" in everybody:
        raise ConfigError(
            "no party can be called 'federation'", where="PARTY", remedy="its file would take federation.yaml"
        )
    if (active is None) != (label is None):
        where = "--active" if active is None else "--label"
        raise ConfigError("is missing", where=where, remedy="give both, or none for discovery alone")
    if active is not None and active not in parties:
        raise ConfigError(f"'{active}' is none of the parties", where="--active", remedy=nearest(active, parties))
    if label is not None:
        _check_value(Text, label, "--label")
    _check_value(Text, name, "--name")


def _check_value(kind: Any, value: str, where: str) -> None:
    """Refuse what the file's reader would refuse."""
    from pydantic import TypeAdapter, ValidationError

    from colonnade.errors import ConfigError

    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise ConfigError(error.errors()[0]["msg"].removeprefix("Value error, "), where=where) from None


def _write(folder: Path, texts: dict[str, str], force: bool) -> None:
    from colonnade.errors import ConfigError
    from colonnade.run import write_atomically

    taken = [file for file in texts if (folder / file).exists()]
    if taken and not force:
        raise ConfigError(f"there is already {', '.join(taken)}", where=str(folder), remedy="--force overwrites")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder cannot be made: {error.strerror}", where=str(folder)) from error
    for file, text in texts.items():
        write_atomically(folder / file, text.encode())
