"""If these fail, a simulation in one process behaves otherwise than the same parties on a network would."""

import threading
import time

import numpy as np
import pytest

from colonnade.errors import ConfigError, DeadlineError, FrameError, PeerLostError, RefusedError
from colonnade.wire.deadline import Deadline
from colonnade.wire.local import local_channels


@pytest.mark.parametrize("count", [2, 3, 5])
def test_all_parties_talk_to_all(count):
    """Each party in its own thread; every message reaches the one it is for."""
    channels = local_channels([f"p{n}" for n in range(count)])
    errors = []

    def live(channel):
        try:
            for step in range(20):
                for peer in channel.peers:
                    channel.send(peer, "upload", step, meta={"from": channel.name, "step": step})
                for peer in channel.peers:
                    assert channel.recv(peer, "upload", step).meta == {"from": peer, "step": step}
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(channel,)) for channel in channels.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors


def test_tensors_are_handed_over_without_a_copy():
    """A simulation of many parties does not pay for copies."""
    a, b = local_channels(["a", "b"]).values()
    tensor = np.arange(10.0)
    a.send("b", "upload", 0, {"x": tensor, "t": tensor[::2]})
    got = b.recv("a", "upload", 0).tensors
    assert got["x"] is tensor and np.shares_memory(got["t"], tensor)


def test_meta_arrives_as_json_does():
    """A tuple becomes a list here too, and later changes at the sender are not seen: no surprise on a network."""
    a, b = local_channels(["a", "b"]).values()
    meta = {"shape": (2, 3), "inner": {"n": 1}}
    a.send("b", "plan", 0, meta=meta)
    meta["inner"]["n"] = 2
    assert b.recv("a", "plan", 0).meta == {"shape": [2, 3], "inner": {"n": 1}}


def test_what_a_message_lacks_is_its_senders_fault():
    """A peer of another version would end a party in a traceback, and the others would hear that it was to blame."""
    clinic, lab = local_channels(["clinic", "lab"]).values()
    clinic.send("lab", "hello", 0, {"held": np.ones(2)}, {"name": "x"})
    told = lab.recv("clinic", "hello", 0)
    assert (told.meta, told.meta.get("token"), "token" in told.meta) == ({"name": "x"}, None, False)
    for held, name in ((told.meta, "token"), (told.tensors, "gradient")):
        with pytest.raises(RefusedError, match=f"clinic: sent 'hello' without '{name}'"):
            _ = held[name]


def test_what_a_network_refuses_is_refused_here():
    """Kinds, steps and content follow the same rules, so that a role is right before it meets a network."""
    a, b = local_channels(["a", "b"], allowed={"a": frozenset({"upload"}), "b": None}).values()
    with pytest.raises(FrameError):
        a.send("b", "upload", 0, {"x": [1, 2]})
    with pytest.raises(FrameError):
        a.send("b", "upload", 0, meta={"x": object()})
    with pytest.raises(FrameError, match="whole number"):
        a.send("b", "upload", 1.5)
    with pytest.raises(ConfigError, match="no peer 'z'"):
        a.send("z", "upload", 0)
    a.send("b", "upload", np.int64(5))
    a.send("b", "upload", 6)
    assert b.recv("a", "upload", 5).step == 5
    with pytest.raises(RefusedError, match="a: 'upload' for step 5 was refused: replayed step"):
        a.send("b", "upload", 5, {"x": np.zeros(1)})
    with pytest.raises(RefusedError):  # a refusal is final, for both
        b.recv("a", "upload", 6)


def test_a_kind_that_is_not_allowed():
    """The role's kinds hold in one process too."""
    a, b = local_channels(["a", "b"], allowed={"a": frozenset({"upload"})}).values()
    with pytest.raises(RefusedError, match="a: 'decision' for step 0 was refused: its role may not send this kind"):
        a.send("b", "decision", 0)
    with pytest.raises(RefusedError):
        b.send("a", "gradient", 0)


def test_a_step_that_was_skipped_ends_the_wait_at_once():
    """Who asks for what can't come any more is told, not left waiting."""
    a, b = local_channels(["a", "b"]).values()
    a.send("b", "upload", 3)
    with pytest.raises(RefusedError, match="'upload' for step 2 can't come any more"):
        b.recv("a", "upload", 2)


def test_an_error_in_one_role_ends_the_others_and_names_it():
    """The first cause is what everybody reports."""
    a, b, c = local_channels(["a", "b", "c"]).values()
    with pytest.raises(ValueError, match="bad"), a:
        raise ValueError("bad data")
    for channel in (b, c):
        with pytest.raises(PeerLostError, match=r"a: stopped: something unexpected \(ValueError\)") as caught:
            channel.recv("a", "upload", 0)
        assert caught.value.peer == "a" and "bad data" not in str(caught.value)


def test_a_wait_has_an_end():
    """A role that asks for what nobody sends does not hang."""
    a, _ = local_channels(["a", "b"], deadline=Deadline(reply=0.1)).values()
    with pytest.raises(DeadlineError, match=r"b: no 'upload' for step 0 within 0\.1 s"):
        a.recv("b", "upload", 0)


def test_a_patient_wait_is_as_long_as_a_peer_may_learn():
    """Generative surrogates of ten thousand pictures take a processor longer than any answer may take."""
    a, _ = local_channels(["a", "b"], deadline=Deadline(reply=30, learn=0.1)).values()
    a.patient = True
    with pytest.raises(DeadlineError, match=r"b: no 'ready' for step 0 within 0\.1 s"):
        a.recv("b", "ready", 0)
    assert Deadline().learn > 12 * 3600 > Deadline().reply


def test_patience_is_given_back_however_it_ends():
    """A training after an alignment would wait a day for an answer that takes seconds."""
    a, _ = local_channels(["a", "b"], deadline=Deadline(reply=0.1, learn=30)).values()
    with pytest.raises(ZeroDivisionError), a.patiently():
        assert a.patience == 30
        raise ZeroDivisionError
    assert a.patience == 0.1


def test_leaving_in_good_order():
    """What was sent before can be read; what was not is told at once."""
    a, b = local_channels(["a", "b"]).values()
    with a:
        a.send("b", "result", 0)
    assert b.recv("a", "result", 0).kind == "result"
    started = time.monotonic()
    with pytest.raises(PeerLostError, match="a: left the run without 'result' for step 1"):
        b.recv("a", "result", 1)
    assert time.monotonic() - started < 30
