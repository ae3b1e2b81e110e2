"""What may be said at the top of a report: sentences that never say more than the numbers below them."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.progress import describe_bytes, describe_values
from colonnade.report.gather import Job, Study

AT_ONCE, FEW_MORE = 8, 4
"""So many details stand at the top; a few more are not worth folding."""


def sentences(study: Study) -> tuple[list[str], list[str]]:
    """Return the plain words for what was found: first what matters most, then every detail.

    What matters most is what the program said that ran the study; where it said nothing, every detail matters, or of
    very many the first.
    """
    most = [str(line) for line in study.summary.get("sentences", [])]
    details = [sentence[0].upper() + sentence[1:] for sentence in _details(study)]
    if most:
        return most, details
    return (details[:AT_ONCE], details) if len(details) > AT_ONCE + FEW_MORE else (details, [])


def _details(study: Study) -> list[str]:
    said = [f"{name}: {sentence}" for name, sentence in study.unfinished.items()]
    for job in study.jobs:
        said += _of_job(job)
    for name, graph in study.graphs.items():
        edges = graph.edge_list()
        between = sum(edge.kind == "inter" for edge in edges)
        said.append(
            f"{name}: a graph of {len(graph.variables)} variables with {_counted(len(edges), 'edge')}, "
            f"{between} of them between parties. It is a hypothesis to be tested, not proof of causes."
        )
    said += [sentence for audit in study.audits.values() for sentence in audit.verdict]
    said += [sentence for audit in study.attributes.values() for sentence in audit.verdict]
    if not study.audits and not study.attributes and any(job.kind == "training" for job in study.jobs):
        said.append("No attack was tried on these uploads: what they give away is not known.")
    return said


def _of_job(job: Job) -> Iterator[str]:
    states = {party: run.status for party, run in job.runs.items()}
    unfinished = [party for party, state in states.items() if state != "finished"]
    sent = sum(run.ledger.sent_bytes for run in job.runs.values())
    who = _counted(job.parties, "party", "parties")
    if unfinished:
        why = next((run.reason for run in job.runs.values() if run.reason), None)
        yield f"{job.name}: {states[unfinished[0]]} at {', '.join(unfinished)}" + (f": {why}" if why else "")
        return
    # Of parties whose run folder is elsewhere nobody here knows what they sent, nor whether they have finished.
    at, there = (f" at {', '.join(job.runs)}", " from there") if len(job.runs) < job.parties else ("", "")
    yield f"{job.name}: a {job.kind} of {who} has finished{at}; {describe_bytes(sent)} were sent{there}."
    if test := job.result.get("test"):
        yield f"{job.name}: on the test records {describe_values(test)}."


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
