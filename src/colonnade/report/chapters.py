"""The sections of a report, each from what a study holds; one with nothing to tell is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from colonnade.audit.attribute_result import AttributeResult
from colonnade.audit.result import AuditResult, Pictures
from colonnade.audit.rows import BASELINE, EVERYBODY, attack_names, defense_names, of_whole_pictures
from colonnade.errors import RunError
from colonnade.progress import describe_bytes
from colonnade.report.blocks import Block, Chart, Gallery, Section, Sentences, Shot, Table
from colonnade.report.charts import bars, lines, points
from colonnade.report.flow import flow
from colonnade.report.gather import Job, Study
from colonnade.report.graph_drawing import graph_drawing
from colonnade.report.palette import coloured
from colonnade.report.pictures import picture_source

SKILL = "strongest attack's skill"


def sections(study: Study) -> list[Section]:
    """Return every section that has something to tell, in the order of reading."""
    everybody = [*(party for job in study.jobs for party in job.runs)]
    everybody += [party for graph in study.graphs.values() for party in graph.parties]
    colour = coloured(sorted(everybody))
    drafts: list[tuple[str, str, str, list[Block]]] = [
        ("who", "Who saw what", _WHO, [block for job in study.jobs for block in flow(job, colour)]),
        ("graph", "The causal graph", _GRAPH, list(_graphs(study, colour))),
        ("training", "Training", _TRAINING, [block for job in study.jobs for block in _training(job)]),
        ("privacy", "What the uploads give away", _PRIVACY, list(_privacy(study))),
        ("benches", "Benches", _BENCHES, list(_benches(study))),
        ("cost", "What it cost", _COST, list(_cost(study))),
        ("ledger", "Ledgers", _LEDGER, list(_ledgers(study))),
        ("repeat", "To repeat this", "", list(_commands(study))),
    ]
    return [Section(anchor, title, lead, blocks) for anchor, title, lead, blocks in drafts if blocks]


def comparison(studies: Sequence[Study]) -> Section:
    """Return what parts several studies: scores, cost, and the strongest attack on each model and defense."""
    frame = pd.DataFrame([{**row, **_whole_of(study)} for study in studies for row in _compared(study)])
    blocks: list[Block] = [Table.of("Side by side", frame)]
    both = frame.dropna(subset=["score", SKILL]) if len(frame) else frame
    if len(both) > 1:
        title = "Accuracy against what the strongest attack found (upper left is best)"
        shown = both.assign(label=both["study"] + ": " + both["job"])
        blocks.append(points(title, shown, across=SKILL, up="score", group="defense", label="label"))
    return Section("comparison", "Comparison", _COMPARISON, blocks)


def _compared(study: Study) -> list[dict[str, Any]]:
    """Return one row for each defense that an audit tells of; without an audit one for each training, or one at all."""
    trained = {job.name: job.result.get("test") or {} for job in study.jobs if job.kind == "training"}
    audited = [row for name, audit in study.audits.items() for row in _audited(name, audit)]
    if len(audited) == len(trained) == 1 and audited[0]["score"] is None:
        # An audit knows accuracies alone. Of a regression the one training beside it tells the score.
        audited[0]["score"] = next(iter(trained.values())).get("r2")
    scores = {name: test.get("accuracy", test.get("r2")) for name, test in trained.items()} or {"–": None}
    alone = [{"job": name, "defense": "–", "score": score, SKILL: None} for name, score in scores.items()]
    return [{"study": study.name, **row} for row in audited or alone]


def _audited(name: str, audit: AuditResult) -> Iterator[dict[str, Any]]:
    """Yield each defense with the accuracy of the models under it, and the skill of the strongest attack on them."""
    rows = audit.frame
    for defense, found in rows.groupby(defense_names(rows), sort=False):
        attacks = found[found["knowledge"] != BASELINE]
        numbers = {"score": found["accuracy"].mean(), SKILL: attacks["skill"].max()}
        known = {what: None if pd.isna(number) else float(number) for what, number in numbers.items()}
        yield {"job": name, "defense": str(defense), **known}


def _whole_of(study: Study) -> dict[str, Any]:
    return {
        "edges": next((len(graph.edges) for graph in study.graphs.values()), None),
        "sent bytes": sum(run.ledger.sent_bytes for job in study.jobs for run in job.runs.values()),
    }


def _graphs(study: Study, colour: Mapping[str, str]) -> Iterator[Block]:
    for name, graph in study.graphs.items():
        yield from graph_drawing(graph, name, colour)
        if graph.contributions:
            frame = pd.DataFrame(graph.contributions.items(), columns=["party", "share"])
            yield bars("What each party's columns bring to the variables of others", frame, "party", "share")
        if graph.notes:
            yield Sentences("Notes of the search", graph.notes)


def _training(job: Job) -> Iterator[Block]:
    if job.kind != "training":
        return
    history = pd.DataFrame(job.result.get("history", []))
    if len(history):
        names = [str(name) for name in history.columns if not _is_of_head(str(name))]
        curves = [name for name in names if name.endswith("loss")]
        if curves:
            yield lines(f"Loss of {job.name}", history, "loss", curves)
        scores = [name for name in names if name.startswith("validation_") and name not in curves]
        if scores:
            yield lines(f"Validation of {job.name}", history, "score", scores)
        yield from _weights(job, history)
    yield from _heads(job)
    if shares := job.result.get("contributions"):
        frame = pd.DataFrame(shares.items(), columns=["party", "share"])
        yield bars(f"What each party's uploads bring to the test records in {job.name}", frame, "party", "share")
    if test := job.result.get("test"):
        yield Table(f"Test records of {job.name}", ["score", "value"], [[name, value] for name, value in test.items()])


def _weights(job: Job, history: pd.DataFrame) -> Iterator[Block]:
    """Yield the curve of the weights: by step where looks found them, by epoch where they never change."""
    looks = job.result.get("looks")
    if looks:
        history = pd.DataFrame([look["weights"] for look in looks]).add_prefix("weight_")
        history.insert(0, "step", [look["step"] for look in looks])
    weights = [str(name) for name in history.columns if str(name).startswith("weight_")]
    if weights:
        across = "step" if looks else "epoch"
        yield lines(f"Weights of the parties in {job.name}", history, "weight", weights, across)


def _heads(job: Job) -> Iterator[Block]:
    """Yield each party's own curves of the heads that it hides its secrets from, and once what they say."""
    shown = False
    for party, run in job.runs.items():
        history = pd.DataFrame((run.result or {}).get("history", []))
        names = [str(name) for name in history.columns if _is_of_head(str(name))]
        if names:
            yield lines(f"Heads that guess {party}'s secrets in {job.name}", history, "loss or cost", names)
            shown = True
    if shown:
        yield Sentences("", _HEADS)


def _is_of_head(name: str) -> bool:
    """Return whether a column of a history is about a head that guesses a secret, whatever the secret is called.

    >>> [_is_of_head(name) for name in ("head_loss_sex", "cost_loss", "train_loss")]
    [True, True, False]
    """
    return name.startswith(("head_loss_", "cost_"))


def _privacy(study: Study) -> Iterator[Block]:
    if study.audits:
        yield from _attacks(study.audits)
    if study.attributes:
        yield from _secrets(study.attributes)


def _attacks(audits: Mapping[str, AuditResult]) -> Iterator[Block]:
    whole = pd.concat([audit.frame.assign(audit=name) for name, audit in audits.items()], ignore_index=True)
    attacks = whole[(whole["knowledge"] != BASELINE) & whole["skill"].notna()]
    if len(attacks):
        shown = attacks.assign(who=attacks["attack"] + " on " + attacks["party"], under=_under(attacks))
        title = "Skill of attacks: 0 is a blind guess, 1 the record itself"
        yield bars(title, shown, "who", "skill", group="under")
    yield from _matrix(attacks)
    yield Table.of("Attacks and trivial guesses", _tidy(whole), folded=True)
    columns = [audit.columns.assign(audit=name) for name, audit in audits.items() if len(audit.columns)]
    if columns:
        yield Table.of("Every column", _tidy(pd.concat(columns, ignore_index=True)), folded=True)
    shots = [_shot(one) for audit in audits.values() for one in _worth_seeing(audit.pictures)]
    if shots:
        yield Gallery("Records and guesses", shots)
    yield from _notes(audits)
    yield Sentences("How it was done", [_how(name, audit, len(audits) > 1) for name, audit in audits.items()])


def _matrix(attacks: pd.DataFrame) -> Iterator[Block]:
    """Yield what each attack finds under each defense, where there are several of both; least found comes first."""
    rows = of_whole_pictures(attacks)
    rows = rows.assign(defense=defense_names(rows), attack=attack_names(rows))
    if rows["defense"].nunique() < 2 or rows["attack"].nunique() < 2:
        return
    about = [*(name for name in ("dataset", "cut", "party") if rows[name].nunique() > 1), "defense"]
    if rows.duplicated([*about, "attack"]).any():  # one and the same was audited twice
        about.insert(0, "audit")
    found = rows.pivot_table("skill", about, "attack", sort=False)
    found = found[found.mean().sort_values(ascending=False).index]
    costs = rows.groupby(about, sort=False)[["accuracy", "accuracy_cost"]].mean().dropna(axis=1, how="all")
    found.insert(0, "strongest", found.max(axis=1))
    shaded = [str(name) for name in found.columns]
    table = costs.join(found).sort_values("strongest").reset_index()
    title = "Skill of each attack under each defense: 0 is a blind guess, 1 the record itself"
    yield Table.of(title, table.round(3), shaded=shaded)


def _secrets(audits: Mapping[str, AttributeResult]) -> Iterator[Block]:
    worst = pd.concat([audit.worst().assign(audit=name) for name, audit in audits.items()], ignore_index=True)
    worst = worst.assign(who=worst["secret"] + " from " + worst["client"], under=_under(worst))
    marks = {"majority": "a blind guess", "ceiling": "the same attackers on raw columns"}
    yield bars("Secrets that fresh attackers guess", worst, "who", "leak", group="under", marks=marks)
    whole = pd.concat([audit.to_frame().assign(audit=name) for name, audit in audits.items()], ignore_index=True)
    yield Table.of("Every attacker on every secret", _tidy(whole), folded=True)
    yield from _notes(audits)


def _notes(audits: Mapping[str, AuditResult] | Mapping[str, AttributeResult]) -> Iterator[Block]:
    """Yield what a reader of the numbers should know, each note once."""
    told = [_said(name, note, len(audits) > 1) for name, audit in audits.items() for note in audit.notes]
    if told:
        yield Sentences("", list(dict.fromkeys(told)))


def _how(name: str, audit: AuditResult, several: bool) -> str:
    """Return the settings of an audit; its notes stand elsewhere."""
    settings = {name: value for name, value in audit.settings.items() if name not in ("notes", "left_out")}
    return _said(name, "; ".join(f"{name} {value}" for name, value in settings.items()), several)


def _said(name: str, words: str, several: bool) -> str:
    """Return the words of one audit, under its name where there are several."""
    return f"{name}: {words}" if several else words


def _under(rows: pd.DataFrame) -> pd.Series[Any]:
    """Return what tells bars of one attack apart: the audit where there are several, else the defense."""
    if rows["audit"].nunique() > 1:
        return rows["audit"]
    return rows["defense"] if "defense" in rows else rows["method"]


def _tidy(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the audit first, without columns that say nothing, each mean beside its interval."""
    first = ["audit"] if rows["audit"].nunique() > 1 else []
    said = [name for name in rows.columns if not (rows[name].isna() | (rows[name] == "")).all()]
    tidy = rows[[*first, *(name for name in said if name != "audit")]]
    for half in [name for name in tidy.columns if name.endswith("_ci")]:
        name = half.removesuffix("_ci")
        told = [_with_interval(*pair) for pair in zip(tidy[name], tidy[half], strict=True)]
        tidy = tidy.assign(**{name: pd.Series(told, tidy.index, object)}).drop(columns=half)
    return tidy


def _with_interval(value: float, half: float) -> float | str:
    return value if math.isnan(value) or math.isnan(half) else f"{value:.4f} ± {half:.4f}"


def _worth_seeing(pictures: Sequence[Pictures]) -> list[Pictures]:
    """Return those of whole pictures where there are some: strips show the same once more, in halves."""
    return [one for one in pictures if one.keys["party"] == EVERYBODY] or list(pictures)


def _shot(one: Pictures) -> Shot:
    title = f"{one.keys['attack']} ({one.keys['knowledge']}) on {one.keys['party']}, defense {one.keys['defense']}"
    originals, guesses = ([picture_source(picture) for picture in part] for part in (one.originals, one.guesses))
    return Shot(title, originals, guesses)


def _benches(study: Study) -> Iterator[Block]:
    for name, bench in study.benches.items():
        title = f"{bench['bench']} ({bench.get('preset', 'no preset')}) in {name}"
        rows = pd.DataFrame(bench["rows"]).dropna(axis=1, how="all")
        if {"target", "leak", "method"} <= set(rows.columns):
            front = rows.dropna(subset=["target", "leak"])
            label = front.get("alpha", front["method"])
            shown = front.assign(label=label)
            front_title = f"{bench['bench']}: what is learned against what is told (upper left is best)"
            yield points(front_title, shown, across="leak", up="target", group="method", label="label")
        yield Table.of(title, rows)


def _cost(study: Study) -> Iterator[Block]:
    phases = study.summary.get("phases", [])
    if phases:
        frame = pd.DataFrame(phases)
        yield bars("Seconds of every phase", frame, "phase", "seconds")
    rows = [
        {
            "job": job.name,
            "party": party,
            "messages": run.ledger.messages,
            "sent bytes": run.ledger.sent_bytes,
            "sent": describe_bytes(run.ledger.sent_bytes),
        }
        for job in study.jobs
        for party, run in job.runs.items()
    ]
    if rows:
        frame = pd.DataFrame(rows)
        named = frame.assign(who=frame["job"] + ": " + frame["party"])
        chart = bars("Bytes that every party sent", named, "who", "sent bytes")
        yield Chart(chart.title, chart.data, chart.layout, Table.of(chart.title, frame, folded=True))


def _ledgers(study: Study) -> Iterator[Block]:
    rows: list[list[Any]] = []
    for job in study.jobs:
        for party, run in job.runs.items():
            rows.append([job.name, party, run.ledger.messages, run.ledger.sent_bytes, _verified(run), run.ledger.head])
    if rows:
        columns = ["job", "party", "messages", "bytes", "chain", "last hash"]
        yield Table("Every party's own record of what left it", columns, rows)


def _verified(run: Any) -> str:
    try:
        run.verify_ledger()
    except RunError as error:
        return f"broken: {error}"
    return "whole"


def _commands(study: Study) -> Iterator[Block]:
    told = [study.summary["command"]] if study.summary.get("command") else []
    told += [command for job in study.jobs for run in job.runs.values() if (command := run.command)]
    told += [bench["command"] for bench in study.benches.values() if bench.get("command")]
    if told:
        yield Sentences("", list(dict.fromkeys(told)), code=True)


_WHO = "Each arrow is one kind of message, counted by the party that sent it. What is no arrow was not sent."
_GRAPH = (
    "Causes stand left of their effects. Thick lines are strong edges. Hover over a line or a box for its numbers; "
    "move the slider to leave weak edges out."
)
_TRAINING = "Losses and scores of every epoch. Weights say how much each party's part of the task counted."
_HEADS = (
    "head_loss_ of a secret is the loss of the party's own head that guesses it from the uploads: the higher, the less "
    "that head knows.",
    "cost_ is what the bottom model pays for what the head knows, and learns to lower: the lower, the better hidden "
    "from that head.",
    "A bottom model can fool one head. Only fresh attackers tell what uploads give away: colonnade audit attributes.",
)
_PRIVACY = (
    "What attackers get out of the uploads, beside what they would get without any. The more they get, the worse. No "
    "attack that failed proves that none succeeds."
)
_BENCHES = "Rows of benches, published values beside ours where there are some."
_COST = "Time of every phase, and what every party sent."
_LEDGER = "A chain that is whole says that no line was changed or lost since it was written."
_COMPARISON = (
    "A row for each defense of each audit: what its model scored, and what the strongest attack on that model found; "
    "without an audit for each training. Edges and bytes are those of the whole folder. Rows compare only where the "
    "records and the task are the same."
)
