"""If these fail, a run hangs after a party has died, or loses or doubles a message when a connection breaks."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from wire_parts import NAMES, Proxy, in_thread, parties, party

from colonnade.errors import PeerLostError
from colonnade.wire.deadline import Deadline

HANG = 30.0  # a bound that only a hang reaches


class Process:
    """One party as a process."""

    def __init__(self, kits, name, names, ports, role="exchange", amount=10**6, heartbeat=1.0):
        settings = {"name": name, "names": names, "ports": ports, "role": role, "amount": amount}
        settings |= {"folder": str(kits.folder), "heartbeat": heartbeat}
        command = [sys.executable, str(Path(__file__).parent / "wire_peer.py"), json.dumps(settings)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = self.hear("listening")["port"]

    def hear(self, event):
        """Wait for one line of output."""
        for line in self.process.stdout:
            words = json.loads(line)
            if words["event"] == event:
                return words
            assert words["event"] != "failed", words
        raise AssertionError(f"it ended without '{event}'")

    def kill(self, how=signal.SIGKILL):
        os.kill(self.process.pid, how)


@pytest.fixture
def processes():
    """A list: processes put there do not outlive the test."""
    found = []
    yield found
    for one in found:
        one.process.kill()
        one.process.wait()
        one.process.stdout.close()


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_survivors_of_a_killed_party_end_and_name_it(kits, processes, victim):
    """SIGKILL one of three parties, listener or dialler: the two others stop and say who died."""
    ports = {}
    for name in NAMES[:3]:
        processes.append(Process(kits, name, NAMES[:3], dict(ports)))
        ports[name] = processes[-1].port
    for one in processes:
        one.hear("running")
    dead = processes[NAMES.index(victim)]
    dead.kill()
    killed_at = time.monotonic()
    for one in processes:
        if one is not dead:
            words = json.loads(one.process.stdout.readline())
            assert words["event"] == "failed" and words["kind"] == "PeerLostError"
            assert words["peer"] == victim, words["what"]
            assert one.process.wait(HANG) == 0
    assert time.monotonic() - killed_at < HANG


def test_a_stopped_process_is_lost_too(kits, processes):
    """A party that hangs as a whole (here: SIGSTOP) keeps its sockets open; it is noticed all the same."""
    listener = party(kits, "a", {})
    processes.append(Process(kits, "b", ["a", "b"], {"a": listener.port}, role="wait"))
    processes[0].hear("waiting")
    processes[0].kill(signal.SIGSTOP)
    error = in_thread(lambda: listener.recv("b", "upload", 0))(HANG)
    assert isinstance(error, PeerLostError) and error.peer == "b"
    listener.abort("end")


def test_a_party_that_is_busy_with_a_long_computation_is_not_lost(kits, processes):
    """A call that holds Python's lock for many heartbeats is no death: gRPC's own threads answer when we knock."""
    names = ["b", "a"]
    processes.append(Process(kits, "b", names, {}, role="hold", amount=4, heartbeat=0.5))
    deadline = Deadline(connect=20, reply=30, heartbeat=0.5)
    started = time.monotonic()
    dialler = party(kits, "a", {"b": processes[0].port}, names, deadline=deadline)
    processes[0].hear("holding")
    message = dialler.recv("b", "upload", 0)
    assert (message.sender, message.kind, message.step) == ("b", "upload", 0)
    assert time.monotonic() - started >= 4, "it was never busy"
    dialler.send("b", "thanks", 0)
    processes[0].hear("done")
    dialler.close()


def test_our_own_long_computation_is_not_the_peers_silence(kits):
    """A party that held its own interpreter for many heartbeats finds its peer still there."""
    with parties(kits, deadline=Deadline(connect=20, reply=30, heartbeat=0.4)) as channels:
        started = time.monotonic()
        ctypes.PyDLL(None).usleep(2_000_000)
        assert time.monotonic() - started >= 2, "nothing was held"
        time.sleep(1)
        for sender, receiver in (("a", "b"), ("b", "a")):
            channels[sender].send(receiver, "upload", 0, {"x": np.arange(3)})
            assert channels[receiver].recv(sender, "upload", 0).tensors["x"].tolist() == [0, 1, 2]


def test_a_restarted_party_is_not_taken_for_its_former_self(kits, processes):
    """A process that comes back under the same name has forgotten its steps: the others stop at once and say so."""
    listener = party(kits, "a", {}, deadline=Deadline(connect=20, reply=30, heartbeat=20))
    for _ in range(2):
        processes.append(Process(kits, "b", ["a", "b"], {"a": listener.port}, role="exchange"))
        if len(processes) == 1:
            listener.send("b", "upload", 0, {"x": np.zeros(20_000, dtype=np.float32)})
            listener.recv("b", "upload", 0)
            processes[0].kill()
    with pytest.raises(PeerLostError, match="b: was restarted during the run"):
        listener.recv("b", "never", 0)
    listener.abort("end")


def test_a_restarted_listener_is_not_taken_for_its_former_self(kits):
    """The same from the dialler's side."""
    proxy = Proxy(party(kits, "a", {}).port)
    dialler = party(kits, "b", {"a": proxy.port}, deadline=Deadline(connect=20, reply=30, heartbeat=20))
    dialler.connect()
    again = party(kits, "a", {})
    proxy.target = again.port
    proxy.cut()
    with pytest.raises(PeerLostError, match=r"a: .*restarted during the run"):
        dialler.recv("a", "upload", 0)
    for channel in (dialler, again):
        channel.abort("end")
    proxy.close()


@pytest.mark.parametrize("cut_after", [20_000, 1_000_000, 9_000_000])
def test_a_cut_connection_loses_nothing_and_doubles_nothing(kits, cut_after):
    """Connections cut in the middle of frames, again and again; every message arrives once and whole."""
    proxies = []

    def through(port):
        proxies.append(Proxy(port))
        return proxies[-1].port

    rng = np.random.default_rng(1)
    sizes = [int(size) for size in rng.integers(1, 200_000, 60)] + [3_000_000]
    slow = Deadline(connect=20, reply=60, heartbeat=10)
    with parties(kits, through=through, deadline=slow) as channels:
        proxies[0].cut_after = proxies[0].forwarded + cut_after

        def live(name, other):
            for step, size in enumerate(sizes):
                channels[name].send(other, "upload", step, {"x": np.full(size, step, dtype=np.int32)})
                if step % 7 == 0:
                    proxies[0].cut_after = proxies[0].forwarded + cut_after
            return [channels[name].recv(other, "upload", step).tensors["x"] for step in range(len(sizes))]

        waits = [in_thread(lambda n=name, o=other: live(n, o)) for name, other in (("a", "b"), ("b", "a"))]
        for wait in waits:
            for step, (array, size) in enumerate(zip(wait(60), sizes, strict=True)):
                assert len(array) == size and np.all(array == step)
        assert proxies[0].connections > 2, "nothing was cut"
    proxies[0].close()


def test_a_network_that_swallows_everything_is_a_loss_for_both(kits):
    """No packet gets through and no connection closes: both ends stop within their heartbeats."""
    proxies = []

    def through(port):
        proxies.append(Proxy(port))
        return proxies[-1].port

    with parties(kits, through=through) as channels:
        proxies[0].silent.set()
        pairs = ("ab", "ba")
        waits = [in_thread(lambda n=name, o=other: channels[n].recv(o, "upload", 0)) for name, other in pairs]
        for wait, (_, other) in zip(waits, pairs, strict=True):
            error = wait(HANG)
            assert isinstance(error, PeerLostError) and error.peer == other
            assert "not heard of for more than a heartbeat" in error.what
    proxies[0].silent.clear()
    proxies[0].close()


def test_a_slow_network_is_no_loss(kits):
    """A transfer that takes many heartbeats is not taken for silence."""
    proxies = []

    def through(port):
        proxies.append(Proxy(port))
        return proxies[-1].port

    with parties(kits, through=through, deadline=Deadline(connect=20, reply=60, heartbeat=0.6)) as channels:
        proxies[0].delay = 0.05  # about 1 MB/s
        big = np.arange(250_000)
        channels["b"].send("a", "upload", 0, {"x": big})
        assert np.array_equal(channels["a"].recv("b", "upload", 0).tensors["x"], big)
        channels["a"].send("b", "gradient", 0, {"x": big})
        assert np.array_equal(channels["b"].recv("a", "gradient", 0).tensors["x"], big)
        proxies[0].delay = 0.0
    proxies[0].close()


def test_one_lost_peer_does_not_cut_the_others_off(kits, processes):
    """A prediction may go on without one party: only what concerns the lost one raises."""
    ports = {}
    with_b = party(kits, "a", {}, NAMES[:3])
    ports["a"] = with_b.port
    processes.append(Process(kits, "b", NAMES[:3], dict(ports), role="wait"))
    ports["b"] = processes[0].port
    third = party(kits, "c", ports, NAMES[:3])
    with_b.connect()
    third.connect()
    processes[0].kill()
    with pytest.raises(PeerLostError, match="b: was not heard of"):
        with_b.recv("b", "upload", 0)
    third.send("a", "upload", 0)
    assert with_b.recv("c", "upload", 0).sender == "c"
    with pytest.raises(PeerLostError):
        with_b.send("b", "gradient", 0)
    with_b.abort(str(PeerLostError("b", with_b._links["b"].failure.what)))
    with pytest.raises(PeerLostError) as caught:
        third.recv("a", "gradient", 0)
    assert caught.value.peer == "b"
    third.abort("end")
