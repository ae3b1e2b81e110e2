"""Everything that can be found wrong before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from colonnade.errors import ConfigError, DataError, nearest
from colonnade.federation.files import FederationFile, PartyFile, read_federation, read_party
from colonnade.federation.knowledge import Knowledge
from colonnade.federation.problems import Problem, ProblemsError
from colonnade.federation.task import WeightSettings

Inspection = Callable[[FederationFile, PartyFile, Path], Iterable[Problem]]
"""A further check by a layer above, such as defenses or certificates: (federation, party, path of the party file)."""

Suggestion = Callable[[str], str | None]
"""Asked of a layer above: which defense may be meant by a name that none has; None where one has it."""

File = TypeVar("File")


def check(
    federation_path: Path | str,
    party_path: Path | str | None = None,
    inspections: Sequence[Inspection] = (),
    suggest_defense: Suggestion | None = None,
) -> list[Problem]:
    """Return every problem of a federation file and, if given, of one party's file and records.

    Args:
        federation_path: the federation file.
        party_path: the party file; without it the federation file alone is checked.
        inspections: further checks, made once both files can be read.
        suggest_defense: knows the defenses that a task may require; without it any name is taken for one.
    """
    federation, problems = _read(read_federation, Path(federation_path))
    party, more = (None, []) if party_path is None else _read(read_party, Path(party_path))
    if federation is not None:
        problems += _check_fingerprints(federation, Path(federation_path))
        problems += _check_coordinator(federation, Path(federation_path))
        problems += _check_weights(federation, party, Path(federation_path))
    unknown = _check_defense_exists(federation, Path(federation_path), suggest_defense)
    problems += unknown + more
    if party_path is None or party is None:
        return problems
    if federation is None:
        return problems + _check_path(party, Path(party_path))
    if party.party not in federation.everybody:
        what = f"'{party.party}' is no party of federation '{federation.name}'"
        problems.append(Problem(what, Path(party_path), "party", nearest(party.party, federation.everybody)))
        return problems + _check_path(party, Path(party_path))
    if party.party in federation.parties:
        problems += [] if unknown else _check_protection(federation, party, Path(party_path))
        problems += _check_shared_labels(federation, party, Path(party_path))
        problems += _check_data(federation, party, Path(party_path))
    else:
        problems += _check_no_data(party, Path(party_path))
    for inspect in inspections:
        problems += inspect(federation, party, Path(party_path))
    return problems


def _read(reader: Callable[[Path], File], path: Path) -> tuple[File | None, list[Problem]]:
    try:
        return reader(path), []
    except ProblemsError as error:
        return None, error.problems


def _check_fingerprints(federation: FederationFile, path: Path) -> list[Problem]:
    without = [name for name, entry in federation.everybody.items() if entry.fingerprint is None]
    if not without:
        return []
    what = f"no fingerprint for {', '.join(without)}: any certificate that the CA gave to that name is accepted"
    return [Problem(what, path, "parties", "write the fingerprints that 'colonnade keys' printed", "note")]


def _check_coordinator(federation: FederationFile, path: Path) -> list[Problem]:
    if federation.coordinator is not None or not federation.discovers:
        return []
    what = "is not named: a causal graph can be discovered in one process only"
    return [Problem(what, path, "coordinator", "name somebody who holds no data", "note")]


def _check_weights(federation: FederationFile, party: PartyFile | None, path: Path) -> list[Problem]:
    """Whether the active party uploads too, only its own file says: the others are told that it may."""
    passive, settings = len(federation.passive), federation.task.weights
    is_active = party is not None and party.party == federation.active
    uploads = not is_active or (party is not None and party.data is not None and party.data.columns != ())
    refused = _refusal(settings, passive + uploads)
    if refused is None:
        return []
    certain = is_active or _refusal(settings, passive) is not None
    what = refused.what if certain else f"{refused.what}, if '{federation.active}' uploads too"
    return [Problem(what, path, refused.where or "", refused.remedy or "", "problem" if certain else "note")]


def _refusal(settings: WeightSettings, parties: int) -> ConfigError | None:
    try:
        settings.require_room(parties)
    except ConfigError as error:
        return error
    return None


def _check_no_data(party: PartyFile, path: Path) -> list[Problem]:
    """The coordinator sees edge strengths of all: with columns of its own it would learn more than it must."""
    given = {"data": party.data, "sensitive": party.sensitive, "kinds": party.kinds}
    problems = [
        Problem("the coordinator holds no data", path, field, "leave it out") for field, value in given.items() if value
    ]
    if party.knowledge != Knowledge():
        remedy = "write what everybody may know into federation.yaml"
        problems.append(Problem("the coordinator has no variables to know about", path, "knowledge", remedy))
    return problems


def _check_path(party: PartyFile, path: Path) -> list[Problem]:
    if party.data is None:
        return [Problem("is missing", path, "data", "write where your records are")]
    if party.data.path.exists():
        return []
    return [Problem(f"there is no {party.data.path}", path, "data.path", "write where your records are")]


def _check_shared_labels(federation: FederationFile, party: PartyFile, path: Path) -> list[Problem]:
    if party.party != federation.active or federation.task.labels == "server":
        return []
    if not party.share_labels:
        remedy = "write 'share_labels: true' if they may see them, or agree on task.labels: server"
        return [Problem("the task shows labels to all parties", path, "share_labels", remedy)]
    if party.defense.name != "none" or (party.data is not None and party.data.columns == ()):
        return []
    what = "with shared labels, what this party computes from its own columns is sent to all parties"
    return [Problem(what, path, "defense.name", "choose a defense, or take part without columns", "note")]


def _check_defense_exists(
    federation: FederationFile | None, path: Path, suggest_defense: Suggestion | None
) -> list[Problem]:
    """Nobody can use a defense that does not exist: a slip in the federation file is no party's mistake."""
    required = federation.task.protection if federation is not None else None
    meant = suggest_defense(required) if required is not None and suggest_defense is not None else None
    return [] if meant is None else [Problem(f"unknown defense '{required}'", path, "task.protection", meant)]


def _check_protection(federation: FederationFile, party: PartyFile, path: Path) -> list[Problem]:
    required = federation.task.protection
    if required is None or party.party == federation.active or required in party.defense.names:
        return []
    what = f"the federation requires the defense '{required}', not '{party.defense.name}'"
    return [Problem(what, path, "defense.name", f"write {required}, or ask the others to change task.protection")]


def _check_data(federation: FederationFile, party: PartyFile, path: Path) -> list[Problem]:
    missing = _check_path(party, path)
    if missing:
        return missing
    # Here, not above: `--help` and the checks of the files alone need no pandas.
    from colonnade.federation.check_data import check_images, check_table

    inspect = check_images if party.source.kind == "images" else check_table
    try:
        return inspect(federation, party, path)
    except DataError as error:
        return [Problem(error.what, path, "data.path", error.remedy or "")]
