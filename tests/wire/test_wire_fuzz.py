"""If this fails, some bytes that an attacker can send crash a party with something else than a FrameError."""

import numpy as np
import safetensors

from colonnade.errors import FrameError
from colonnade.wire.frame import decode, encode
from colonnade.wire.message import Message
from colonnade.wire.protocol import Assembly, Hello, PacketKind, Stop, pack, pack_words, read_words, unpack

FRAMES = 120_000
TOKENS = [b'"', b"{", b"}", b"[", b"]", b":", b",", b"-", b"0", b"9", b"1e9", b"NaN", b"null", b"\\u0000", b"\\ud800"]
TOKENS += [
    b'"shape"',
    b'"dtype"',
    b'"F64"',
    b'"BOOL"',
    b'"data_offsets"',
    b'"__metadata__"',
    b"[]",
    b"{}",
    b"\xff",
    b" ",
]


def seeds() -> list[bytes]:
    rng = np.random.default_rng(0)
    messages = [
        Message("run", "a", "upload", 12, {"x": rng.random((3, 4), dtype=np.float32)}),
        Message("run", "b", "plan", 0, {}, {"shapes": [[1, 2], [3]], "word": "größe", "loss": 0.5, "none": None}),
        Message(
            "r", "c", "k", 7, {"i": np.arange(3), "b": np.array([True, False]), "e": np.zeros((0, 2)), "s": np.array(1)}
        ),
        Message("run", "d", "many", 99, {f"layer.{n}.weight": np.full(n, n, dtype="f2") for n in range(6)}),
    ]
    return [encode(message, number).tobytes() for number, message in enumerate(messages)]


class Mutator:
    """Makes bad frames out of good ones."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.seeds = seeds()
        self.kinds = [
            self.flip,
            self.overwrite,
            self.cut,
            self.splice,
            self.repeat,
            self.token,
            self.digit,
            self.length,
        ]

    def frame(self) -> bytes:
        data = self.seeds[self.rng.integers(len(self.seeds))]
        for _ in range(self.rng.integers(1, 4)):
            data = self.kinds[self.rng.integers(len(self.kinds))](data)
        return data

    def at(self, data: bytes) -> int:
        # Mostly in the header: that is where lies can be told.
        end = len(data) if self.rng.random() < 0.2 else min(len(data), 420)
        return int(self.rng.integers(0, max(end, 1)))

    def flip(self, data: bytes) -> bytes:
        changed, at = bytearray(data), self.at(data)
        if changed:
            changed[at] ^= 1 << int(self.rng.integers(8))
        return bytes(changed)

    def overwrite(self, data: bytes) -> bytes:
        at, count = self.at(data), int(self.rng.integers(1, 9))
        return data[:at] + self.rng.bytes(count) + data[at + count :]

    def cut(self, data: bytes) -> bytes:
        at = self.at(data)
        return data[:at] if self.rng.random() < 0.5 else data[:at] + data[at + int(self.rng.integers(1, 30)) :]

    def splice(self, data: bytes) -> bytes:
        other = self.seeds[self.rng.integers(len(self.seeds))]
        return data[: self.at(data)] + other[self.at(other) :]

    def repeat(self, data: bytes) -> bytes:
        at, count = self.at(data), int(self.rng.integers(1, 60))
        return data[:at] + data[at : at + count] * 2 + data[at + count :]

    def token(self, data: bytes) -> bytes:
        at, token = self.at(data), TOKENS[self.rng.integers(len(TOKENS))]
        return self.fix(data[:at] + token + data[at + int(self.rng.integers(0, 3)) :])

    def digit(self, data: bytes) -> bytes:
        places = [at for at in range(8, min(len(data), 420)) if 48 <= data[at] <= 57]
        if not places:
            return data
        at = places[self.rng.integers(len(places))]
        return self.fix(
            data[:at] + str(int(self.rng.integers(0, 10 ** int(self.rng.integers(1, 18))))).encode() + data[at + 1 :]
        )

    def length(self, data: bytes) -> bytes:
        return int(self.rng.integers(0, 2 ** int(self.rng.integers(1, 62)))).to_bytes(8, "little") + data[8:]

    def fix(self, data: bytes) -> bytes:
        """Say the right length of the header again, so that the change behind it gets looked at."""
        end = data.rfind(b"}}", 0, 900) + 2
        return max(end - 8, 0).to_bytes(8, "little") + data[8:]


def test_mutated_frames_give_a_frame_error_or_a_good_message():
    """More than 100,000 broken frames; what we accept, the safetensors library accepts too."""
    mutator, accepted, reasons = Mutator(1), 0, set()
    for _ in range(FRAMES):
        data = mutator.frame()
        try:
            message, _ = decode(data)
        except FrameError as error:
            reasons.add(error.what[:18])
            continue
        accepted += 1
        safetensors.deserialize(data)
        again, _ = decode(encode(message).tobytes())
        assert repr(again) == repr(message)
    assert accepted > FRAMES // 100, "hardly anything was accepted: the mutations are too coarse to find a hole"
    assert len(reasons) > 15, f"only these reasons were found: {reasons}"


def test_mutated_packets_give_a_frame_error_or_a_packet():
    """The same for the layer below: whatever comes over a stream is a packet or a FrameError."""
    rng = np.random.default_rng(2)
    good = [
        pack_words(PacketKind.HELLO, Hello("a", "run", "00", "")),
        pack_words(PacketKind.STOP, Stop("a", "because", False)),
        pack(PacketKind.CHUNK, [seeds()[0]], sequence=1, total=len(seeds()[0])),
        pack(PacketKind.CONFIRM),
    ]
    read = 0
    for _ in range(20_000):
        data = bytearray(good[rng.integers(len(good))])
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(len(data))] = rng.integers(256)
        data = bytes(data[: rng.integers(1, len(data) + 1)]) if rng.random() < 0.3 else bytes(data)
        assembly = Assembly(1 << 20)
        for look in (lambda p: read_words(p, Hello), lambda p: read_words(p, Stop), assembly.add):
            try:
                look(unpack(data))
                read += 1
            except FrameError:
                pass
    assert read > 100
