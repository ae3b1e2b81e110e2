"""How far the clocks of the peers are from this one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from colonnade.doctor.finding import Finding
from colonnade.errors import AuthenticationError, ConfigError, DeadlineError, WireError
from colonnade.place import Place
from colonnade.wire.clock import PATIENCE, Skew, ask_clock
from colonnade.wire.preflight import Peer
from colonnade.wire.tls import Credentials

FAR = 5.0
"""Seconds between two clocks that are worth a warning."""
_SET = "set both clocks, with NTP: the validity of certificates and the times in logs rest on them"
_LATER = "ask again while they wait in 'colonnade join'"


def examine_clocks(place: Place, patience: float = PATIENCE) -> Iterator[Finding]:
    """Yield how far each peer's clock is from ours, asking all at once; who is not there is told, not waited for."""
    files = place.party.credentials
    if files is None:
        yield Finding("clocks", "peers", "not asked: the party file names no keys", state="hint")
        return
    credentials = Credentials(files.ca, files.certificate, files.key)
    try:
        credentials.load(place.name)
    except (ConfigError, AuthenticationError):
        yield Finding("clocks", "peers", "not asked: this party's keys are not in order", state="hint")
        return
    entries = {name: entry for name, entry in place.federation.everybody.items() if name != place.name}

    def ask(name: str) -> Skew | WireError:
        try:
            peer = Peer(entries[name].address, entries[name].fingerprint)
            return ask_clock(place.name, name, peer, credentials, patience)
        except WireError as error:
            return error

    with ThreadPoolExecutor(len(entries)) as pool:
        answers = dict(zip(entries, pool.map(ask, entries), strict=True))
    for name, answer in answers.items():
        yield _finding(name, entries[name].address, answer)
    if all(isinstance(answer, DeadlineError) for answer in answers.values()):
        told = "nobody is there to ask: parties listen only while they take part in a run"
        yield Finding("clocks", "peers", told, state="hint", remedy=_LATER)


def _finding(name: str, address: str, answer: Skew | WireError) -> Finding:
    if isinstance(answer, DeadlineError):
        return Finding("clocks", name, f"not reachable at {address}", state="hint")
    if isinstance(answer, WireError):
        return Finding("clocks", name, f"not known: {answer.what}", state="hint")
    if abs(answer.seconds) > FAR:
        return Finding("clocks", name, str(answer), state="warning", remedy=_SET)
    return Finding("clocks", name, str(answer))
