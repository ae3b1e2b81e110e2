"""`colonnade audit`: what could the others learn from what we send?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from colonnade.attack import Attack
    from colonnade.audit.result import AuditResult
    from colonnade.learn.model import VerticalModel
    from colonnade.progress import Progress

_EXAMPLE = (
    "Example: [bold]colonnade audit run runs/train --attacks decoder --federation federation.yaml --party clinic.yaml "
    "--party lab.yaml[/bold]; the word run may be left out"
)
_EXPORT = (
    "Example: [bold]colonnade audit export model --attack decoder --data new.csv --id patient --out challenge "
    "--truth truth[/bold]"
)
_SCORE = "Example: [bold]colonnade audit score truth guesses.npz[/bold]"
_MATRIX = (
    "Example: [bold]colonnade audit matrix federation.yaml --party clinic.yaml --party lab.yaml --defenses "
    "none,gaussian:sigma=1.0 --attacks decoder --out results[/bold]"
)
_ATTRIBUTES = (
    "Example: [bold]colonnade audit attributes runs/train --federation federation.yaml --party clinic.yaml "
    "--party lab.yaml[/bold]"
)


class _RunUnlessNamed(TyperGroup):
    """`colonnade audit FOLDER` is `colonnade audit run FOLDER`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the usual command before arguments that name none."""
        named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        parsed: list[str] = super().parse_args(ctx, args if named else ["run", *args])
        return parsed


audit = typer.Typer(
    cls=_RunUnlessNamed,
    help="Attack what the parties of a trained model upload, and say what was found.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Model = Annotated[Path, typer.Argument(help="What 'train' wrote (--out or --run), or a party's own run folder.")]
FederationFile = Annotated[
    Path | None, typer.Option("--federation", help="The federation file; together with --party.")
]
PartyFiles = Annotated[
    list[Path] | None, typer.Option("--party", help="Every party's file, or one's own to audit one's own part.")
]
Data = Annotated[Path | None, typer.Option(help="Instead of files: a table of records that were not trained on.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Id column of that table.")]
Attacks = Annotated[
    str,
    typer.Option(help="Attacks, with commas between; parameters as decoder:epochs=5, lists as 'unsplit:start=[1,2]'."),
]
Seeds = Annotated[int, typer.Option(min=1, help="Repetitions; at least 3 for an interval that means something.")]
Auxiliary = Annotated[float, typer.Option(help="Share of the held-out records that the attacker knows.")]
Targets = Annotated[int, typer.Option(min=2, help="At most so many of the others are attacked.")]
Repeats = Annotated[
    int,
    typer.Option(
        min=1, help="How often a record is uploaded for an attack that averages, such as decoder:preset=repeated."
    ),
]
Threshold = Annotated[float, typer.Option(min=0, help="A record with an error of at most this counts as found in asr.")]
Device = Annotated[str, typer.Option(help="Where to compute, cpu or cuda.")]
AsJson = Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.add_typer(audit, name="audit", epilog=_EXAMPLE)


@audit.command("run", epilog=_EXAMPLE)
def run(
    model: Model,
    *,
    attacks: Attacks = "decoder",
    seeds: Seeds = 3,
    federation: FederationFile = None,
    party: PartyFiles = None,
    data: Data = None,
    id_column: IdColumn = None,
    auxiliary: Auxiliary = 0.5,
    targets: Targets = 1000,
    repeats: Repeats = 8,
    threshold: Threshold = 0.025,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder for the tables and the page audit.html.")] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a trained model; print what was found beside trivial guesses."""
    from colonnade.audit.audit import audit as audit_model
    from colonnade.audit.source import load_trained

    _check_folders(out)
    chosen, trained = choices(attacks), load_trained(model, device)
    with _progress(as_json) as progress:
        result = audit_model(
            trained,
            chosen,
            **_records(trained, federation, party, data, id_column),
            seeds=seeds,
            progress=progress,
            auxiliary=auxiliary,
            targets=targets,
            repeats=repeats,
            threshold=threshold,
            device=device,
            dataset=_name(federation, data),
        )
    _tell(result, out, as_json)


@audit.command("attributes", epilog=_ATTRIBUTES)
def attributes(
    model: Model,
    *,
    federation: Annotated[Path, typer.Option(help="The federation file.")],
    party: Annotated[
        list[Path], typer.Option(help="Every party's file, or one's own; its 'sensitive' columns are the secrets.")
    ],
    attackers: Annotated[str, typer.Option(help="Attackers, with commas between.")] = "linear,mlp,boosting,conv",
    seeds: Seeds = 3,
    auxiliary: Auxiliary = 0.5,
    targets: Targets = 10_000,
    pairs: Annotated[int, typer.Option(min=20, help="An attacker learns from at most so many records.")] = 20_000,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder for the tables.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let fresh attackers guess the parties' sensitive columns from what they upload."""
    from colonnade.audit.attributes import audit_attributes
    from colonnade.audit.source import load_trained
    from colonnade.line_file import json_line

    _check_folders(out)
    trained = load_trained(model, device)
    with _progress(as_json) as progress:
        result = audit_attributes(
            trained,
            **_records(trained, federation, party, None, None),
            attackers=[name.strip() for name in attackers.split(",") if name.strip()],
            seeds=seeds,
            progress=progress,
            auxiliary=auxiliary,
            targets=targets,
            pairs=pairs,
            device=device,
            dataset=_name(federation, None),
        )
    if as_json:
        rows = json.loads(result.to_frame().to_json(orient="records"))
        told = {"event": "result", "verdict": result.verdict, "notes": result.notes, "out": str(out or "")}
        typer.echo(json_line({**told, "rows": rows}).decode())
    else:
        typer.echo(repr(result))
    if out is not None:
        result.save(out)
        if not as_json:
            typer.echo(f"tables: {out}")


@audit.command("export", epilog=_EXPORT)
def export(
    model: Model,
    *,
    out: Annotated[Path, typer.Option(help="New folder for the attacker: what it may know, and nothing else.")],
    truth: Annotated[Path, typer.Option(help="New folder for whoever scores the guesses; keep it from the attacker.")],
    attack: Annotated[str | None, typer.Option(help="Grant what this attack knows.")] = None,
    knowledge: Annotated[str | None, typer.Option(help="Or grant these things, with commas between.")] = None,
    victim: Annotated[str | None, typer.Option(help="Whose uploads; needed where there are several.")] = None,
    federation: FederationFile = None,
    party: PartyFiles = None,
    data: Data = None,
    id_column: IdColumn = None,
    auxiliary: Auxiliary = 0.5,
    targets: Targets = 1000,
    repeats: Repeats = 8,
    threshold: Threshold = 0.025,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other targets.")] = 0,
) -> None:
    """Write a challenge that anyone's attack can be tried on."""
    from colonnade.audit.challenge import export_challenge
    from colonnade.audit.source import load_trained

    granted = _granted(attack, knowledge)
    _check_folders(out, truth)
    trained = load_trained(model)
    export_challenge(
        trained,
        granted,
        out,
        truth=truth,
        party=victim,
        **_records(trained, federation, party, data, id_column),
        seed=seed,
        auxiliary=auxiliary,
        targets=targets,
        repeats=repeats,
        threshold=threshold,
        dataset=_name(federation, data),
    )
    typer.echo(f"challenge: {out}; truth, for the scorer alone: {truth}")


@audit.command("score", epilog=_SCORE)
def score(
    truth: Annotated[Path, typer.Argument(help="The folder that 'export --truth' wrote.")],
    guesses: Annotated[Path, typer.Argument(help="An .npz file with an array 'guesses', one for each upload.")],
    name: Annotated[str, typer.Option(help="What the attack is called in the result.")] = "submission",
    out: Annotated[Path | None, typer.Option(help="Folder for the tables and the page audit.html.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score anyone's guesses for a challenge."""
    from colonnade.audit.submission import score_challenge

    _check_folders(out)
    _tell(score_challenge(truth, guesses, attack=name), out, as_json)


@audit.command("matrix", epilog=_MATRIX)
def matrix(
    federation: Annotated[Path, typer.Argument(help="The federation file.")],
    *,
    party: Annotated[list[Path], typer.Option(help="Every party's file, one option each.")],
    defenses: Annotated[str, typer.Option(help="Defenses, with commas between; strengths as gaussian:sigma=0.5.")],
    out: Annotated[Path, typer.Option(help="Folder for models, cells and the result; a matrix goes on from it.")],
    attacks: Attacks = "decoder",
    seeds: Seeds = 3,
    engine: Annotated[str, typer.Option(help="local, or ray: each cell a task.")] = "local",
    jobs: Annotated[int, typer.Option(min=1, help="Cells at once.")] = 1,
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; without it one is started here.")] = None,
    auxiliary: Auxiliary = 0.5,
    targets: Targets = 1000,
    repeats: Repeats = 8,
    threshold: Threshold = 0.025,
    device: Device = "cpu",
    gather: Annotated[bool, typer.Option(help="Run nothing: make the table of the cells that are in OUT.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train under every defense with every seed, and let every attack at every model."""
    from colonnade.audit.engine import engine_or_nobody
    from colonnade.audit.matrix import run_matrix
    from colonnade.audit.source import federation_from
    from colonnade.federation.files import read_federation

    _check_folders(out)
    protections, tried = choices(defenses), choices(attacks)
    # What no engine can be made of is told before we align.
    engine_or_nobody(engine, gather=gather, jobs=jobs, address=address, device=device)
    agreed = read_federation(federation)
    with _progress(as_json) as progress:
        result = run_matrix(
            federation_from(federation, party),
            protections,
            tried,
            out=out,
            task=agreed.task,
            seeds=seeds,
            engine=engine,
            jobs=jobs,
            address=address,
            gather=gather,
            progress=progress,
            auxiliary=auxiliary,
            targets=targets,
            repeats=repeats,
            threshold=threshold,
            device=device,
            dataset=agreed.name,
        )
    _tell(result, out, as_json)


def choices(text: str) -> list[dict[str, Any]]:
    """Return what `decoder:epochs=5,unsplit` names: each a name with its parameters.

    >>> choices("decoder:epochs=5,unsplit:start=[.1,.2]")
    [{'name': 'decoder', 'epochs': 5}, {'name': 'unsplit', 'start': [0.1, 0.2]}]
    """
    return [_choice(one.strip()) for one in _divided(text, ",") if one.strip()]


def _divided(text: str, at: str) -> list[str]:
    """Return the parts between `at`; what stands in brackets is one value, and stays whole."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == at and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _choice(text: str) -> dict[str, Any]:
    from colonnade.errors import ConfigError
    from colonnade.federation.yaml_file import read_value

    name, *parameters = _divided(text, ":")
    chosen: dict[str, Any] = {"name": name}
    for parameter in parameters:
        key, equals, value = parameter.partition("=")
        if not equals or not key or key == "name":
            raise ConfigError(f"'{parameter}' is no parameter", where=text, remedy="write name:parameter=value")
        chosen[key] = read_value(value, text)
    return chosen


def _granted(attack: str | None, knowledge: str | None) -> Attack | list[str]:
    """Return what an attacker is granted: what one attack knows, or what is listed."""
    from colonnade.audit.attacks import chosen_attacks
    from colonnade.errors import ConfigError

    if attack is None and knowledge is not None:
        return [name.strip() for name in knowledge.split(",") if name.strip()]
    if attack is None or knowledge is not None:
        raise ConfigError("give --attack or --knowledge", where="export", remedy="one of them says what is granted")
    one, *others = chosen_attacks(choices(attack))
    if others:
        remedy = "export one for each, or list what is granted with --knowledge"
        raise ConfigError("a challenge grants what one attack knows", where="--attack", remedy=remedy)
    return one


def _records(
    model: VerticalModel, federation: Path | None, party: list[Path] | None, data: Path | None, id_column: str | None
) -> dict[str, Any]:
    """Return the records to audit with: the federation's, one's own, or those of a table."""
    from colonnade.audit.source import federation_from, own_test_records
    from colonnade.data.read import read_table_by_id
    from colonnade.errors import ConfigError

    if (federation is None) != (not party) or (data is None) == (federation is None):
        remedy = "give --federation with --party, or --data"
        raise ConfigError("no records to audit with, or twice", where="audit", remedy=remedy)
    if data is not None:
        return {"records": read_table_by_id(data, id_column)}
    assert federation is not None and party
    if len(party) == 1:
        return {"records": own_test_records(model, federation, party[0])}
    return {"federation": federation_from(federation, party)}


def _name(federation: Path | None, data: Path | None) -> str:
    from colonnade.federation.files import read_federation

    return data.stem if data else read_federation(federation).name if federation else ""


def _check_folders(*folders: Path | None) -> None:
    """Look at the folders that are written into at the end before anything is computed."""
    from colonnade.run import require_folder

    for folder in folders:
        if folder is not None:
            require_folder(folder)


@contextmanager
def _progress(as_json: bool) -> Iterator[Progress]:
    from colonnade.progress import make_progress

    with make_progress("json" if as_json else "auto") as progress:
        yield progress


def _tell(result: AuditResult, out: Path | None, as_json: bool) -> None:
    from colonnade.line_file import json_line

    # Said before it is written: what hours have found should not be lost to a disk that is full.
    if as_json:
        told = {"event": "result", "verdict": result.verdict, "notes": result.notes, "out": str(out or "")}
        typer.echo(json_line({**told, "rows": json.loads(result.frame.to_json(orient="records"))}).decode())
    else:
        typer.echo(repr(result))
    if out is not None:
        result.to_html(result.save(out) / "audit.html")
        if not as_json:
            typer.echo(f"tables and page: {out}")
