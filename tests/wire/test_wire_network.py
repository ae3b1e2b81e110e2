"""If these fail, honest parties on a network can't talk: messages get lost, doubled or mixed up, or an end hangs."""

import threading

import numpy as np
import pytest
from wire_parts import Proxy, in_thread, parties, party

from colonnade.errors import ConfigError, DeadlineError, FrameError, PeerLostError
from colonnade.wire.deadline import Deadline
from colonnade.wire.rules import Window


@pytest.mark.parametrize("count", [2, 3, 5])
def test_all_parties_talk_to_all(kits, count):
    """Two, three and five parties are all ordinary."""
    rounds = 8
    with parties(kits, count) as channels:

        def live(channel):
            got = []
            for step in range(rounds):
                for peer in channel.peers:
                    channel.send(peer, "upload", step, {"x": np.full(100 + step, ord(channel.name))}, {"step": step})
                got += [(peer, channel.recv(peer, "upload", step)) for peer in channel.peers]
            return got

        waits = [in_thread(lambda channel=channel: live(channel)) for channel in channels.values()]
        for wait in waits:
            for at, (peer, message) in enumerate(wait()):
                step = at // (count - 1)
                assert message.sender == peer and message.meta == {"step": step} and message.run == "test"
                assert np.array_equal(message.tensors["x"], np.full(100 + step, ord(peer)))


def test_large_tensors_arrive_whole_in_both_directions_at_once(kits):
    """Frames far larger than a packet travel in pieces; both directions at once must not lock each other up."""
    sent = {name: np.random.default_rng(ord(name)).random((3, 1 << 20)) for name in "ab"}
    with parties(kits) as channels:

        def live(name, other):
            channels[name].send(other, "weights", 0, {"w": sent[name], "n": np.arange(5, dtype="u1")})
            return channels[name].recv(other, "weights", 0).tensors

        waits = {name: in_thread(lambda n=name, o=other: live(n, o)) for name, other in (("a", "b"), ("b", "a"))}
        assert np.array_equal(waits["a"]()["w"], sent["b"]) and np.array_equal(waits["b"]()["w"], sent["a"])


def test_messages_can_be_read_in_another_order_than_sent(kits):
    """A role asks for what it needs next, not for what came first."""
    with parties(kits) as channels:
        for step in range(3):
            channels["a"].send("b", "upload", step, meta={"n": step})
            channels["a"].send("b", "loss", step, meta={"n": -step})
        assert [channels["b"].recv("a", "loss", step).meta["n"] for step in (2, 0, 1)] == [-2, 0, -1]
        assert [channels["b"].recv("a", "upload", step).meta["n"] for step in (1, 2, 0)] == [1, 2, 0]


def test_received_tensors_fit_what_was_sent_and_cannot_be_changed(kits):
    """Odd layouts (big-endian, transposed, scalars, empty) arrive equal; nobody can write into the wire's memory."""
    tensors = {
        "big": np.arange(6, dtype=">f4").reshape(2, 3),
        "turned": np.arange(12.0).reshape(3, 4).T[:, ::2],
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 7), dtype="f2"),
        "truth": np.array([True, False]),
    }
    with parties(kits) as channels:
        channels["b"].send("a", "odd", 0, tensors)
        got = channels["a"].recv("b", "odd", 0).tensors
    assert list(got) == list(tensors)
    for name, tensor in tensors.items():
        assert np.array_equal(got[name], tensor) and got[name].shape == tensor.shape
        assert got[name].dtype == tensor.dtype.newbyteorder("<")
    with pytest.raises(ValueError, match="read-only"):
        got["turned"][0] = 1


def test_a_fast_sender_waits_for_a_slow_reader(kits, monkeypatch):
    """A party that is far ahead must not fill its peer's memory; nothing is refused, nothing lost."""
    small = Window(messages=64, bytes=1 << 20)
    monkeypatch.setattr("colonnade.wire.network.WINDOW", small)
    count = 300
    with parties(kits) as channels:
        progress = []

        def send():
            for step in range(count):
                channels["a"].send("b", "upload", step, {"x": np.full(1000, step)})
                progress.append(step)

        wait = in_thread(send)
        threading.Event().wait(0.5)
        assert len(progress) <= small.messages, "the sender ran ahead of its reader"
        for step in range(count):
            assert channels["b"].recv("a", "upload", step).tensors["x"][0] == step
        assert wait() is None


def test_sending_to_a_peer_that_never_reads_ends(kits, monkeypatch):
    """Back-pressure is a wait like any other: it has an end, and names the peer."""
    monkeypatch.setattr("colonnade.wire.network.WINDOW", Window(messages=2))
    impatient = Deadline(connect=20, reply=0.5, heartbeat=1)
    with parties(kits, deadline=impatient) as channels, pytest.raises(DeadlineError, match="b: does not read"):
        for step in range(4):
            channels["a"].send("b", "upload", step)


def test_a_message_that_does_not_come_ends_with_its_name(kits):
    """A wait that ends in time says who owed what."""
    impatient, reason = Deadline(connect=20, reply=0.3, heartbeat=1), r"a: no 'gradient' for step 7 within 0\.3 s"
    with parties(kits, deadline=impatient) as channels, pytest.raises(DeadlineError, match=reason):
        channels["b"].recv("a", "gradient", 7)


def test_a_living_peer_that_learns_is_waited_for(kits):
    """Others would give it up in the midst of what it must learn before its first upload."""
    patient = Deadline(connect=20, reply=0.2, heartbeat=1, learn=20)
    with parties(kits, deadline=patient) as channels:
        later = threading.Timer(0.8, lambda: channels["a"].send("b", "ready", 0))
        later.start()
        channels["b"].patient = True
        assert channels["b"].recv("a", "ready", 0).kind == "ready"
        later.join()
        channels["b"].patient = False
        with pytest.raises(DeadlineError, match=r"within 0\.2 s"):
            channels["b"].recv("a", "gradient", 0)


def test_goodbye_is_no_loss_and_what_was_sent_before_still_arrives(kits):
    """The party that finishes first must not look like one that died."""
    with parties(kits) as channels:
        big = np.arange(1 << 20)
        channels["a"].send("b", "result", 0, {"x": big})
        channels["a"].close()
        assert np.array_equal(channels["b"].recv("a", "result", 0).tensors["x"], big)
        with pytest.raises(PeerLostError, match="a: left the run without 'result' for step 1"):
            channels["b"].recv("a", "result", 1)
        channels["b"].send("a", "thanks", 0)  # nobody reads it, and nobody minds


def test_abort_names_the_culprit_to_everybody(kits):
    """The third party learns which party failed first, not merely that its neighbour gave up."""
    with parties(kits, 3) as channels:
        waits = [in_thread(lambda name=name: channels[name].recv("a", "gradient", 0)) for name in ("b", "c")]
        channels["a"].abort("the loss is not a number")
        for wait in waits:
            error = wait()
            assert isinstance(error, PeerLostError) and error.peer == "a" and "not a number" in error.what


def test_an_error_inside_with_tells_the_peers_the_first_cause(kits):
    """`with channel:` passes on who was lost, so that all parties end with the same name."""
    with parties(kits, 3) as channels:
        wait = in_thread(lambda: channels["c"].recv("a", "gradient", 0))
        with pytest.raises(PeerLostError), channels["a"] as channel:
            raise PeerLostError("b", "the connection was lost")
        error = wait()
        assert isinstance(error, PeerLostError) and error.peer == "b"
        with pytest.raises(PeerLostError, match="a: stopped"):  # to b, whom nobody killed, it is a that left
            channels["b"].recv("a", "gradient", 0)
        assert channel is channels["a"]


def test_parties_may_start_in_any_order(kits):
    """A party that dials before its peer listens tries again until the deadline."""
    proxy = Proxy(1)  # nobody listens at its target yet
    late = party(kits, "b", {"a": proxy.port})
    late.send("a", "early", 0, meta={"word": "hello"})
    first = party(kits, "a", {})
    proxy.target = first.port
    assert first.recv("b", "early", 0).meta == {"word": "hello"}
    in_thread(late.close)
    first.close()
    proxy.close()


def test_a_peer_that_never_comes_is_named(kits):
    """Both a dialler and a listener stop waiting at the connect deadline."""
    soon = Deadline(connect=0.6, reply=20, heartbeat=1)
    dialler = party(kits, "b", {"a": 1}, deadline=soon)
    with pytest.raises(PeerLostError, match=r"a: was not there at 127.0.0.1:1 within 0.6 s: connection refused"):
        dialler.recv("a", "upload", 0)
    listener = party(kits, "a", {}, deadline=soon)
    with pytest.raises(PeerLostError, match=r"b: was not there within 0\.6 s"):
        listener.send("b", "upload", 0)
        listener.recv("b", "upload", 0)
    dialler.close()
    listener.close()


def test_wrong_setups_are_told_before_anything_is_opened(kits):
    """What can't work is a ConfigError that names the party, not a hang."""
    with pytest.raises(ConfigError, match="b: has no address"):
        party(kits, "c", {}, ["b", "c"])
    with pytest.raises(ConfigError, match="a: must listen: b will dial"):
        party(kits, "a", {}, listen=None)
    with pytest.raises(ConfigError, match="order"):
        party(kits, "a", {}, order=["a", "z"])
    with pytest.raises(ConfigError, match="b: has no entry in the allowed kinds"):
        party(kits, "a", {}, allowed={})
    with pytest.raises(ConfigError, match="cannot listen here"):
        party(kits, "a", {}, listen="192.0.2.1:1")


def test_unknown_peer_and_unsendable_content_are_the_callers_errors(kits):
    """A mistake of this party's own role does not reach the wire, and does not end the run."""
    with parties(kits) as channels:
        with pytest.raises(ConfigError, match="no peer 'z'"):
            channels["a"].send("z", "upload", 0)
        with pytest.raises(FrameError, match="object"):
            channels["a"].send("b", "upload", 0, {"x": np.array([None])})
        with pytest.raises(FrameError, match="JSON"):
            channels["a"].send("b", "upload", 0, meta={"x": np.float32(1)})
        channels["a"].send("b", "upload", 0, meta={"fine": True})
        assert channels["b"].recv("a", "upload", 0).meta == {"fine": True}


def test_the_ledger_sees_what_leaves(kits):
    """An observer is told about every message of this party and no other."""
    with parties(kits) as channels:
        seen = []
        channels["a"].observe(lambda to, message: seen.append((to, message.kind, message.step)))
        channels["a"].send("b", "upload", 3, {"x": np.zeros(10)})
        channels["b"].send("a", "gradient", 3, {"x": np.zeros(10)})
        channels["a"].recv("b", "gradient", 3)
        assert seen == [("b", "upload", 3)]
        assert channels["a"].sent_bytes == channels["a"].received_bytes == 80
