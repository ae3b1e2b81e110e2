"""`colonnade keys`: a certificate authority for the federation, and one kit for each party."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = "Example: [bold]colonnade keys clinic lab insurer --out keys[/bold]"
_CA = "ca"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("keys", epilog=_EXAMPLE)(keys)


def keys(
    parties: Annotated[list[str], typer.Argument(metavar="PARTY", help="The parties to make kits for.")],
    *,
    coordinator: Annotated[str | None, typer.Option(help="The coordinator of discoveries: a kit for it too.")] = None,
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("keys"),
    days: Annotated[int, typer.Option(min=1, max=825, help="How long the certificates are valid.")] = 30,
    renew: Annotated[bool, typer.Option("--renew", help="Renew kits that exist; their fingerprints stay.")] = False,
) -> None:
    """Make a certificate authority and one kit for each party, and print the fingerprints for federation.yaml.

    A kit is a folder with ca.pem, certificate.pem and key.pem: give it to its party and to nobody else. The authority's
    own key stays in the folder 'ca': who has it can pretend to be any party. With an authority there already, further
    parties join it.
    """
    from colonnade.errors import ConfigError
    from colonnade.run import require_folder
    from colonnade.wire.authority import Authority, make_kit

    everybody = [*parties, *([] if coordinator is None else [coordinator])]
    _check_names(everybody)
    held = [party for party in everybody if (out / party / "key.pem").exists()]
    if held and not renew:
        what = f"there are kits for {', '.join(held)} already"
        raise ConfigError(what, where=str(out), remedy="--renew gives them new certificates and keeps their keys")
    require_folder(out)
    authority = Authority.open(out / _CA)
    fingerprints = {party: make_kit(authority, party, out / party, days, renew) for party in everybody}
    typer.echo("# fingerprints, as they go into federation.yaml")
    typer.echo("parties:")
    for party in parties:
        typer.echo(f"  {party}:")
        typer.echo(f"    fingerprint: {fingerprints[party]}")
    if coordinator is not None:
        typer.echo("coordinator:")
        typer.echo(f"  name: {coordinator}")
        typer.echo(f"  fingerprint: {fingerprints[coordinator]}")
    typer.echo(f"# valid for {days} days; each party gets its folder in {out}, nobody gets {out / _CA}", err=True)


def _check_names(parties: list[str]) -> None:
    from pydantic import TypeAdapter, ValidationError

    from colonnade.errors import ConfigError
    from colonnade.federation.files import PartyName

    for party in parties:
        try:
            TypeAdapter(PartyName).validate_python(party)
        except ValidationError as error:
            raise ConfigError(str(error.errors()[0]["ctx"]["error"]), where="PARTY") from None
        if party == _CA:
            raise ConfigError("no party can be called 'ca'", where="PARTY", remedy="that is the authority's folder")
        if parties.count(party) > 1:
            raise ConfigError(f"'{party}' is named twice", where="PARTY")
