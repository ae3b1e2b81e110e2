"""What all parties must agree on: before alignment the task and the type of ids, after it the records."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import Repr

from colonnade.align.courier import DIGEST, HELLO, Courier
from colonnade.errors import AlignmentError

_REPR = Repr()
"""For what a peer says: an error quotes it to everybody, however long it is."""
_REPR.maxstring = _REPR.maxother = 60
_REPR.maxlist = 20


def agree(
    courier: Courier, *, policy: str, active: str, order: Sequence[str], kind: str, records: int
) -> dict[str, int]:
    """Greet all parties; return how many records each has, or raise an error that names who disagrees."""
    mine = {"policy": policy, "active": active, "order": list(order), "kind": kind, "records": records}
    peers = [party for party in order if party != courier.name]
    for peer in peers:
        courier.tell(peer, HELLO, mine)
    sizes = {courier.name: records}
    for peer in peers:
        theirs = courier.hear(peer, HELLO)
        for field in ("policy", "active", "order"):
            if theirs.get(field) != mine[field]:
                raise AlignmentError(
                    f"aligns with {field} {_REPR.repr(theirs.get(field))}, but '{courier.name}' with {mine[field]!r}",
                    where=peer,
                    remedy="use the same federation file at every party",
                )
        _check_kind(courier.name, kind, peer, theirs.get("kind"))
        sizes[peer] = _check_size(peer, theirs.get("records"))
    return sizes


def compare_digests(courier: Courier, peers: Sequence[str], digest: str) -> None:
    """Exchange the digest of the common records with `peers`; raise an error that names who holds others."""
    for peer in peers:
        courier.tell(peer, DIGEST, {"digest": digest})
    for peer in peers:
        if courier.hear(peer, DIGEST).get("digest") != digest:
            raise AlignmentError(
                f"ended with other records than '{courier.name}'",
                where=peer,
                remedy="align again; if it happens again, a party does not follow the protocol",
            )


def _check_kind(name: str, mine: str, peer: str, theirs: object) -> None:
    if theirs != mine:
        shown = _REPR.repr(theirs).strip("'")
        raise AlignmentError(
            f"has {shown} ids, but '{name}' has {mine} ids",
            where=peer,
            remedy="give the id column the same type at both; as strings if leading zeros matter",
        )


def _check_size(peer: str, records: object) -> int:
    if not isinstance(records, int) or isinstance(records, bool) or records < 1:
        raise AlignmentError(
            f"announced {_REPR.repr(records)} records",
            where=peer,
            remedy="run the same version of Colonnade at every party",
        )
    return records
