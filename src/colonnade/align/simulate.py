"""Align a federation that lives in one process."""

from __future__ import annotations

from colonnade.align.alignment import Policy
from colonnade.align.together import align_together
from colonnade.federation.federation import Federation


def align_federation(federation: Federation, policy: Policy = "drop") -> Federation:
    """Return `federation` with its records aligned by the very protocol that runs between hosts.

    Args:
        federation: who takes part, each with its own ids.
        policy: `drop` keeps the records that all parties hold; `impute` those of the active party.
    """
    active = federation.active or federation.parties[0]
    ids = {party: records.ids for party, records in federation.records.items()}
    # In one process there is nobody to hide the order from, and the same ids shall give the same run.
    aligned = align_together(ids, active, policy, secret=b"one process")
    return federation.aligned({party: found.rows for party, found in aligned.items()})
