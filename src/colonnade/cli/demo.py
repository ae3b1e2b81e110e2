"""`colonnade demo`: three organisations, real data from an installed package, nothing to prepare."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

_EXAMPLE = "Example: [bold]colonnade demo[/bold]"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog=_EXAMPLE)(demo)


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder to keep the model and the run folders in.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another run.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines.")] = False,
) -> None:
    """Align, train and predict with three organisations in one process, in under two minutes."""
    from colonnade.progress import make_progress

    started = time.monotonic()
    with make_progress("json" if as_json else "auto") as progress:
        result = run_demo(out, seed, progress)
    result["seconds"] = round(time.monotonic() - started, 1)
    if as_json:
        typer.echo(json.dumps({"event": "result", **result}))
    else:
        _print(result)


def run_demo(out: Path | None, seed: int, progress: Any) -> dict[str, Any]:
    """Run the demo and return its numbers."""
    import colonnade as co

    frames, held_out = demo_frames(seed)
    federation = co.Federation.from_frames(frames, label=("clinic", "diagnosis"))
    progress.message("aligning: private set intersection over the three organisations' patient ids")
    aligned = co.align(federation)
    rows = aligned.rows or {}
    settings: dict[str, Any] = {
        "epochs": 60,
        "batch_size": 32,
        "patience": 10,
        "split": {"train": 0.85, "validation": 0.15, "test": 0.0},
    }
    defense = {"name": "gaussian", "sigma": 0.5}
    model = co.train(aligned, defense, seed=seed, progress=progress, run=out / "runs" if out else None, **settings)
    if out is not None:
        model.save(out / "model")
    truth = held_out["clinic"]["diagnosis"]
    alone = co.train(_without_others(aligned), seed=seed, progress=False, **settings)
    return {
        "parties": {party: len(frame) for party, frame in frames.items()},
        "aligned": len(rows["clinic"]),
        "predicted": len(truth),
        "accuracy": model.score(held_out, truth),
        "clinic_and_lab_only": alone.score({p: held_out[p] for p in ("clinic", "lab")}, truth),
        "majority": float(truth.value_counts(normalize=True).iloc[0]),
        "model": str(out / "model") if out else None,
    }


def demo_frames(seed: int) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """Return each organisation's records, and records of new patients that nobody trained on.

    Breast cancer data of scikit-learn: the clinic measured means and knows the diagnosis, the lab measured standard
    errors, the imaging centre the worst values. Each knows some patients that the others do not.
    """
    import numpy as np

    from colonnade.data.datasets import load_dataset

    data = load_dataset("breast_cancer")
    assert data.table is not None and data.label is not None
    table = data.table.assign(diagnosis=data.label.to_numpy())
    table.index = table.index.map(lambda number: f"patient-{number:04d}")
    columns = {
        "clinic": [name for name in table if str(name).startswith("mean ")] + ["diagnosis"],
        "lab": [name for name in table if str(name).endswith(" error")],
        "imaging": [name for name in table if str(name).startswith("worst ")],
    }
    rng = np.random.default_rng(seed)
    new = rng.permutation(len(table)) < len(table) // 5
    known = table[~new]
    frames = {
        party: known[names].sample(frac=share, random_state=seed + place)
        for place, ((party, names), share) in enumerate(zip(columns.items(), (1.0, 0.95, 0.9), strict=True))
    }
    return frames, {party: table.loc[new, names] for party, names in columns.items()}


def _without_others(federation: Any) -> Any:
    """The clinic and the lab alone: what the third organisation adds is the difference."""
    from colonnade.federation.federation import Federation

    records, rows = ({p: held[p] for p in ("clinic", "lab")} for held in (federation.records, federation.rows))
    return Federation(records, "clinic", rows)


def _print(result: dict[str, Any]) -> None:
    held = ", ".join(f"{party} {count}" for party, count in result["parties"].items())
    typer.echo(f"records        {held}")
    typer.echo(f"aligned        {result['aligned']} patients that all three hold; no other id was shown")
    typer.echo(f"accuracy       {result['accuracy']:.3f} on {result['predicted']} new patients (uploads under noise)")
    typer.echo(
        f"for comparison {result['majority']:.3f} always guessing the commonest diagnosis, "
        f"{result['clinic_and_lab_only']:.3f} clinic and lab without imaging"
    )
    typer.echo(f"time           {result['seconds']} s" + (f"; model in {result['model']}" if result["model"] else ""))
