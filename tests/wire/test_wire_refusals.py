"""If one of these fails, somebody gets in who should not, or says what he may not. Each refusal has its own reason."""

import socket
import ssl

import numpy as np
import pytest
from wire_parts import Kits, Rogue, Unchecked, in_thread, parties, party

from colonnade.errors import AuthenticationError, FrameError, PeerLostError, RefusedError
from colonnade.wire.authority import make_kit
from colonnade.wire.deadline import Deadline
from colonnade.wire.frame import encode
from colonnade.wire.header import Limits
from colonnade.wire.message import Message
from colonnade.wire.preflight import Peer, check_peer
from colonnade.wire.protocol import Confirmation, Denied, Hello, PacketKind, Stop, pack, pack_words, read_words, unpack
from colonnade.wire.rules import Window
from colonnade.wire.tls import Credentials


def knows_nothing_of(channel, peer="b"):
    """Nobody came in."""
    return not channel._links[peer].incarnation


def mixed(ca: Kits, leaf: Credentials) -> Unchecked:
    """Somebody who trusts the federation's CA, but has his own certificate from elsewhere."""
    return Unchecked(ca.of("b").ca, leaf.certificate, leaf.key)


def test_unknown_ca_of_the_listener(kits, tmp_path):
    """A listener with a certificate from another CA is not talked to, and it is not tried again."""
    other = Kits(tmp_path)
    listener = party(other, "a", {})
    dialler = party(kits, "b", {"a": listener.port})
    with pytest.raises(AuthenticationError, match="a: unknown CA"):
        dialler.recv("a", "upload", 0)
    with pytest.raises(AuthenticationError, match="unknown CA"):
        check_peer("a", Peer(f"127.0.0.1:{listener.port}"), kits.of("b"))
    assert knows_nothing_of(listener)
    dialler.abort("end")
    listener.abort("end")


def test_unknown_ca_of_the_dialler(kits, tmp_path):
    """A stranger who trusts our CA, but was never vouched for by it, gets no word in."""
    listener = party(kits, "a", {})
    stranger = mixed(kits, Kits(tmp_path).of("b"))
    dialler = party(kits, "b", {"a": listener.port}, credentials=stranger)
    with pytest.raises(AuthenticationError, match="a: it closes the connection as soon as it has seen our certificate"):
        dialler.recv("a", "upload", 0)
    assert knows_nothing_of(listener)
    with pytest.raises(AuthenticationError, match="not issued by"):
        Credentials(stranger.ca, stranger.certificate, stranger.key).load("b")
    dialler.abort("end")
    listener.abort("end")


def test_expired_certificate_of_the_listener(kits, tmp_path):
    """A certificate that has run out is worth nothing, whoever shows it."""
    make_kit(kits.authority, "a", tmp_path / "a", days=-1)
    old = Credentials.in_folder(tmp_path / "a")
    listener = party(kits, "a", {}, credentials=Unchecked(old.ca, old.certificate, old.key))
    dialler = party(kits, "b", {"a": listener.port})
    with pytest.raises(AuthenticationError, match="a: its certificate has expired"):
        dialler.recv("a", "upload", 0)
    assert knows_nothing_of(listener)
    dialler.abort("end")
    listener.abort("end")


def test_expired_certificate_of_the_dialler(kits, tmp_path):
    """The dialler's own check says it in words; the listener keeps him out even if he does not check."""
    make_kit(kits.authority, "b", tmp_path / "b", days=-1)
    old = Credentials.in_folder(tmp_path / "b")
    listener = party(kits, "a", {})
    with pytest.raises(AuthenticationError, match=r"has expired on .* UTC"):
        party(kits, "b", {"a": listener.port}, credentials=old)
    dialler = party(kits, "b", {"a": listener.port}, credentials=Unchecked(old.ca, old.certificate, old.key))
    with pytest.raises(AuthenticationError, match="closes the connection"):
        dialler.recv("a", "upload", 0)
    assert knows_nothing_of(listener)
    dialler.abort("end")
    listener.abort("end")


def test_certificate_of_another_party_at_the_listener(kits):
    """Party c's certificate does not make c party a, though the same CA vouches for both."""
    stolen = kits.of("c")
    listener = party(kits, "a", {}, credentials=Unchecked(stolen.ca, stolen.certificate, stolen.key))
    dialler = party(kits, "b", {"a": listener.port})
    with pytest.raises(AuthenticationError, match="a: its certificate is that of another party"):
        dialler.recv("a", "upload", 0)
    dialler.abort("end")
    listener.abort("end")


def test_certificate_of_another_party_at_the_dialler(kits):
    """Who claims to be b must show b's certificate; the true b can still come afterwards."""
    listener = party(kits, "a", {})
    rogue = Rogue(kits, "c", listener.port, claims="b")
    assert rogue.answer.kind is PacketKind.DENIED
    denied = read_words(rogue.answer, Denied)
    assert denied.code == "authentication" and "that of c.colonnade, another party" in denied.reason
    rogue.leave()
    true = party(kits, "b", {"a": listener.port})
    true.send("a", "upload", 0)
    assert listener.recv("b", "upload", 0).sender == "b"
    in_thread(true.close)
    listener.close()


def test_the_listener_says_that_only_a_false_peer_came(kits):
    """If the true peer never comes, the reason is that somebody else came in its name."""
    listener = party(kits, "a", {}, deadline=Deadline(connect=1, reply=20, heartbeat=1))
    Rogue(kits, "c", listener.port, claims="b").leave()
    with pytest.raises(AuthenticationError, match=r"b: the certificate is that of c\.colonnade"):
        listener.recv("b", "upload", 0)
    listener.close()


def test_a_party_that_nobody_expects_is_not_talked_to(kits):
    """A good certificate alone does not make somebody part of this run."""
    listener = party(kits, "a", {})
    rogue = Rogue(kits, "d", listener.port)
    assert read_words(rogue.answer, Denied).reason == "'d' is not expected to dial 'a'"
    rogue.leave()
    listener.abort("end")


def test_two_files_with_the_parties_in_another_order_are_named_as_the_cause(kits):
    """People would look for a firewall, or a wrong certificate, while two lines of a file stand the wrong way round."""
    soon = Deadline(connect=0.6, reply=20, heartbeat=1)
    dialled = party(kits, "a", {})
    dials = {"order": ["a", "b"], "listen": "127.0.0.1:0", "deadline": soon}
    backward = party(kits, "b", {"a": dialled.port}, **dials)
    forward = party(kits, "a", {"b": backward.port}, **dials | {"order": ["b", "a"]})
    with pytest.raises(AuthenticationError, match=r"b: does not accept us: 'a' is not expected .* in the same order"):
        forward.connect()
    waiting = party(kits, "a", {}, deadline=soon)
    with pytest.raises(PeerLostError, match=r"b: was not there within 0\.6 s .* our address and our order of parties"):
        waiting.connect()
    for channel in (dialled, backward, forward, waiting):
        channel.abort("end")


def test_another_key_than_the_fingerprint_in_the_federation_file(kits, tmp_path):
    """A second certificate for the same name, from the same CA, is refused by both ends: the key is what counts."""
    make_kit(kits.authority, "a", tmp_path / "a")
    make_kit(kits.authority, "b", tmp_path / "b")
    listener = party(kits, "a", {}, credentials=Credentials.in_folder(tmp_path / "a"))
    dialler = party(kits, "b", {"a": listener.port})
    with pytest.raises(AuthenticationError, match="a: the certificate's fingerprint is sha256"):
        dialler.recv("a", "upload", 0)
    dialler.abort("end")
    listener.abort("end")
    listener = party(kits, "a", {})
    dialler = party(kits, "b", {"a": listener.port}, credentials=Credentials.in_folder(tmp_path / "b"))
    with pytest.raises(AuthenticationError, match="a: does not accept us: the certificate's fingerprint"):
        dialler.recv("a", "upload", 0)
    dialler.abort("end")
    listener.abort("end")


def test_the_stream_trusts_only_the_certificate_that_was_checked(kits, tmp_path, monkeypatch):
    """Who shows the right certificate at the first handshake and another at the second does not get the stream."""
    make_kit(kits.authority, "a", tmp_path / "a")
    imposter = party(kits, "a", {}, credentials=Credentials.in_folder(tmp_path / "a"))
    checked = kits.of("a").certificate.read_text()

    async def knock(*_):
        return checked

    monkeypatch.setattr("colonnade.wire.connect.knock", knock)
    dialler = party(kits, "b", {"a": imposter.port}, deadline=Deadline(connect=1.5, reply=20, heartbeat=1))
    with pytest.raises(PeerLostError, match="was not there"):
        dialler.recv("a", "upload", 0)
    assert knows_nothing_of(imposter)
    dialler.abort("end")
    imposter.abort("end")


def test_no_tls_at_all(kits):
    """There is no way to talk without TLS: neither to a plain listener, nor from a plain dialler."""
    plain = socket.create_server(("127.0.0.1", 0))
    port = plain.getsockname()[1]
    waiting = in_thread(lambda: plain.accept()[0].sendall(b"HTTP/1.1 400 hello\r\n\r\n"))
    with pytest.raises(AuthenticationError, match="no mutual TLS"):
        check_peer("a", Peer(f"127.0.0.1:{port}"), kits.of("b"))
    waiting()
    plain.close()
    listener = party(kits, "a", {})
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(kits.of("b").ca)
    bare.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", listener.port)) as line:
        tls = bare.wrap_socket(line, server_hostname="a.colonnade")
        assert tls.recv(1) == b""  # without a certificate of our own the door is shut
        tls.close()
    listener.abort("end")


def test_a_kind_that_the_role_may_not_send(kits):
    """A passive party can't pose as the active one by its message kinds; both ends stop and say why."""
    with parties(kits, allowed={"a": None, "b": frozenset({"upload"})}) as channels:
        channels["b"].send("a", "upload", 0)
        channels["a"].recv("b", "upload", 0)
        channels["b"].send("a", "gradient", 0)
        with pytest.raises(RefusedError, match="b: 'gradient' for step 0 was refused: its role may not send this kind"):
            channels["a"].recv("b", "upload", 1)
        with pytest.raises(RefusedError, match="a: refused by this peer: 'gradient' for step 0"):
            channels["b"].recv("a", "gradient", 0)
        with pytest.raises(RefusedError):
            channels["a"].send("b", "gradient", 0)


def frame(step=0, kind="upload", sequence=0, run="test", sender="b", **tensors) -> bytes:
    return encode(Message(run, sender, kind, step, tensors), sequence).tobytes()


@pytest.fixture
def listener(kits):
    channel = party(kits, "a", {})
    yield channel
    channel.abort("end")
    channel.close()


def refused(listener, rogue, reason: str) -> None:
    """Both ends stop: the listener with a RefusedError, the rogue hears why."""
    with pytest.raises(RefusedError, match=reason):
        listener.recv("b", "never", 0)
    assert rogue.hear_stop().refused
    with pytest.raises(RefusedError, match=reason):
        listener.send("b", "gradient", 99)
    rogue.leave()


def test_a_replayed_step(kits, listener):
    """An old upload under a new number would be trained on twice."""
    rogue = Rogue(kits, "b", listener.port)
    for step, sequence in ((0, 0), (1, 1), (0, 2)):
        rogue.say_frame(frame(step, sequence=sequence, x=np.arange(step + 1)), sequence)
    refused(listener, rogue, "b: 'upload' for step 0 was refused: replayed step, it was at step 1 already")


def test_other_content_for_the_same_step(kits, listener):
    """The second version of a step is refused, the very same one dropped."""
    rogue = Rogue(kits, "b", listener.port)
    rogue.say_frame(frame(0, sequence=0, x=np.arange(9)), 0)
    rogue.say_frame(frame(0, sequence=1, x=np.arange(9)), 1)
    rogue.say_frame(frame(1, sequence=2), 2)
    assert np.array_equal(listener.recv("b", "upload", 0).tensors["x"], np.arange(9))
    listener.recv("b", "upload", 1)
    rogue.say_frame(frame(1, sequence=3, x=np.zeros(1)), 3)
    refused(listener, rogue, "b: 'upload' for step 1 was refused: replayed step")


def test_a_future_step(kits, listener):
    """A peer can't skip far ahead."""
    rogue = Rogue(kits, "b", listener.port)
    rogue.say_frame(frame(5), 0)
    listener.recv("b", "upload", 5)
    rogue.say_frame(frame(6_000_000, sequence=1), 1)
    refused(listener, rogue, "b: 'upload' for step 6000000 was refused: future step, this party is at step")


def test_a_future_step_as_the_first_message(kits, listener):
    """A run may start at any step; if the peer starts at another one than we do, it shows when we ask."""
    rogue = Rogue(kits, "b", listener.port)
    rogue.say_frame(frame(70), 0)
    with pytest.raises(RefusedError, match="b: 'upload' for step 0 can't come any more: it sent a future step"):
        listener.recv("b", "upload", 0)
    assert rogue.hear_stop().refused
    rogue.leave()


def test_an_oversize_frame(kits, listener):
    """The size is refused when it is announced, before memory is taken for it."""
    rogue = Rogue(kits, "b", listener.port)
    rogue.say_frame(frame()[:100], total=(1 << 30) + 1)
    refused(listener, rogue, "b: a frame was refused: oversize: a frame of 1073741825 bytes")


def test_an_oversize_frame_is_an_error_at_an_honest_sender(kits):
    """An honest party learns it before anything is sent; the receiver's own limit counts too."""
    with parties(kits, limits=Limits(frame_bytes=10_000)) as channels:
        with pytest.raises(FrameError, match="too large"):
            channels["a"].send("b", "upload", 0, {"x": np.zeros(10_000)})
        channels["a"].limits = Limits()
        channels["a"].send("b", "upload", 0, {"x": np.zeros(10_000)})
        with pytest.raises(RefusedError, match="oversize"):
            channels["b"].recv("a", "upload", 0)


def test_a_truncated_frame(kits, listener):
    """A frame that ends before its tensors do is refused, not filled up."""
    rogue = Rogue(kits, "b", listener.port)
    rogue.say_frame(frame(x=np.arange(1000))[:-100])
    refused(listener, rogue, "b: a frame was refused: truncated: the tensors need 8000 bytes, 7900 are there")


def test_a_frame_whose_header_lies(kits, listener):
    """A header that says another shape than there are bytes is refused."""
    rogue = Rogue(kits, "b", listener.port)
    honest = frame(x=np.arange(1000))
    rogue.say_frame(honest.replace(b'"shape":[1000]', b'"shape":[2000]'))
    refused(listener, rogue, "b: a frame was refused: tensor 'x' has 8000 bytes, its shape and dtype need another")


MISPLACED = "a chunk is not where it belongs"
LIES = {
    "a sequence in the envelope that is not the packet's": (
        "the envelope says frame 4, the packet says 0",
        [(frame(sequence=4), 0, None, 0)],
    ),
    "a frame left out": ("frame 0 is missing", [(frame(sequence=3), 3, None, 0)]),
    "another sender": ("it names 'c' as its sender", [(frame(sender="c"), 0, None, 0)]),
    "another run": ("it belongs to run 'yesterday', this is run 'test'", [(frame(run="yesterday"), 0, None, 0)]),
    "no frame at all": ("truncated: 5 bytes are no frame", [(b"hello", 0, None, 0)]),
    "an empty frame": ("truncated: 0 bytes are no frame", [(b"", 0, 0, 0)]),
    "more bytes than announced": (MISPLACED, [(frame(), 0, 16, 0)]),
    "a hole between chunks": (MISPLACED, [(frame(x=np.arange(99))[:64], 0, 900, 0), (b"x" * 64, 0, 900, 80)]),
    "a size that changes": (MISPLACED, [(frame(x=np.arange(99))[:64], 0, 900, 0), (b"x" * 64, 0, 950, 64)]),
    "the same chunk twice": (MISPLACED, [(frame(x=np.arange(99))[:64], 0, 900, 0)] * 2),
    "an empty chunk": (MISPLACED, [(b"", 0, 900, 0)]),
    "a second chunk without a first": (MISPLACED, [(b"x" * 64, 0, 900, 64)]),
}


@pytest.mark.parametrize("lie", LIES)
def test_other_lies(kits, listener, lie):
    """Whatever else does not fit together ends the run for both, with the reason."""
    reason, packets = LIES[lie]
    rogue = Rogue(kits, "b", listener.port)
    for data, sequence, total, offset in packets:
        rogue.say_frame(data, sequence, total, offset)
    refused(listener, rogue, f"b: .* refused: {reason}")


def test_confirming_what_was_never_sent(kits, listener):
    """A peer that claims to have read more than was sent would lift the limit on memory."""
    rogue = Rogue(kits, "b", listener.port)
    rogue.say(pack(PacketKind.CONFIRM, confirmation=Confirmation(5, 5, 5)))
    refused(listener, rogue, "it confirms what it was never sent")


def test_sending_more_than_the_window_allows(kits, monkeypatch):
    """A peer that does not wait until it is read is stopped: memory is bounded whatever it does."""
    monkeypatch.setattr("colonnade.wire.network.WINDOW", Window(messages=3))
    listener = party(kits, "a", {})
    rogue = Rogue(kits, "b", listener.port)
    for step in range(5):
        rogue.say_frame(frame(step, sequence=step), step)
    refused(listener, rogue, "b: 'upload' for step 3 was refused: it was sent before earlier messages were read")
    listener.abort("end")


def test_another_run_or_version_is_refused_at_the_first_word(kits):
    """Parties of different runs do not mix."""
    listener = party(kits, "a", {})
    dialler = party(kits, "b", {"a": listener.port}, run="other")
    with pytest.raises(RefusedError, match="it is in run 'other', we are in run 'test'"):
        dialler.recv("a", "upload", 0)
    with pytest.raises(RefusedError, match="b: it is in run 'other'"):
        listener.recv("b", "upload", 0)
    for channel in (dialler, listener):
        channel.close()


def test_a_second_command_of_a_party_in_another_run_is_denied_and_the_first_goes_on(kits):
    """Who types `predict` in another terminal, with the same kit, would end days of everybody's training."""
    with parties(kits) as channels:
        channels["b"].send("a", "upload", 0)
        channels["a"].recv("b", "upload", 0)
        second = party(kits, "b", {"a": channels["a"].port}, run="test.predict")
        with pytest.raises(RefusedError, match=r"a: refuses to talk: it is in run 'test\.predict', we are in run"):
            second.connect()
        second.close()
        channels["b"].send("a", "upload", 1)
        assert channels["a"].recv("b", "upload", 1).step == 1
        channels["a"].send("b", "gradient", 1)
        assert channels["b"].recv("a", "gradient", 1).step == 1


LEFT_OVER = pack_words(PacketKind.HELLO, Hello("b", "yesterday", "an old process", "one that it talked to"))


def test_what_is_left_of_an_earlier_run_does_not_end_the_next_one(kits, listener):
    """A run that is started again under another name would end as soon as the peer's old process dials again."""
    stale = Rogue(kits, "b", listener.port, first_words=LEFT_OVER)
    assert read_words(stale.answer, Denied) == Denied("refused", "it is in run 'yesterday', we are in run 'test'")
    stale.leave()
    true = party(kits, "b", {"a": listener.port})
    true.send("a", "upload", 0)
    assert listener.recv("b", "upload", 0).sender == "b"
    true.abort("end")


def test_the_listener_says_that_only_an_earlier_process_came(kits):
    """Nobody would know that the peer's old process has to be started anew, and in which run it still is."""
    listener = party(kits, "a", {}, deadline=Deadline(connect=1, reply=20, heartbeat=1))
    Rogue(kits, "b", listener.port, first_words=LEFT_OVER).leave()
    with pytest.raises(PeerLostError, match=r"b: was not .* an earlier process of it came: it is in run 'yesterday'"):
        listener.recv("b", "upload", 0)
    listener.close()


def test_a_long_reason_is_cut_by_whoever_quotes_it(kits):
    """A dishonest peer could make an innocent party look guilty, by a word so long that its quotation is no packet."""
    for letter in ("x", "ö", "\U0001f600"):
        words = Stop("c", letter * 1_000_000, refused=False)
        assert read_words(unpack(pack_words(PacketKind.STOP, words)), Stop) == Stop("c", letter * 500, refused=False)
    with parties(kits) as channels:
        channels["a"].abort("c: aligns with policy " + "x" * 1_000_000, culprit="c")
        with pytest.raises(PeerLostError, match=r"c: c: aligns with policy x.* .says 'a'") as caught:
            channels["b"].recv("a", "upload", 0)
        assert caught.value.peer == "c" and len(str(caught.value)) < 600


def test_nonsense_before_hello_harms_nobody(kits, listener):
    """Bytes that are no greeting are hung up on; the run goes on."""
    for words in (b"x", b"x" * 500, pack(PacketKind.HELLO, [b'{"name": 3}']), pack(PacketKind.HELLO, [b"[" * 9000])):
        rogue = Rogue(kits, "b", listener.port, first_words=words)
        assert rogue.answer is None
        rogue.leave()
    true = party(kits, "b", {"a": listener.port})
    true.send("a", "upload", 0)
    assert listener.recv("b", "upload", 0).sender == "b"
    true.abort("end")
