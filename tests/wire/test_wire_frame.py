"""If these fail, tensors arrive changed, or bytes from outside are believed that should not be."""

import gc
import json

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from colonnade.errors import FrameError
from colonnade.wire.frame import Frame, Written, check, decode, decode_meta, encode
from colonnade.wire.header import DTYPES, Limits
from colonnade.wire.message import Message

NAMES = st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable() and text != "__metadata__")
DTYPE = st.sampled_from([dtype.newbyteorder(order) for dtype in DTYPES.values() for order in "<>"])
ARRAYS = DTYPE.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.builds(
    Message,
    run=NAMES,
    sender=NAMES,
    kind=NAMES,
    step=st.integers(0, 10**15 - 1),
    tensors=st.dictionaries(NAMES, ARRAYS, max_size=4),
    meta=st.dictionaries(st.text(), JSON, max_size=3),
)


def same(left, right) -> bool:
    return left.shape == right.shape and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


@settings(max_examples=150, deadline=None)
@given(MESSAGES, st.integers(0, 10**15 - 1))
def test_what_goes_in_comes_out(message, sequence):
    """Every message that can be written is read back equal, and its arrays are aligned."""
    got, number = decode(encode(message, sequence).tobytes())
    assert number == sequence
    assert (got.run, got.sender, got.kind, got.step) == (message.run, message.sender, message.kind, message.step)
    assert list(got.tensors) == list(message.tensors) and got.meta == dict(message.meta)
    for name, tensor in message.tensors.items():
        assert same(got.tensors[name], tensor) and got.tensors[name].dtype == tensor.dtype.newbyteorder("<")
        assert got.tensors[name].flags.aligned


@settings(max_examples=100, deadline=None)
@given(MESSAGES)
def test_frames_are_safetensors(message):
    """Anybody's safetensors reads our frames."""
    read = dict(safetensors.deserialize(encode(message).tobytes()))
    assert set(read) == set(message.tensors)
    for name, tensor in message.tensors.items():
        assert bytes(read[name]["data"]) == tensor.astype(tensor.dtype.newbyteorder("<")).tobytes()
        assert tuple(read[name]["shape"]) == tensor.shape


@settings(max_examples=100, deadline=None)
@given(MESSAGES, st.integers(1, 64))
def test_a_frame_cut_into_parts_is_the_frame(message, size):
    """Large frames travel in pieces."""
    frame = encode(message)
    pieces = [b"".join(frame.parts(start, min(size, frame.size - start))) for start in range(0, frame.size, size)]
    assert b"".join(pieces) == frame.tobytes() and len(frame.tobytes()) == frame.size


def test_arrays_are_not_copied():
    """Sending takes no second copy of a large tensor, and neither does reading."""
    tensor = np.arange(1000.0)
    frame = encode(Message("r", "a", "k", 0, {"x": tensor}))
    assert np.shares_memory(np.frombuffer(frame.buffers[1], dtype=np.uint8), tensor)
    data = np.frombuffer(frame.tobytes(), dtype=np.uint8)
    assert np.shares_memory(decode(data.data)[0].tensors["x"], data)


def test_odd_layouts_are_written_as_what_they_mean():
    """Transposed, reversed, strided and big-endian arrays, and numpy scalars, keep their values."""
    base = np.arange(24.0).reshape(4, 6)
    odd = {"t": base.T, "r": base[::-1], "s": base[:, ::2], "b": base.astype(">f8"), "f": np.asfortranarray(base)}
    odd["n"] = np.float32(2.5)
    got = decode(encode(Message("r", "a", "k", 0, odd)).tobytes())[0].tensors
    for name, tensor in odd.items():
        assert same(got[name], np.asarray(tensor)), name


def test_not_a_number_in_meta_survives():
    """A loss that has become NaN is still told, as it is in one process."""
    got = decode(encode(Message("r", "a", "k", 0, {}, {"loss": float("nan"), "best": float("inf")})).tobytes())[0]
    assert np.isnan(got.meta["loss"]) and got.meta["best"] == float("inf")


UNSENDABLE = {
    "step nan": {"step": float("nan")},
    "step negative": {"step": -1},
    "step huge": {"step": 10**15},
    "step bool": {"step": True},
    "kind empty": {"kind": ""},
    "kind with newline": {"kind": "a\nb"},
    "kind long": {"kind": "k" * 257},
    "kind no text": {"kind": ["upload"]},
    "tensor no array": {"tensors": {"x": [1, 2]}},
    "tensor of objects": {"tensors": {"x": np.array([{}])}},
    "tensor complex": {"tensors": {"x": np.zeros(1, dtype=complex)}},
    "tensor name taken": {"tensors": {"__metadata__": np.zeros(1)}},
    "tensor name no text": {"tensors": {3: np.zeros(1)}},
    "tensors too many": {"tensors": {str(n): np.zeros(0) for n in range(1025)}},
    "rank too high": {"tensors": {"x": np.zeros((1,) * 9)}},
    "meta no JSON": {"meta": {"x": {1, 2}}},
    "meta array": {"meta": {"x": np.zeros(2)}},
    "meta large": {"meta": {"x": "y" * (1 << 20)}},
    "meta half a character": {"meta": {"x": "\ud800"}},
}


@pytest.mark.parametrize("case", UNSENDABLE)
def test_what_cannot_be_sent_is_said_before_it_is_sent(case):
    """A role's mistake is a FrameError at its own end, in one process as on the network."""
    fields = {"run": "r", "sender": "a", "kind": "k", "step": 0, "tensors": {}, "meta": {}} | UNSENDABLE[case]
    message = Message(**fields)
    with pytest.raises(FrameError):
        encode(message)
    with pytest.raises(FrameError):
        check(message)


def frame_with(header: object, data: bytes = b"", size: int | None = None) -> bytes:
    text = (
        header if isinstance(header, bytes) else json.dumps(header).encode().replace(b": ", b":").replace(b", ", b",")
    )
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def header_with(**changes: object) -> dict:
    envelope = {"step": "0", "sequence": "0", "run": "r", "sender": "a", "kind": "k", "meta": "{}"}
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    envelope |= {key: value for key, value in changes.items() if key in envelope}
    entry |= {key: value for key, value in changes.items() if key in entry}
    return {"__metadata__": envelope, "x": entry} | changes.get("more", {})


def two(begin: int, end: int) -> dict:
    return {"more": {"y": {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}}}


GOOD = b'{"__metadata__":{"step":"0","sequence":"0","run":"r","sender":"a","kind":"k","meta":"{}"},'
RAW = json.dumps(header_with(), separators=(",", ":")).encode()
LIES = {
    ("nothing", "truncated"): b"",
    ("three bytes", "truncated"): b"abc",
    ("header longer than the frame", "truncated"): frame_with(header_with(), b"", size=9999),
    ("header huge", "is larger than"): frame_with(header_with(), b"", size=2**63),
    ("header not JSON", "bad JSON"): frame_with(GOOD + b"nonsense"),
    ("header a list", "start with step"): frame_with([1, 2]),
    ("header not UTF-8", "not UTF-8"): frame_with(GOOD.replace(b'"k"', b'"\xff\xfe"') + b'"x":1}'),
    ("header with a byte order mark", "start with step"): frame_with(b"\xef\xbb\xbf" + GOOD[:-1] + b"}"),
    ("header deep", "bad JSON"): frame_with(GOOD + b'"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("truncated", "truncated"): frame_with(header_with(), b"\0" * 7),
    ("bytes behind", "behind the last tensor"): frame_with(header_with(), b"\0" * 9),
    ("overlap", "overlap"): frame_with(header_with(**two(4, 8)), b"\0" * 8),
    ("overlap as a whole", "overlap"): frame_with(header_with(**two(0, 8)), b"\0" * 8),
    ("gap", "gap"): frame_with(header_with(**two(9, 10)), b"\0" * 10),
    ("gap at the start", "gap"): frame_with(header_with(data_offsets=[8, 16]), b"\0" * 16),
    ("size is not dtype times shape", "need another number"): frame_with(header_with(shape=[3]), b"\0" * 8),
    ("offsets turned round", "need another number"): frame_with(header_with(data_offsets=[8, 0]), b"\0" * 8),
    ("offsets three", "not whole numbers"): frame_with(header_with(data_offsets=[0, 4, 8]), b"\0" * 8),
    ("offsets text", "not whole numbers"): frame_with(header_with(data_offsets=["0", "8"]), b"\0" * 8),
    ("negative dimension", "negative or huge"): frame_with(header_with(shape=[-1, -2]), b"\0" * 8),
    ("minus zero", "negative or huge"): frame_with(RAW.replace(b"[0,8]", b"[-0,8]"), b"\0" * 8),
    ("huge dimension", "negative or huge"): frame_with(header_with(shape=[2**62, 0], data_offsets=[0, 0])),
    ("dimensions that overflow", "too large"): frame_with(header_with(shape=[2**40, 2**40, 0], data_offsets=[0, 0])),
    ("number of a thousand digits", "negative or huge"): frame_with(
        RAW.replace(b"[2]", b"[%b]" % (b"9" * 1000)), b"\0" * 8
    ),
    ("dimension a float", "is not whole"): frame_with(header_with(shape=[2.0]), b"\0" * 8),
    ("dimension not a number", "is not whole"): frame_with(RAW.replace(b"[2]", b"[NaN]"), b"\0" * 8),
    ("dimension true", "not whole numbers"): frame_with(header_with(shape=[True, 2]), b"\0" * 8),
    ("shape no list", "not whole numbers"): frame_with(header_with(shape=2), b"\0" * 8),
    ("rank nine", "too large"): frame_with(header_with(shape=[1] * 8 + [2]), b"\0" * 8),
    ("dtype unknown", "dtype that is not allowed"): frame_with(header_with(dtype="F31"), b"\0" * 8),
    ("dtype not allowed", "dtype that is not allowed"): frame_with(header_with(dtype="BF16", shape=[4]), b"\0" * 8),
    ("dtype no text", "dtype that is not allowed"): frame_with(header_with(dtype=["F32"]), b"\0" * 8),
    ("entry without shape", "must have exactly"): frame_with(header_with(more={"x": {"dtype": "F32"}}), b"\0" * 8),
    ("entry with an extra key", "must have exactly"): frame_with(
        header_with(more={"x": header_with()["x"] | {"z": 1}}), b"\0" * 8
    ),
    ("entry no object", "must have exactly"): frame_with(header_with(more={"x": 3}), b"\0" * 8),
    ("tensor name with a newline", "printable text"): frame_with(header_with(more={"a\nb": 3}), b"\0" * 8),
    ("key twice", "stands there twice"): frame_with(
        GOOD
        + b'"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
    ),
    ("kind twice", "stands there twice"): frame_with(GOOD.replace(b'"kind":"k"', b'"kind":"k","kind":"z"')[:-1] + b"}"),
    ("second envelope", "stands there twice"): frame_with(GOOD + b'"__metadata__":{}}'),
    ("half a character", "bad JSON"): frame_with(GOOD.replace(b'"k"', b'"\\ud800"')[:-1] + b"}"),
    ("too many tensors", "more than 1024"): frame_with(header_with(more={str(n): 1 for n in range(1025)}), b"\0" * 8),
    ("bool that is neither", "neither 0 nor 1"): frame_with(header_with(dtype="BOOL", shape=[8]), b"\1\0\2\0\0\0\0\0"),
    ("no envelope", "start with step"): frame_with({"x": header_with()["x"]}, b"\0" * 8),
    ("step not a number", "start with step"): frame_with(header_with(step="NaN"), b"\0" * 8),
    ("step negative", "start with step"): frame_with(header_with(step="-1"), b"\0" * 8),
    ("step with a zero before", "start with step"): frame_with(header_with(step="007"), b"\0" * 8),
    ("step huge", "start with step"): frame_with(header_with(step="9" * 16), b"\0" * 8),
    ("step a number", "start with step"): frame_with(header_with(step=3), b"\0" * 8),
    ("sequence missing", "start with step"): frame_with(RAW.replace(b'"sequence":"0",', b""), b"\0" * 8),
    ("sender empty", "printable text"): frame_with(header_with(sender=""), b"\0" * 8),
    ("run no text", "printable text"): frame_with(header_with(run=3), b"\0" * 8),
    ("meta no text", "meta is not text"): frame_with(header_with(meta={}), b"\0" * 8),
    ("meta no JSON", "bad JSON"): frame_with(header_with(meta="{"), b"\0" * 8),
    ("meta no object", "meta is not a JSON object"): frame_with(header_with(meta="[1]"), b"\0" * 8),
    ("meta deep", "bad JSON"): frame_with(header_with(meta='{"a":' + "[" * 50_000 + "]" * 50_000 + "}"), b"\0" * 8),
    ("meta with a key twice", "stands there twice"): frame_with(header_with(meta='{"a":1,"a":2}'), b"\0" * 8),
    ("meta with half a character", "bad JSON"): frame_with(header_with(meta='{"a":"\\ud800"}'), b"\0" * 8),
    ("meta with a huge number", "bad JSON"): frame_with(header_with(meta=f'{{"a":{"9" * 10_000}}}'), b"\0" * 8),
}


def test_the_frame_that_the_lies_are_made_from_is_good():
    """Otherwise the lies below would be refused for the wrong reason."""
    message, _ = decode(frame_with(header_with(), b"\0" * 8))
    assert same(message.tensors["x"], np.zeros(2, dtype="f4"))
    assert decode(frame_with(GOOD[:-1] + b"}"))[0].kind == "k"


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie[0])
def test_a_frame_that_lies_is_refused(lie):
    """Each lie ends in a FrameError with its own reason, never in another exception, and never in a message."""
    with pytest.raises(FrameError, match=lie[1]):
        decode(LIES[lie])


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(frame_bytes=100), "larger than 100"),
        (Limits(header_bytes=64), "header of"),
        (Limits(tensors=0), "more than 0"),
        (Limits(rank=0), "too large"),
        (Limits(name_length=3), "1 to 3 characters"),
    ],
)
def test_each_limit_holds_at_both_ends(limits, reason):
    """What a party limits, it neither sends nor reads."""
    message = Message("r", "a", "kind", 0, {"x": np.zeros(20)})
    with pytest.raises(FrameError, match=reason):
        decode(encode(message).tobytes(), limits)
    with pytest.raises(FrameError):
        encode(message, 0, limits)


def test_meta_that_nobody_may_send_is_not_read():
    """A peer that leaves its own check out could fill the memory with twice what anybody is allowed."""
    large, small = {"x": "y" * 400}, Limits(header_bytes=800)
    with pytest.raises(FrameError, match="meta of 408 bytes is too large"):
        encode(Message("r", "a", "k", 0, {}, large), 0, small)
    with pytest.raises(FrameError, match="meta of 408 bytes is too large"):
        decode(frame_with(header_with(meta=json.dumps(large)), b"\0" * 8), small)


def test_meta_waits_as_text():
    """As values, what a peer has sent and nobody has read takes 25 times the memory that it is allowed."""
    meta = {"a": [[]] * 1000, "größe": 2}
    got = decode(encode(Message("r", "a", "k", 0, {}, meta)).tobytes())[0].meta
    assert isinstance(got, Written) and not any(isinstance(held, dict | list) for held in gc.get_referents(got))
    assert got.read() == meta == got
    assert (list(got), len(got), got["größe"]) == (list(meta), 2, 2)


def test_an_odd_start_is_copied_into_place():
    """A foreign frame whose buffers are not aligned is read all the same, into arrays that are."""
    for spaces in range(8):
        got = decode(frame_with(RAW + b" " * spaces, b"\0\0\x80?" * 2))[0].tensors["x"]
        assert got.flags.aligned and got.tolist() == [1.0, 1.0]


def test_small_helpers():
    """An empty frame has no parts, and meta is an object."""
    assert list(Frame((), 0).parts(0, 0)) == []
    assert decode_meta("{}") == {}
