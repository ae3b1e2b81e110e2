"""The ledger: a party can show, and check, everything that left it."""

import json
import shutil
import threading
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import DeadlineError, FrameError, RunError
from colonnade.ledger import Ledger
from colonnade.run import Run
from colonnade.wire.deadline import Deadline
from colonnade.wire.local import local_channels
from colonnade.wire.message import Message


def message(step, kind="upload", meta=None, **tensors):
    return Message("run", "clinic", kind, step, tensors, meta or {})


def write_ledger(path, messages=3):
    ledger = Ledger(path)
    for step in range(messages):
        ledger.record("lab", message(step, h=np.full((2, 3), step, np.float32), mask=np.ones(2, bool)))
    ledger.close()
    return ledger


@pytest.fixture(scope="module")
def closed_ledger(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    write_ledger(path)
    return path


def test_a_line_says_what_left_and_for_whom(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record("lab", message(7, h=array))
    line = json.loads(ledger.path.read_text())
    assert (line["step"], line["kind"], line["to"], line["bytes"]) == (7, "upload", "lab", 24)
    assert line["tensors"] == {"h": ["float32", [2, 3]]}
    assert line["digest"] == blake2b(array.tobytes(), digest_size=16).hexdigest()


def test_the_digest_is_of_what_was_sent_not_of_how_it_lay_in_memory(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record("lab", message(1, h=array.T))
    ledger.record("lab", message(1, h=np.ascontiguousarray(array.T)))
    ledger.record("lab", message(1, h=array.T, meta={"stop": True}))
    plain, contiguous, with_meta = [json.loads(line)["digest"] for line in ledger.path.read_text().splitlines()]
    assert plain == contiguous
    assert with_meta != plain, "meta values leave the party too"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4)])
def test_every_kind_of_array_on_the_wire_can_be_recorded(tmp_path, dtype, shape):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    array = np.ones(shape, dtype)
    array.setflags(write=False)
    ledger.record("lab", message(0, x=array))
    assert ledger.sent_bytes == array.nbytes
    ledger.verify()


def test_summary_adds_up_what_a_channel_sent(tmp_path):
    clinic, lab, bank = local_channels(["clinic", "lab", "bank"]).values()
    ledger = Ledger(tmp_path / "ledger.jsonl")
    clinic.observe(ledger.record)
    for step in range(3):
        clinic.send("lab", "upload", step, {"h": np.zeros(10, np.float32)})
    clinic.send("bank", "plan", 0, meta={"shapes": [1, 2]})
    lab.send("clinic", "gradient", 0, {"g": np.zeros(10, np.float32)})
    rows = ledger.summary().to_numpy().tolist()
    assert rows == [["upload", "lab", 3, 120], ["plan", "bank", 1, 0]]
    assert ledger.sent_bytes == clinic.sent_bytes == 120
    assert bank.recv("clinic", "plan", 0).meta == {"shapes": [1, 2]}


def test_an_empty_ledger_verifies_and_sums_to_nothing(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.verify()
    assert ledger.summary().empty
    assert (ledger.messages, ledger.sent_bytes) == (0, 0)


def test_opening_an_existing_ledger_continues_its_chain(tmp_path):
    path = tmp_path / "ledger.jsonl"
    write_ledger(path)
    again = write_ledger(path)
    assert again.messages == 6
    Ledger(path).verify()


def test_a_record_can_follow_close(tmp_path):
    ledger = write_ledger(tmp_path / "ledger.jsonl")
    ledger.record("lab", message(9))
    ledger.verify()
    assert ledger.messages == 4


def test_what_was_recorded_is_in_the_file_at_once(tmp_path):
    """A kill must not make the ledger forget messages that have left."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for step in range(5):
        ledger.record("lab", message(step))
        assert len(ledger.path.read_bytes().splitlines()) == step + 1


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_changed_byte_of_a_closed_ledger_is_noticed(closed_ledger, tmp_path_factory, data):
    raw = bytearray(closed_ledger.read_bytes())
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))
    changed = closed_ledger.with_name("changed.jsonl")
    changed.write_bytes(raw)
    with pytest.raises(RunError):
        Ledger(changed).verify()


@pytest.mark.parametrize("byte", [b"x", b" ", b"}", b"\r", b"\0"])
def test_a_changed_last_line_end_is_no_torn_line(closed_ledger, tmp_path, byte):
    """Cutting it off would silently take away a message that has left."""
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(closed_ledger.read_bytes()[:-1] + byte)
    with pytest.raises(RunError, match="line 3 was changed"):
        Ledger(path).verify()
    with pytest.raises(RunError, match="line 3 was changed"):
        Ledger(path).record("lab", message(9))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_torn_last_line_is_cut_off_and_the_chain_goes_on(closed_ledger, data):
    raw = closed_ledger.read_bytes()
    start = raw.rindex(b"\n", 0, -1) + 1
    path = closed_ledger.with_name("torn.jsonl")
    path.write_bytes(raw[: data.draw(st.integers(start, len(raw) - 1))])
    ledger = Ledger(path)
    ledger.verify()
    assert ledger.messages == 2
    ledger.record("lab", message(9))
    ledger.verify()
    assert ledger.messages == 3
    ledger.close()


@pytest.mark.parametrize("order", [[0, 2], [1, 2], [0, 0, 1, 2], [1, 0, 2]])
def test_lost_repeated_and_swapped_lines_are_noticed(closed_ledger, tmp_path, order):
    lines = closed_ledger.read_bytes().splitlines(keepends=True)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"".join(lines[index] for index in order))
    with pytest.raises(RunError, match="does not follow"):
        Ledger(path).verify()


def test_a_line_that_is_valid_json_but_no_entry_is_refused(tmp_path):
    path = tmp_path / "ledger.jsonl"
    for content in (b"{}\n", b"[]\n", b"nonsense\n"):
        path.write_bytes(content)
        with pytest.raises(RunError, match="no ledger entry"):
            _ = Ledger(path).head
        with pytest.raises(RunError, match="line 1 was changed"):
            Ledger(path).verify()


def test_a_chain_is_not_continued_from_a_changed_line(closed_ledger, tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(closed_ledger.read_bytes().replace(b'"step":2', b'"step":8'))
    with pytest.raises(RunError, match="last line was changed"):
        Ledger(path).record("lab", message(9))


def test_lines_removed_from_the_end_are_noticed_once_the_run_has_finished(tmp_path):
    run = Run.create("run", {}, tmp_path)
    for step in range(3):
        run.ledger.record("lab", message(step))
    run.verify_ledger()
    run.finish({})
    Run.open(run.path).verify_ledger()
    lines = run.ledger.path.read_bytes().splitlines(keepends=True)
    run.ledger.path.write_bytes(b"".join(lines[:2]))
    with pytest.raises(RunError, match="does not end with the line"):
        Run.open(run.path).verify_ledger()


def test_many_threads_write_one_unbroken_chain(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    threads = [
        threading.Thread(target=lambda: [ledger.record("lab", message(step)) for step in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.verify()
    assert ledger.messages == 200


def test_a_very_long_line_is_found_again(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.record("lab", message(0, **{f"tensor{index}": np.zeros(1) for index in range(5000)}))
    head = ledger.head
    ledger.close()
    assert Ledger(ledger.path).head == head


def test_a_ledger_that_cannot_be_written_says_so(tmp_path):
    ledger = write_ledger(tmp_path / "folder.jsonl")
    ledger.path.unlink()
    ledger.path.mkdir()
    with pytest.raises(RunError, match="cannot be written"):
        ledger.record("lab", message(9))
    shutil.rmtree(ledger.path)


def test_nothing_leaves_before_it_stands_in_the_ledger(tmp_path):
    """A kill in between, or a full disk, would leave an upload that the party's own record does not show."""
    clinic, lab = local_channels(["clinic", "lab"], deadline=Deadline(reply=0.05)).values()

    def full_disk(to, message):
        raise OSError("no space left on device")

    clinic.observe(full_disk)
    with pytest.raises(OSError, match="no space"):
        clinic.send("lab", "upload", 0, {"h": np.zeros(3)})
    with pytest.raises(DeadlineError):
        lab.recv("clinic", "upload", 0)


def test_what_cannot_be_sent_stands_in_no_ledger(tmp_path):
    clinic, _ = local_channels(["clinic", "lab"]).values()
    ledger = Ledger(tmp_path / "ledger.jsonl")
    clinic.observe(ledger.record)
    with pytest.raises(FrameError):
        clinic.send("lab", "upload", 0, {"h": np.zeros(3, np.complex128)})
    assert ledger.messages == 0
