"""`colonnade predict`: answers for records, from a saved model or together with the other parties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from colonnade.cli.out_file import require_out_file

if TYPE_CHECKING:
    from colonnade.learn.model import Prediction

Missing = Literal["refuse", "impute"]
_EXAMPLE = (
    "Example: [bold]colonnade predict model --data new.csv --id patient --out answers.csv[/bold], or at every party "
    "[bold]colonnade predict federation.yaml --party clinic.yaml --data new.csv[/bold]"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict", epilog=_EXAMPLE)(predict)


def predict(
    model: Annotated[Path, typer.Argument(help="A folder that 'train --out' wrote, or the federation file.")],
    data: Annotated[Path | None, typer.Option(help="Table with the records to answer for.")] = None,
    party: Annotated[Path | None, typer.Option(help="This party's file: predict over the network.")] = None,
    run: Annotated[str | None, typer.Option(help="Name of the run that trained the model.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Id column of the table, with a saved model.")] = None,
    missing: Annotated[
        Missing | None, typer.Option(help="What if a party can't give an upload; the usual is to refuse.")
    ] = None,
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for a party that does not answer.")] = 60.0,
    out: Annotated[Path, typer.Option(help="CSV file for the answers.")] = Path("predictions.csv"),
) -> None:
    """Predict. At a passive party over the network: upload what the active party's records need."""
    from colonnade.errors import ConfigError

    if party is None:
        if data is None:
            raise ConfigError("no records to answer for", where="--data", remedy="name a table")
        require_out_file(out, "a .csv file")
        answer: Prediction | None = _from_saved(model, data, id_column, missing or "refuse")
    else:
        answer = _over_network(model, party, run, data, missing, wait, out)
    if answer is not None:
        _write(answer, out)


def _from_saved(folder: Path, data: Path, id_column: str | None, missing: Missing) -> Prediction:
    from colonnade.data.read import read_table_by_id
    from colonnade.learn.model import VerticalModel

    return VerticalModel.load(folder).predict(read_table_by_id(data, id_column), missing)


def _over_network(
    federation: Path, party: Path, run: str | None, data: Path | None, missing: Missing | None, wait: float, out: Path
) -> Prediction | None:
    from colonnade.learn.answer import ask, serve
    from colonnade.learn.join import TrainingPlace
    from colonnade.learn.part import Part

    place = TrainingPlace.read(federation, party, run)
    if place.is_active:  # nobody else writes answers
        require_out_file(out, "a .csv file")
    part = Part.load(place.party.runs / place.run_name / "model", place.device)
    records, _ = place.records(data, labelled=False)
    with place.new_run("predict") as folder, place.connect(".predict", wait) as channel:
        channel.observe(folder.ledger.record)
        if place.is_active:
            answer = ask(channel, place.agreement, part, records, missing or place.party.missing_party)
            folder.finish({"predicted": len(answer)})
            return answer
        count = serve(channel, place.agreement, part, records)
        folder.finish({"uploaded": count})
    typer.echo(f"{place.name}: uploaded for {count} records")
    return None


def _write(answer: Prediction, out: Path) -> None:
    table = answer.labels.to_frame("prediction")
    if answer.probabilities is not None:
        table = table.join(answer.probabilities.add_prefix("probability_"))
    affected = answer.imputed.any(axis=1)
    if affected.any():
        table["imputed"] = [" ".join(map(str, row.index[row])) for _, row in answer.imputed.iterrows()]
    table.to_csv(out, index_label="id")
    typer.echo(f"{len(answer)} predictions in {out}")
    for name, count in answer.imputed.sum().items():
        if count:
            typer.echo(f"  {name}: {int(count)} records answered without it, its mean upload stood in")
