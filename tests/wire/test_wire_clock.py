"""If these fail, the doctor tells a wrong difference of two clocks, hangs, or a stranger is told anything at all."""

import json
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import time

import pytest
from wire_parts import NAMES, Proxy, Unchecked, party

from colonnade.errors import AuthenticationError, DeadlineError, FrameError, RefusedError
from colonnade.wire import clock, connect
from colonnade.wire.authority import Authority, make_kit
from colonnade.wire.clock import Skew, ask_clock
from colonnade.wire.loop import run_on_loop
from colonnade.wire.preflight import Peer
from colonnade.wire.tls import Credentials, certificate_name

import grpc  # isort: skip  (after the wire, which keeps it quiet)

ROUNDING = 1e-3
"""Seconds: two clocks of one machine, read one after the other."""


@contextmanager
def waiting(kits, **options):
    """Open 'a', which waits for 'b' as `colonnade join` does; yield where it listens."""
    channel = party(kits, "a", {}, ["a", "b"], **options)
    try:
        yield Peer(f"127.0.0.1:{channel.port}", kits.fingerprints["a"])
    finally:
        channel.abort("the test is over")
        channel.close()


def set_clock(monkeypatch, ahead):
    """Set the clock of whoever is asked, not that of whoever asks: both live in this process."""
    monkeypatch.setattr(connect, "time", lambda: time() + ahead)


@pytest.mark.parametrize("ahead", [0.0, 12.0, -7200.0])
def test_the_difference_is_found_within_its_own_doubt(kits, monkeypatch, ahead):
    set_clock(monkeypatch, ahead)
    with waiting(kits) as peer:
        skew = ask_clock("b", "a", peer, kits.of("b"), patience=20)
    assert abs(skew.seconds - ahead) <= skew.within + ROUNDING


def test_a_slow_line_makes_it_doubtful_not_wrong(kits, monkeypatch):
    """Each way takes at least 0.1 s: whoever took the answer for the time now would be wrong by that much."""
    set_clock(monkeypatch, 3.0)
    with waiting(kits) as peer:
        proxy = Proxy(int(peer.address.rpartition(":")[2]))
        proxy.delay = 0.1
        try:
            slow = Peer(f"127.0.0.1:{proxy.port}", peer.fingerprint)
            skew = ask_clock("b", "a", slow, kits.of("b"), patience=30)
        finally:
            proxy.close()
    assert skew.within >= 0.1
    assert abs(skew.seconds - 3.0) <= skew.within + ROUNDING


def test_a_party_in_a_process_of_its_own(kits):
    settings = {"name": "a", "names": ["a", "b"], "ports": {}, "folder": str(kits.folder), "heartbeat": 5}
    command = [sys.executable, str(Path(__file__).with_name("wire_peer.py"))]
    words = json.dumps({**settings, "role": "wait", "amount": 60})
    with subprocess.Popen([*command, words], stdout=subprocess.PIPE, text=True) as process:
        try:
            port = json.loads(process.stdout.readline())["port"]
            peer = Peer(f"127.0.0.1:{port}", kits.fingerprints["a"])
            skew = ask_clock("b", "a", peer, kits.of("b"), patience=20)
        finally:
            process.kill()
    assert abs(skew.seconds) <= skew.within + ROUNDING


def test_the_run_goes_on_as_if_nobody_had_asked(kits):
    first = party(kits, "a", {})
    peer = Peer(f"127.0.0.1:{first.port}", kits.fingerprints["a"])
    ask_clock("b", "a", peer, kits.of("b"), patience=20)
    second = party(kits, "b", {"a": first.port})
    with first, second:
        first.connect()
        ask_clock("b", "a", peer, kits.of("b"), patience=20)
        second.send("a", "upload", 0, meta={"x": 1})
        assert first.recv("b", "upload", 0).meta == {"x": 1}


def test_nobody_there_is_told_soon(kits):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(DeadlineError, match=f"cannot be reached at {address}: connection refused"):
        ask_clock("b", "a", Peer(address), kits.of("b"))


def test_a_line_that_is_silent_is_given_up(kits):
    with waiting(kits) as peer:
        proxy = Proxy(int(peer.address.rpartition(":")[2]))
        proxy.silent.set()
        try:
            with pytest.raises(DeadlineError, match="no answer"):
                ask_clock("b", "a", Peer(f"127.0.0.1:{proxy.port}"), kits.of("b"), patience=0.5)
        finally:
            proxy.silent.clear()
            proxy.close()


def test_who_takes_no_part_in_the_run_is_not_told(kits):
    """'c' has a good certificate of the same authority, and is no party of this run."""
    with waiting(kits) as peer, pytest.raises(RefusedError, match="only those who take part in its run"):
        ask_clock("c", "a", peer, kits.of("c"), patience=20)


def test_the_right_name_with_another_key_is_not_told(kits, tmp_path):
    """A key that was shut out, by another fingerprint in the federation file, stays out."""
    make_kit(kits.authority, "b", tmp_path / "b")
    with waiting(kits) as peer, pytest.raises(RefusedError, match="only those who take part"):
        ask_clock("b", "a", peer, Credentials.in_folder(tmp_path / "b"), patience=20)


def test_a_foreign_certificate_is_refused_by_either_end(kits, tmp_path):
    make_kit(Authority.create(), "b", tmp_path / "b")
    foreign = Credentials.in_folder(tmp_path / "b")
    with waiting(kits) as peer:
        with pytest.raises(AuthenticationError, match="unknown CA"):
            ask_clock("b", "a", peer, foreign, patience=20)
        blind = Unchecked(kits.of("a").ca, foreign.certificate, foreign.key)
        with pytest.raises(AuthenticationError, match=r"closes the connection|no mutual TLS"):
            ask_clock("b", "a", peer, blind, patience=20)


def test_a_peer_that_is_another_is_not_believed(kits):
    with waiting(kits) as peer, pytest.raises(AuthenticationError, match="another party"):
        ask_clock("b", "c", Peer(peer.address), kits.of("b"), patience=20)


def raw_answer(peer, kit, root):
    """Return what 'a' answers to somebody who checks nothing."""

    async def ask():
        pairs = (kit.key.read_bytes(), kit.certificate.read_bytes()) if kit else ()
        options = [("grpc.ssl_target_name_override", certificate_name("a"))]
        credentials = grpc.ssl_channel_credentials(root, *pairs)
        async with grpc.aio.secure_channel(peer.address, credentials, options=options) as channel:
            return await channel.unary_unary(connect.CLOCK_PATH)(b"what else do you know?", timeout=10)

    return run_on_loop(ask(), 20)


def test_the_answer_is_a_time_and_nothing_else(kits):
    with waiting(kits) as peer:
        before = time()
        answer = raw_answer(peer, kits.of("b"), kits.of("b").ca.read_bytes())
        assert len(answer) == connect.TIME.size == 8
        assert before <= connect.TIME.unpack(answer)[0] <= time()


def test_nobody_without_a_certificate_is_answered(kits):
    with waiting(kits) as peer, pytest.raises(grpc.aio.AioRpcError) as caught:
        raw_answer(peer, None, kits.of("b").ca.read_bytes())
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_no_time_is_not_shown_as_one(kits, monkeypatch, wrong):
    monkeypatch.setattr(connect, "time", lambda: wrong)
    with waiting(kits) as peer, pytest.raises(FrameError, match="no time"):
        ask_clock("b", "a", peer, kits.of("b"), patience=20)


def test_a_peer_that_does_not_know_the_question(kits, monkeypatch):
    monkeypatch.setattr(clock, "CLOCK_PATH", "/colonnade.Wire/Weather")
    with waiting(kits) as peer, pytest.raises(RefusedError, match="is older"):
        ask_clock("b", "a", peer, kits.of("b"), patience=20)


def test_every_party_of_the_run_may_ask(kits):
    """Also one that 'a' would never be dialled by, such as an earlier one."""
    with waiting_in_the_middle(kits) as peer:
        for other in ("a", "c"):
            assert isinstance(ask_clock(other, "b", peer, kits.of(other), patience=20), Skew)


@contextmanager
def waiting_in_the_middle(kits):
    first = party(kits, "a", {}, NAMES[:3])
    second = party(kits, "b", {"a": first.port}, NAMES[:3])
    try:
        yield Peer(f"127.0.0.1:{second.port}", kits.fingerprints["b"])
    finally:
        for channel in (first, second):
            channel.abort("the test is over")
            channel.close()
