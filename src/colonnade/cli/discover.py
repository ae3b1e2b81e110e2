"""`colonnade discover`: one causal graph over the columns of all parties, in one process or over the network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.out_file import require_out_file
from colonnade.errors import ConfigError
from colonnade.line_file import json_line

if TYPE_CHECKING:
    from colonnade.discover.graph import CausalGraph
    from colonnade.progress import Progress

_EXAMPLE = (
    "Example: [bold]colonnade discover federation.yaml --party clinic.yaml --party lab.yaml[/bold] in one process, or "
    "[bold]colonnade discover federation.yaml --party clinic.yaml[/bold] at every party and at the coordinator"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("discover", epilog=_EXAMPLE)(discover)


def discover(
    federation: Annotated[Path, typer.Argument(help="The federation file, the same at every party.")],
    party: Annotated[
        list[Path], typer.Option(help="Every party's file: in one process. One's own file: over the network.")
    ],
    out: Annotated[Path | None, typer.Option(help="JSON file for the graph; a picture's .dot goes beside it.")] = None,
    run: Annotated[
        str | None, typer.Option(help="In one process the folder for run folders; else the run's name, agreed.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last look that all hold.")] = False,
    confidence: Annotated[
        int, typer.Option(min=0, help="In one process: searches on resampled records that tell how sure each edge is.")
    ] = 0,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the others to start.")] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines.")] = False,
) -> None:
    """Align, then find one causal graph: who causes what, across all parties' columns."""
    from colonnade.progress import make_progress

    if out is not None:
        _check_out(out)
    if confidence and len(party) == 1:
        remedy = "give every party's file; over the network every search would show the parties more of each other"
        raise ConfigError("is found in one process only", where="--confidence", remedy=remedy)
    with make_progress("json" if as_json else "auto") as progress:
        if len(party) > 1:
            name, folder = None, Path(run or "runs/discover")
            graph = _in_one_process(federation, party, folder, progress, resume, confidence)
        else:
            name, folder, graph = _over_network(federation, party[0], run, progress, resume, wait)
    if out is not None:
        _write(graph, out)
    _tell(graph, name, folder, out, as_json)


def _check_out(out: Path) -> None:
    """Raise if the graph could not be written there: after the search, hours later, it would be too late."""
    if out.suffix.lower() == ".dot":
        remedy = "name a .json file; the picture is written beside it"
        raise ConfigError(f"{out} is the name of a picture, not of a graph", where="--out", remedy=remedy)
    require_out_file(out, "a .json file")


def _in_one_process(
    federation: Path, parties: Sequence[Path], folder: Path, progress: Progress, resume: bool, confidence: int
) -> CausalGraph:
    from colonnade.discover.join import DiscoveryPlace
    from colonnade.discover.simulate import simulate
    from colonnade.place import places_of

    return simulate(places_of(DiscoveryPlace, federation, parties), folder, progress, resume, confidence)


def _over_network(
    federation: Path, party: Path, run: str | None, progress: Progress, resume: bool, wait: float
) -> tuple[str, Path, CausalGraph]:
    from colonnade.discover.join import DiscoveryPlace, join

    place = DiscoveryPlace.read(federation, party, run)
    graph = join(place, progress, resume, wait)
    return place.name, place.party.runs / place.run_name, graph


def _write(graph: CausalGraph, out: Path) -> None:
    from colonnade.run import write_atomically

    graph.save(out)
    write_atomically(out.with_suffix(".dot"), graph.to_dot().encode())


def _tell(graph: CausalGraph, name: str | None, folder: Path, out: Path | None, as_json: bool) -> None:
    if as_json:
        edges = [[edge.cause, edge.effect, edge.strength] for edge in graph.edge_list()]
        result = {"event": "result", "party": name, "run": str(folder), "graph": str(out or ""), "edges": edges}
        sure = None if graph.confidence is None else [edge.confidence for edge in graph.edge_list()]
        typer.echo(json_line({**result, "confidence": sure, "contributions": graph.contributions}).decode())
        return
    typer.echo(repr(graph))
    where = f"{name}: finished; run folder {folder}" if name else f"run folders: {folder}"
    typer.echo(where + (f"; graph: {out}" if out else ""))
