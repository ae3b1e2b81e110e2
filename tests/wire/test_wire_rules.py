"""If these fail, a party believes a replayed or far-off message, or throws an honest one away."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import ConfigError, DeadlineError, PeerLostError, RefusedError
from colonnade.wire.deadline import Deadline
from colonnade.wire.frame import Frame, decode, encode
from colonnade.wire.inbox import Inbox
from colonnade.wire.message import Message
from colonnade.wire.outbox import Outbox
from colonnade.wire.rules import Progress, Rules, Window, content_mark


def rules(allowed=None, window=Window(steps=10)):  # noqa: B008
    return Rules("b", "run", allowed, Progress(), window)


def message(step, kind="upload", sender="b", run="run", **tensors):
    return Message(run, sender, kind, step, tensors)


def test_steps_grow_within_a_kind_and_not_between_kinds():
    """Uploads and gradients count for themselves."""
    judge = rules()
    assert all(judge.is_new(message(step)) for step in (0, 1, 5))
    assert judge.is_new(message(0, "loss"))
    with pytest.raises(RefusedError, match="'upload' for step 4 was refused: replayed step, it was at step 5 already"):
        judge.is_new(message(4))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=30))
def test_only_a_growing_sequence_is_accepted(steps):
    """Whatever order steps come in, what is accepted grows strictly, and nothing that grows is refused."""
    judge, accepted = rules(window=Window()), []
    for step in steps:
        try:
            if judge.is_new(message(step)):
                accepted.append(step)
        except RefusedError:
            assert step < accepted[-1]
    assert accepted == sorted(set(accepted)) and set(accepted) >= {max(steps)} if steps else not accepted


def test_a_repetition_is_dropped_and_another_content_is_not():
    """A message sent twice does no harm; a changed one under the same step is an attack or a bug."""
    judge, big = rules(), np.arange(100_000.0)
    assert judge.is_new(message(0, x=big))
    assert not judge.is_new(message(0, x=big.copy()))
    with pytest.raises(RefusedError, match="replayed"):
        judge.is_new(message(0, x=big + 1))
    turned = big.reshape(100, 1000).T
    assert judge.is_new(message(1, x=turned))
    with pytest.raises(RefusedError, match="replayed"):
        judge.is_new(message(1, x=turned + 1))


def test_marks_see_names_shapes_values_and_meta():
    """Two messages that differ in any of these are different."""
    base = {"x": np.arange(6)}
    variants = [
        Message("r", "b", "k", 0, base),
        Message("r", "b", "k", 0, {"y": np.arange(6)}),
        Message("r", "b", "k", 0, {"x": np.arange(6).reshape(2, 3)}),
        Message("r", "b", "k", 0, {"x": np.arange(6).astype("f4")}),
        Message("r", "b", "k", 0, {"x": np.arange(6) + 1}),
        Message("r", "b", "k", 0, base, {"n": 1}),
    ]
    assert len({content_mark(variant) for variant in variants}) == len(variants)


def test_a_run_may_begin_at_any_step_and_may_not_jump():
    """A resumed run begins where the last one ended; after that, steps stay within the window of what we reached."""
    judge = rules()
    assert judge.is_new(message(50_000))
    with pytest.raises(RefusedError, match="future step, this party is at step -1"):
        judge.is_new(message(50_001))
    judge._progress.reach(50_000)
    assert judge.is_new(message(50_010))
    with pytest.raises(RefusedError, match="future step, this party is at step 50000"):
        judge.is_new(message(50_011))


def test_kinds_are_bounded():
    """A peer that may use any kind can't fill memory with names of kinds."""
    judge = rules(window=Window(kinds=3))
    for number in range(3):
        judge.is_new(message(0, f"kind {number}"))
    with pytest.raises(RefusedError, match="more than 3 kinds"):
        judge.is_new(message(0, "one more"))


def test_allowed_kinds():
    """What the role does not allow is refused by name."""
    judge = rules(frozenset({"upload"}))
    assert judge.is_new(message(0))
    with pytest.raises(RefusedError, match="b: 'decision' for step 0 was refused: its role may not send this kind"):
        judge.is_new(message(0, "decision"))


def test_meta_is_read_when_it_is_taken():
    """Role code that changes, keeps or writes down what it was told would meet a text instead of values."""
    inbox = Inbox(rules())
    said = Message("run", "b", "plan", 0, {}, {"names": ["age", "sex"]})
    inbox.put(decode(encode(said).tobytes())[0])
    taken = inbox.take("plan", 0, 1).meta
    assert taken == said.meta and isinstance(taken, dict)
    inbox.put(decode(encode(Message("run", "b", "plan", 1)).tobytes())[0])
    assert inbox.take("plan", 1, 1).meta == {}


def test_a_dropped_repetition_counts_as_read():
    """Otherwise the sender would wait for room that never comes."""
    inbox = Inbox(rules())
    for _ in range(2):
        inbox.put(message(0), 100)
    inbox.take("upload", 0, 1)
    assert (inbox.read_messages, inbox.read_bytes, len(inbox)) == (2, 200, 0)


def test_what_waits_can_be_read_after_the_peer_is_lost_but_not_after_a_refusal():
    """A dead party's last word still counts; a dishonest one's does not."""
    lost, refused = Inbox(rules()), Inbox(rules())
    for inbox in (lost, refused):
        inbox.put(message(0))
    lost.fail(PeerLostError("b", "died"))
    refused.fail(RefusedError("no", where="b"))
    assert lost.take("upload", 0, 1).step == 0
    with pytest.raises(PeerLostError):
        lost.take("upload", 1, 1)
    with pytest.raises(RefusedError):
        refused.take("upload", 0, 1)


def frame(size: int) -> Frame:
    return Frame((memoryview(bytes(size)),), size)


def test_the_outbox_waits_for_room_and_ends_waiting():
    """Room comes from reading; without it the wait ends with the peer's name."""
    outbox = Outbox("b", lambda: 0.2, Window(messages=10, bytes=100))
    outbox.put(lambda number: frame(500))  # larger than the window, but nothing else is under way
    with pytest.raises(DeadlineError, match="b: does not read"):
        outbox.put(lambda number: frame(1))
    threading.Timer(0.05, lambda: outbox.confirm(1, 1, 500)).start()
    assert outbox.put(lambda number: frame(60))


def test_a_failure_ends_a_wait_for_room():
    """A sender that waits for a peer that dies does not wait for the deadline."""
    outbox = Outbox("b", lambda: 60, Window(messages=1))
    outbox.put(lambda number: frame(1))
    threading.Timer(0.05, lambda: outbox.fail(PeerLostError("b", "died"))).start()
    started = time.monotonic()
    with pytest.raises(PeerLostError):
        outbox.put(lambda number: frame(1))
    assert time.monotonic() - started < 30


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_resending_after_cuts_delivers_every_byte_once(data):
    """A connection that is cut at any byte, with confirmations lost or late, delivers each frame once and in order."""
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=8))
    frames = [encode(Message("r", "a", "k", n, {"x": np.arange(size)}), n) for n, size in enumerate(sizes)]
    outbox, arrived, partial = Outbox("b", lambda: 1), [], b""
    for one in frames:
        outbox.put(lambda number, one=one: one)
    for _ in range(2000):
        action = data.draw(st.sampled_from(["send", "send", "send", "cut", "confirm"]))
        if action == "cut":
            outbox.rewind()
            partial = b""
        elif action == "confirm":
            assert outbox.confirm(len(arrived), 0, 0)
        elif (chunk := outbox.next_chunk(data.draw(st.integers(1, 200)))) is not None:
            if chunk.parcel.sequence < len(arrived):
                continue  # the receiver drops what it has
            assert chunk.parcel.sequence == len(arrived) and chunk.offset == len(partial)
            partial += b"".join(chunk.parcel.frame.parts(chunk.offset, chunk.length))
            if len(partial) == chunk.parcel.frame.size:
                arrived.append(partial)
                partial = b""
        elif len(arrived) == len(frames):
            break
    assert arrived == [one.tobytes() for one in frames][: len(arrived)]


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
def test_a_deadline_is_a_positive_number(wrong):
    """Nobody waits for ever by mistake."""
    with pytest.raises(ConfigError, match=r"deadline\.reply"):
        Deadline(reply=wrong)
