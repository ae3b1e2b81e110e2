"""`colonnade demo`: three organisations, real data from an installed package, nothing to prepare."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.line_file import json_line, plain

if TYPE_CHECKING:
    import pandas as pd

    from colonnade.federation.federation import Federation
    from colonnade.learn.model import VerticalModel
    from colonnade.progress import Progress

_EXAMPLE = "Example: [bold]colonnade demo[/bold], or in a hurry [bold]colonnade demo --quick[/bold]"

SECRET = "texture error"
"""What the lab wants to keep to itself: it is no feature, but its other columns tell of it."""
GRAPH_COLUMNS = ("radius", "texture", "smoothness", "concavity")
_NARROW = {"name": "keystone", "channels": 4, "levels": 4}
DEFENSES: dict[str, dict[str, Any]] = {
    "lab": {"name": "layered", "layers": [_NARROW, {"name": "nashcoder", "alpha": 1.0}]},
    "imaging": _NARROW,
}
ATTACKS = ("decoder", "ridge")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog=_EXAMPLE)(demo)


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder for the report and everything it rests on.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer columns and rounds: under 90 seconds.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another run.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Progress and result as JSON lines.")] = False,
) -> None:
    """Align, discover, train, predict and audit with three organisations in one process; ends with one report."""
    from colonnade.errors import RunError
    from colonnade.progress import make_progress
    from colonnade.run import require_folder

    folder = out or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    require_folder(folder)
    if folder.exists() and any(folder.iterdir()):
        raise RunError("this folder is not empty", where=str(folder), remedy="name another one with --out")
    started = time.monotonic()
    with make_progress("json" if as_json else "auto") as progress:
        result = run_demo(folder, seed, quick, progress)
    result["seconds"] = round(time.monotonic() - started, 1)
    if as_json:
        typer.echo(json_line({"event": "result", **result}).decode())
    else:
        _print(result)


@dataclass
class _Clock:
    """What every phase took, and a word before each."""

    progress: Progress
    phases: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str, word: str) -> Iterator[None]:
        """Time one phase."""
        self.progress.message(f"{name}: {word}")
        started = time.monotonic()
        yield
        self.phases.append({"phase": name, "seconds": round(time.monotonic() - started, 2)})


def run_demo(folder: Path, seed: int, quick: bool, progress: Progress) -> dict[str, Any]:
    """Run the demo, write its report and return its numbers."""
    import colonnade as co
    from colonnade.report import write_report
    from colonnade.report.gather import SUMMARY
    from colonnade.run import write_atomically

    frames, held_out = demo_frames(seed)
    clock = _Clock(progress)
    folder.mkdir(parents=True, exist_ok=True)
    with clock.phase("align", "private set intersection over the three organisations' patient ids"):
        aligned = co.align(co.Federation.from_frames(frames, label=("clinic", "diagnosis"), secrets={"lab": [SECRET]}))
    with clock.phase("discover", "one causal graph over columns of all three, under encryption"):
        graph = _discover(aligned, folder / "discover", seed, quick, progress)
    with clock.phase("train", "one model; the lab hides a column, the imaging centre adds noise"):
        model = _train(aligned, DEFENSES, seed, quick, progress, folder / "train")
        model.save(folder / "model")
    with clock.phase("compare", "the same without protection, and without the imaging centre"):
        bare = _train(aligned, {}, seed, quick, progress)
        alone = _train(_without_imaging(aligned), {}, seed, quick, progress)
    with clock.phase("predict", "patients whom nobody has trained on"):
        numbers = _scores(held_out, {"accuracy": model, "undefended": bare, "without_imaging": alone})
    with clock.phase("audit", "what the uploads give away, with protection and without"):
        numbers |= _audit(folder / "audit", {"protected": model, "undefended": bare}, held_out, seed, progress)
    result = {
        "parties": {party: len(frame) for party, frame in frames.items()},
        "aligned": len((aligned.rows or {})["clinic"]),
        "edges": len(graph.edges),
        "between": sum(edge.kind == "inter" for edge in graph.edge_list()),
        **numbers,
    }
    command = f"colonnade demo --seed {seed}" + (" --quick" if quick else "")
    summary = {"sentences": _sentences(result), "phases": clock.phases, "command": command}
    write_atomically(folder / SUMMARY, json.dumps(plain(summary), indent=1).encode())
    with clock.phase("report", "one page for the browser"):
        result["report"] = str(write_report([folder], folder / "report.html"))
    return result


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


def _discover(aligned: Federation, folder: Path, seed: int, quick: bool, progress: Progress) -> Any:
    """Find a graph over a few columns of each party: those of the names in `GRAPH_COLUMNS`."""
    import colonnade as co
    from colonnade.federation.federation import Federation

    wanted = GRAPH_COLUMNS[:3] if quick else GRAPH_COLUMNS
    records = {}
    for party, held in aligned.records.items():
        assert held.table is not None
        names = [name for name in held.table.columns if any(word in name for word in wanted)]
        records[party] = co.Records(held.ids, table=held.table[names])
    settings = {"epochs": 60, "refit_epochs": 20} if quick else {}
    chosen = Federation(records, rows=aligned.rows)
    return co.discover(chosen, secure=True, seed=seed, run=folder, progress=progress, **settings)


def _train(
    aligned: Federation,
    defense: Mapping[str, Any],
    seed: int,
    quick: bool,
    progress: Progress,
    run: Path | None = None,
) -> VerticalModel:
    import colonnade as co

    settings: dict[str, Any] = {
        "epochs": 30 if quick else 60,
        "batch_size": 32,
        "patience": 10,
        "split": {"train": 0.85, "validation": 0.15, "test": 0.0},
        "weights": {"strategy": "shapley"},
        "optimizer": {"learning_rate": 3e-3},
    }
    return co.train(aligned, dict(defense) or "none", seed=seed, progress=progress, run=run, **settings)


def _without_imaging(federation: Federation) -> Federation:
    """The clinic and the lab alone: what the third organisation adds is the difference."""
    from colonnade.federation.federation import Federation

    assert federation.rows is not None
    records = {party: federation.records[party] for party in ("clinic", "lab")}
    return Federation(records, "clinic", {party: federation.rows[party] for party in records})


def _scores(held_out: Mapping[str, pd.DataFrame], models: Mapping[str, VerticalModel]) -> dict[str, Any]:
    truth = held_out["clinic"]["diagnosis"]
    scores: dict[str, Any] = {
        name: model.score({party: held_out[party] for party in model.parts}, truth) for name, model in models.items()
    }
    return {"predicted": len(truth), "majority": float(truth.value_counts(normalize=True).iloc[0]), **scores}


def _audit(
    folder: Path,
    models: Mapping[str, VerticalModel],
    held_out: Mapping[str, pd.DataFrame],
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """Attack the uploads of new patients, and the lab's secret; return the strongest skill and leak of each model."""
    import colonnade as co

    found: dict[str, Any] = {}
    seeds = [seed, seed + 1, seed + 2]
    secrets = {"lab": held_out["lab"][[SECRET]]}
    for name, model in models.items():
        result = co.audit(model, ATTACKS, records=dict(held_out), seeds=seeds, progress=progress, dataset=name)
        result.save(folder / name)
        attacks = result.frame[result.frame["knowledge"] != "baseline"]
        found[f"skill_{name}"] = float(attacks["skill"].max())
        guessed = co.audit_attributes(
            model, records=dict(held_out), secrets=secrets, seeds=seeds, progress=progress, dataset=name
        )
        guessed.save(folder / name)
        worst = guessed.worst().sort_values("leak").iloc[-1]
        found[f"leak_{name}"], found[f"leak_{name}_ci"] = float(worst["leak"]), float(worst["leak_ci"])
    return found


def _sentences(result: Mapping[str, Any]) -> list[str]:
    """Return what the report says first; every number stands in it again."""
    return [
        f"Three organisations found the {result['aligned']} patients that all of them know; no other id was shown.",
        f"Their model is right for {result['accuracy']:.1%} of {result['predicted']} new patients: without protection "
        f"{result['undefended']:.1%}, without the imaging centre {result['without_imaging']:.1%}, always guessing the "
        f"commonest diagnosis {result['majority']:.1%}.",
        f"The strongest attack tried takes away {result['skill_protected']:.0%} of a blind guess's error about a "
        f"passive party's columns, without protection {result['skill_undefended']:.0%}.",
        f"Of the lab's secret '{SECRET}' fresh attackers explain {result['leak_protected']:.0%} "
        f"± {result['leak_protected_ci']:.0%} of the variance, without protection {result['leak_undefended']:.0%} "
        f"± {result['leak_undefended_ci']:.0%}: few patients make wide intervals.",
    ]


def _print(result: Mapping[str, Any]) -> None:
    held = ", ".join(f"{party} {count}" for party, count in result["parties"].items())
    typer.echo(f"aligned   {result['aligned']} patients that all three hold ({held}); no other id was shown")
    typer.echo(
        f"graph     {result['edges']} edges, {result['between']} of them between organisations, under encryption"
    )
    typer.echo(
        f"accuracy  {result['accuracy']:.3f} on {result['predicted']} new patients (undefended "
        f"{result['undefended']:.3f}, without imaging {result['without_imaging']:.3f}, "
        f"guessing {result['majority']:.3f})"
    )
    typer.echo(
        f"audit     strongest attack's skill {result['skill_protected']:.2f} (undefended "
        f"{result['skill_undefended']:.2f}); secret explained {result['leak_protected']:.2f} (undefended "
        f"{result['leak_undefended']:.2f})"
    )
    typer.echo(f"report    {result['report']} ({result['seconds']} s)")
