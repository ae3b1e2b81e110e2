"""Who sent what to whom, as a picture: one line of life for each party, one arrow for each kind of message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from markupsafe import Markup

from colonnade.progress import describe_bytes
from colonnade.report.blocks import Drawing, Table
from colonnade.report.gather import Job
from colonnade.report.palette import UNKNOWN

LANE, ROW, TOP = 230, 34, 46

MEANING = {
    "memory": "a random token that names an earlier alignment, when a run is resumed; no record",
    "align.hello": "how many records there are",
    "align.list": "ids, blinded and encrypted",
    "align.common": "which blinded ids both know",
    "align.positions": "the common order of records",
    "align.digest": "a digest of that order",
    "hello": "digests of what was agreed, and which positions are held",
    "plan": "what is agreed for this run: which record is for what",
    "ready": "the shape of the uploads",
    "head": "how the top model is built",
    "shared": "labels, the uploads of all others, the weights of the top model",
    "upload": "the protected representation of every record of a batch",
    "gradient": "how the task wants representations, or features, to change",
    "evaluate": "the protected representation of every validation record",
    "decision": "whether this was the best epoch, and the last",
    "test": "the protected representation of every test record",
    "answer": "to predict: which of the records asked for are held, and the protected representation of each",
    "feature": "linear features of the columns, in the clear",
    "strength": "the strength of every edge that ends at the party's own variables",
    "metric": "how the graph's own term wants its edges to change",
    "verdict": "which edges stay, and how far from a graph without circles it is",
    "graph": "the edges that the party may know",
    "contribution": "what the columns of each other party are worth to this one",
    "secure.key": "a public key",
    "secure.secret": "numbers encrypted under the sender's key",
    "secure.masked": "products of encrypted numbers, under a random mask",
    "secure.share": "one part of a sum; no part tells anything alone",
    "secure.seed": "a seed for masks that cancel in a sum",
}
"""What a kind of message holds, in a few words; the threat model says more."""


FAMILIES = {"align": "alignment", "secure": "encrypted products"}
"""What kinds with a dot in their name do together."""


def traffic(job: Job) -> pd.DataFrame:
    """Return what left each party: sender, receiver, kind, messages, bytes; from the ledgers that are here."""
    parts = [run.ledger.summary().assign(sender=party) for party, run in job.runs.items()]
    found = pd.concat(parts, ignore_index=True).rename(columns={"to": "receiver"})
    return found[["sender", "receiver", "kind", "messages", "bytes"]]


def flow(job: Job, colour: Mapping[str, str]) -> tuple[Drawing, Table]:
    """Return the picture of a job's messages, parties in their colours, and the table of its numbers."""
    sent = traffic(job)
    parties = list(dict.fromkeys([*job.runs, *sent["receiver"]]))
    held = sent.assign(holds=[MEANING.get(kind, "") for kind in sent["kind"]])
    title = f"Messages of {job.name}"
    return Drawing(title, _svg(parties, colour, sent, title)), Table.of(f"{title}: every kind", held, folded=True)


def _svg(parties: Sequence[str], colour: Mapping[str, str], sent: pd.DataFrame, title: str) -> str:
    place = {party: LANE // 2 + LANE * number for number, party in enumerate(parties)}
    # One arrow for all kinds of a family, and for everybody it goes to: a picture of fifty arrows tells nothing.
    family = sent.assign(kind=sent["kind"].str.split(".").str[0].map(lambda name: FAMILIES.get(name, name)))
    arrows = family.groupby(["sender", "kind"], sort=False).agg(
        receivers=("receiver", lambda names: list(dict.fromkeys(names))),
        messages=("messages", "sum"),
        bytes=("bytes", "sum"),
    )
    width, height = LANE * len(parties), TOP + ROW * (len(arrows) + 1)
    head = '<svg viewBox="0 0 {} {}" style="max-width:{}px" role="img" aria-label="{}">'
    drawn = [Markup(head).format(width, height, width, title)]
    for party, x in place.items():
        drawn.append(
            Markup(
                '<line x1="{x}" y1="{top}" x2="{x}" y2="{end}" class="life"/>'
                '<rect x="{left}" y="6" width="150" height="28" rx="6" fill="{colour}"/>'
                '<text x="{x}" y="25" class="party">{party}</text>'
            ).format(x=x, top=TOP - 12, end=height, left=x - 75, colour=colour.get(party, UNKNOWN), party=party)
        )
    for number, row in enumerate(arrows.reset_index().to_dict("records"), start=1):
        ends = [place[receiver] for receiver in row["receivers"]]
        label = f"{row['kind']} · {row['messages']:,} × · {describe_bytes(row['bytes'])}"
        drawn.append(_arrow(place[row["sender"]], ends, TOP + ROW * number, label))
    return str(Markup("").join([*drawn, Markup("</svg>")]))


def _arrow(start: int, ends: Sequence[int], y: int, label: str) -> Markup:
    """Draw a line from the sender to the farthest receivers, with a tip at each."""
    left, right = min(start, *ends), max(start, *ends)
    drawn = Markup('<path d="M{} {}H{}" class="arrow"/><circle cx="{}" cy="{}" r="3"/>').format(
        left, y, right, start, y
    )
    for end in ends:
        side = 1 if end > start else -1
        tip = Markup('<path d="M{} {}l{} -4v8z"/>').format(end, y, -9 * side)
        drawn += tip
    return drawn + Markup('<text x="{}" y="{}" class="label">{}</text>').format((left + right) // 2, y - 6, label)
