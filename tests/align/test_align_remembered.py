"""If these fail, a resumed run joins one person's columns to another's."""

from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd

from colonnade.align.remembered import align_for_run
from colonnade.run import Run
from colonnade.wire.together import run_together

IDS = {"bank": ["ann", "bob", "cat", "dan"], "shop": ["dan", "cat", "eve", "ann"]}


def common(ids, folder, resume):
    """Return whom each party's rows mean, after an alignment for a run in `folder`."""

    def live(channel, party):
        run = Run.resume(folder / party) if resume else Run.create(party, {}, folder)
        with run:
            found = align_for_run(
                channel, pd.Index(ids[party]), active="bank", order=("bank", "shop"), policy="drop", run=run,
                resume=resume, secret=b"known to the bank",
            )  # fmt: skip
        return found.rows

    rows = run_together({party: partial(live, party=party) for party in ids}, "run")
    return {party: np.asarray(ids[party])[rows[party]].tolist() for party in ids}, rows


def test_a_file_in_another_order_is_aligned_again(tmp_path):
    before, _ = common(IDS, tmp_path, resume=False)
    assert before["bank"] == before["shop"] and set(before["bank"]) == {"ann", "cat", "dan"}
    after, rows = common({**IDS, "shop": sorted(IDS["shop"])}, tmp_path, resume=True)
    assert after["bank"] == after["shop"] == before["bank"]
    assert rows["shop"].max() <= 3


def test_a_shorter_file_is_aligned_again(tmp_path):
    common(IDS, tmp_path, resume=False)
    after, _ = common({**IDS, "shop": ["dan", "ann"]}, tmp_path, resume=True)
    assert after["bank"] == after["shop"] and set(after["bank"]) == {"ann", "dan"}


def test_an_unchanged_file_is_not_aligned_again(tmp_path, monkeypatch):
    _, rows = common(IDS, tmp_path, resume=False)
    monkeypatch.setattr(import_module("colonnade.align.remembered"), "align", None)
    _, again = common(IDS, tmp_path, resume=True)
    assert all(np.array_equal(again[party], rows[party]) for party in IDS)
