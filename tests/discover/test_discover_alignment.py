"""If these fail, the coordinator, who holds no data, is given a hash of the ids that it can try guesses on."""

import hashlib

import pandas as pd
from discovery_parts import chain

from colonnade.align.remembered import align_for_run
from colonnade.discover.join import _token
from colonnade.discover.party import PartySeat
from colonnade.discover.variables import prepare_columns
from colonnade.run import Run
from colonnade.wire.together import run_together

PARTIES = ("clinic", "lab")


def seats(folder):
    """Align as a discovery over the network does."""
    ids, columns = pd.Index([f"p{row}" for row in range(240)]), prepare_columns(chain()[["a"]])

    def live(name):
        def role(channel):
            run = Run.create(name, {}, folder / name)
            found = align_for_run(
                channel, ids, active="clinic", order=PARTIES, policy="drop", run=run, resume=False, secret=b""
            )
            return PartySeat(name, columns, b"", alignment=found.digest, token=_token(run.path))

        return role

    return run_together({name: live(name) for name in PARTIES})


def test_the_coordinator_sees_no_plain_hash_of_the_ids_and_cannot_link_runs(tmp_path):
    first, second = seats(tmp_path / "first"), seats(tmp_path / "second")
    assert first["clinic"].alignment == second["lab"].alignment, "the digest itself is a plain hash of the ids"
    assert first["clinic"].shown_alignment == first["lab"].shown_alignment
    assert first["clinic"].shown_alignment != second["clinic"].shown_alignment
    assert len(first["clinic"].token) == 32
    plain = {first["clinic"].alignment, hashlib.sha256(first["clinic"].alignment.encode()).hexdigest()}
    assert first["clinic"].shown_alignment not in plain
