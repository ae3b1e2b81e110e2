"""What `check` asks of the layers above the files: defense, variables of a discovery, keys, peers."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from colonnade.errors import AuthenticationError, ConfigError, DataError, WireError, nearest
from colonnade.federation.files import FederationFile, PartyEntry, PartyFile
from colonnade.federation.problems import Problem
from colonnade.wire.preflight import Peer, check_peer, describe, split_address
from colonnade.wire.tls import Credentials, check_identity, read_certificate

PATIENCE = 3.0
"""Seconds that a peer has to answer."""


def suggest_defense(name: str) -> str | None:
    """Return which defense `name` may mean where no defense has this name."""
    from colonnade.defend import DEFENSES

    return None if name in DEFENSES else nearest(name, DEFENSES)


def inspect_defense(federation: FederationFile, party: PartyFile, path: Path) -> Iterable[Problem]:
    """Check that the defense exists, takes this strength and needs nothing that the party lacks."""
    if party.defense.name == "none" and not party.defense.strength:
        return []
    from colonnade.learn.join import defense_of

    try:
        defense = defense_of(party, path)
    except ConfigError as error:
        return [Problem(error.what, path, (error.where or "").removeprefix(f"{path}: "), error.remedy or "")]
    if defense.needs_labels and party.party != federation.active and federation.task.labels == "server":
        what = f"'{party.defense.name}' needs labels, which a passive party does not have"
        return [Problem(what, path, "defense.name", "choose another defense")]
    if defense.needs_secrets and not party.sensitive:
        return [Problem(f"'{defense.name}' hides sensitive columns, and none is named", path, "sensitive", "list them")]
    if party.party == federation.active and federation.task.labels == "server":
        what = (
            "nobody sees what the active party computes from its own columns: a defense costs here, and hides nothing"
        )
        return [Problem(what, path, "defense.name", "write none", "note")]
    return []


def inspect_discovery(
    federation: FederationFile, party: PartyFile, path: Path, federation_path: Path = Path("federation.yaml")
) -> Iterable[Problem]:
    """Check what all know, that the columns can be variables, and that what the party knows about them can be true."""
    problems = inspect_public_knowledge(federation, federation_path)
    if not federation.discovers or party.party not in federation.parties or party.data is None:
        return problems
    if not party.data.path.exists():
        return problems  # told already, as is all that is wrong with ids and values
    from colonnade.discover.join import DiscoveryPlace

    place = DiscoveryPlace(federation, party, "check", federation_path, path)
    try:
        table = place.table()
    except DataError as error:
        if party.data.kind != "table":
            problems.append(Problem(f"discovery: {error.what}", path, "data.kind", error.remedy or ""))
        return problems
    for wrong in place.column_errors(table):
        field = "kinds" if isinstance(wrong, ConfigError) else "data.columns"
        problems.append(Problem(f"discovery: {wrong.what}", path, field, wrong.remedy or ""))
    try:
        place.check_knowledge([str(name) for name in table.columns])
    except ConfigError as error:
        if error.where != f"{federation_path}: knowledge":  # told already
            problems.append(Problem(f"discovery: {error.what}", path, "knowledge", error.remedy or ""))
    return problems


def inspect_public_knowledge(federation: FederationFile, path: Path) -> list[Problem]:
    """Check that what all may know can be true: that needs nobody's columns, so everybody can be told."""
    if not federation.discovers:
        return []
    from colonnade.discover.knowledge import check_public

    try:
        check_public(federation.knowledge, where=f"{path}: knowledge")
    except ConfigError as error:
        return [Problem(f"discovery: {error.what}", path, "knowledge", error.remedy or "")]
    return []


def inspect_credentials(federation: FederationFile, party: PartyFile, path: Path) -> Iterable[Problem]:
    """Check that the keys are there, valid, this party's own and those that the federation file names."""
    files = party.credentials
    if files is None:
        return [Problem("is missing", path, "credentials", "'colonnade keys' makes them; parties always talk over TLS")]
    named = {"ca": files.ca, "certificate": files.certificate, "key": files.key}
    missing = [
        Problem(f"there is no {file}", path, f"credentials.{name}", "'colonnade keys' makes it")
        for name, file in named.items()
        if not file.is_file()
    ]
    if missing:
        return missing
    try:
        material = Credentials(**named).load(party.party)
        certificate = read_certificate(material.certificate, files.certificate)
        check_identity(certificate, party.party, federation.everybody[party.party].fingerprint)
    except (ConfigError, AuthenticationError) as error:
        return [Problem(error.what, path, "credentials", error.remedy or "")]
    return []


def inspect_peers(federation: FederationFile, party: PartyFile, path: Path) -> Iterable[Problem]:
    """Try everybody else at once: can it be reached, and is it who it should be?"""
    credentials = _own_credentials(party)
    peers = {name: entry for name, entry in federation.everybody.items() if name != party.party}
    with ThreadPoolExecutor(len(peers)) as pool:
        found = pool.map(partial(_try_peer, path, credentials), peers, peers.values())
    return [problem for problem in found if problem is not None]


def _own_credentials(party: PartyFile) -> Credentials | None:
    """Return the keys to call with, None if they are not in order, which `inspect_credentials` tells."""
    if party.credentials is None:
        return None
    files = Credentials(party.credentials.ca, party.credentials.certificate, party.credentials.key)
    try:
        files.load(party.party)
    except (ConfigError, AuthenticationError):
        return None
    return files


def _try_peer(path: Path, credentials: Credentials | None, name: str, entry: PartyEntry) -> Problem | None:
    field = f"peer {name}"
    try:
        socket.create_connection(split_address(entry.address), timeout=PATIENCE).close()
        if credentials is not None:
            check_peer(name, Peer(entry.address, entry.fingerprint), credentials, PATIENCE)
    except ConnectionRefusedError:
        remedy = "it may not have started"
        return Problem(f"nobody listens at {entry.address} yet", path, field, remedy, severity="note")
    except socket.gaierror:
        return Problem(f"no host is known by the name in {entry.address}", path, field, "check its address")
    except OSError as error:
        what = f"{entry.address} cannot be reached: {describe(error)}"
        return Problem(what, path, field, "check its address and the firewall")
    except WireError as error:
        return Problem(error.what, path, field, error.remedy or "")
    return None
