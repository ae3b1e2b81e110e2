"""If these fail, a resumed run joins one person's columns to another's."""

from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from colonnade.align.remembered import align_for_run
from colonnade.errors import AlignmentError
from colonnade.run import Run
from colonnade.wire.local import LocalChannel, local_channels
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


def alone(name, others, run, resume, words):
    """One party's alignment for a run whose only peer says nothing but `words`."""
    channels = local_channels(("bank", "shop"))
    channels[others].send(name, "memory", 0, meta=words)
    channels[others].close()
    ids = pd.Index(IDS[name])
    with run:
        align_for_run(
            channels[name], ids, active="bank", order=("bank", "shop"), policy="drop", run=run, resume=resume,
            secret=b"known to the bank",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bank", {}),
        ("bank", {"token": 7}),
        ("shop", {"token": "one"}),
        ("shop", {"reuse": True}),
        ("shop", {"token": "one", "reuse": "yes"}),
        ("shop", {"token": "one that the shop does not remember", "reuse": True}),
    ],
)
def test_a_peer_whose_first_word_is_none_is_named(tmp_path, name, words):
    """The run would end with a traceback, or with two parties that wait for different things."""
    other = "shop" if name == "bank" else "bank"
    with pytest.raises(AlignmentError, match=f"{other}: did not say in a known way which alignment it remembers"):
        alone(name, other, Run.create(name, {}, tmp_path), False, words)


@pytest.mark.parametrize("damage", ["empty", "torn", "no archive", "other content", "no mapping"])
def test_a_damaged_memory_is_none(tmp_path, damage):
    """A disk that was full once would end every later attempt to resume, without a word of the file."""
    _, rows = common(IDS, tmp_path, resume=False)
    file = tmp_path / "shop" / "alignment.npz"
    whole = file.read_bytes()
    if damage == "other content":
        np.savez(file, x=np.arange(3))
    elif damage == "no mapping":
        np.savez(file, rows=rows["shop"], about=np.array("[1]"))
    else:
        file.write_bytes({"empty": b"", "torn": whole[: len(whole) // 2], "no archive": b"hello"}[damage])
    after, _ = common(IDS, tmp_path, resume=True)
    assert after["bank"] == after["shop"]
    assert file.stat().st_size > 100


def test_an_alignment_for_a_run_waits_for_living_parties_as_long_as_they_encrypt(tmp_path, monkeypatch):
    """Millions of ids, or a party that is started later, and everybody would give up after ten minutes."""
    patient, receive = set(), LocalChannel._receive

    def note(channel, *message):
        patient.add(channel.patient)
        return receive(channel, *message)

    monkeypatch.setattr(LocalChannel, "_receive", note)
    common(IDS, tmp_path, resume=False)
    assert patient == {True}
